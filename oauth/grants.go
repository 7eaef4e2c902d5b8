package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// The identifiers of the token exchange grant (RFC 8693, section 2.1) and of the
// Identity Assertion Authorization Grant (ID-JAG).
const (
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // an identifier, not a secret
	tokenTypeIDToken   = "urn:ietf:params:oauth:token-type:id_token"       //nolint:gosec // an identifier, not a secret
	tokenTypeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"         //nolint:gosec // an identifier, not a secret
)

// requestWithoutUser gets a token by a grant that needs no user: client credentials
// (RFC 6749, section 4.4) or a JWT assertion (RFC 7523, section 2.1).
func (a *authorizer) requestWithoutUser(ctx context.Context, why reason) error {
	ctx, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	c := why.challenge
	a.mu.Lock()
	d, tokens, source := a.discovery, a.tokens, a.source
	a.mu.Unlock()
	if why.trigger >= triggerRejected {
		// The same request would yield the same token again.
		if tokens != nil && (why.trigger == triggerScopes && (metadata.CoverScopes(tokens.Scopes, c.Scopes) || metadata.CoverScopes(tokens.RequestedScopes, c.Scopes)) ||
			why.trigger == triggerRejected && why.repeated && source == fromGrant) {
			return &mcpvisor.AuthRequired{Reason: "the server rejects the token that its authorization server issued to this client", Err: c.Err()}
		}
		d = nil // the authorization server may have changed
	}
	if d == nil {
		var err error
		if d, err = metadata.Discover(ctx, a.http, c.MetadataURL, a.config.Issuer); err != nil {
			return a.asAuthRequired(err)
		}
	}
	// The secret must not reach an authorization server that it does not belong to.
	if err := a.checkIssuer(d.Server.Issuer); err != nil {
		return a.asAuthRequired(err)
	}
	me := &client{id: a.config.ClientID, secret: a.config.ClientSecret, privateKey: a.config.PrivateKey}
	me.authMethod = authMethodFor(me, d.Server.TokenEndpointAuthMethodsSupported)
	scopes := a.scopes(c, d, tokens)
	form, err := a.grantForm(ctx, d, scopes)
	if err != nil {
		return a.asAuthRequired(err)
	}
	key, err := a.proofKey(d, c)
	if err != nil {
		return err
	}
	got, err := a.requestToken(ctx, d.Server.TokenEndpoint, d.Server.Issuer, me, form, key)
	if err != nil {
		return a.asAuthRequired(fmt.Errorf("requesting a token as client %q: %w", me.id, err))
	}
	next := &Authorization{Issuer: d.Server.Issuer, Resource: d.Resource, ClientID: me.id, Scopes: scopes, RequestedScopes: scopes}
	got.applyTo(next)
	// Discovery is repeated only after the server has rejected a token.
	a.mu.Lock()
	a.discovery = d
	a.mu.Unlock()
	return a.save(ctx, next, fromGrant)
}

// grantForm returns the parameters of the token request: RFC 6749, section 4.4.2, for client
// credentials, and RFC 7523, section 2.1, for an assertion; both with the resource (RFC
// 8707, section 2.2).
func (a *authorizer) grantForm(ctx context.Context, d *metadata.Discovery, scopes []string) (url.Values, error) {
	form := url.Values{"grant_type": {string(a.config.Grant)}, "resource": {d.Resource}}
	setScopes(form, scopes)
	if a.config.Grant == GrantJWTBearer {
		assertion, err := a.fetchAssertion(ctx, d, scopes)
		if err != nil {
			return nil, err
		}
		form.Set("assertion", assertion)
	}
	return form, nil
}

// fetchAssertion gets the assertion from the host, or from the identity provider of
// an enterprise.
func (a *authorizer) fetchAssertion(ctx context.Context, d *metadata.Discovery, scopes []string) (string, error) {
	if a.config.Enterprise != nil {
		return a.exchangeIDToken(ctx, d, scopes)
	}
	assertion, err := hostcall.Wait(ctx, "FetchAssertion", nil, func(ctx context.Context) (string, error) {
		if a.config.FetchAssertion == nil {
			return readTokenFile(a.config.AssertionFile)
		}
		return a.config.FetchAssertion(ctx, AssertionRequest{
			Issuer: d.Server.Issuer, Resource: d.Resource, ClientID: a.config.ClientID, Scopes: scopes})
	})
	return a.checkSupplied("assertion", assertion, err)
}

// maxTokenFile is the longest file of a token, in bytes.
const maxTokenFile = 1 << 20

// readTokenFile returns the token in a file. Another process keeps it fresh, so it is not
// kept here.
func readTokenFile(path string) (string, error) {
	text, err := regularfile.Read(path, maxTokenFile)
	return strings.TrimSpace(string(text)), err
}

// exchangeIDToken exchanges the ID token of the user's login for an assertion that
// the authorization server accepts (RFC 8693, section 2.1; SEP-990).
func (a *authorizer) exchangeIDToken(ctx context.Context, d *metadata.Discovery, scopes []string) (string, error) {
	e := a.config.Enterprise
	idToken, err := hostcall.Wait(ctx, "FetchIDToken", nil, func(ctx context.Context) (string, error) {
		if e.FetchIDToken == nil {
			return readTokenFile(e.IDTokenFile)
		}
		return e.FetchIDToken(ctx)
	})
	if idToken, err = a.checkSupplied("ID token", idToken, err); err != nil {
		return "", err
	}
	// The identity provider knows this client by credentials of its own.
	me := &client{id: e.ClientID, secret: e.ClientSecret, authMethod: authSecretPost}
	if me.secret == "" {
		me.authMethod = authNone
	}
	form := url.Values{"grant_type": {grantTokenExchange}, "requested_token_type": {tokenTypeIDJAG}, "audience": {d.Server.Issuer},
		"resource": {d.Resource}, "subject_token": {idToken}, "subject_token_type": {tokenTypeIDToken}}
	setScopes(form, scopes)
	// The answer holds the assertion as its access_token (RFC 8693, section 2.2.1).
	got, err := a.requestToken(ctx, e.TokenEndpoint, "", me, form, nil)
	if err != nil {
		return "", fmt.Errorf("requesting an assertion from the identity provider: %w", err)
	}
	return got.accessToken, nil
}

// checkSupplied checks what a function of the host returned. Its failure counts as
// temporary, unless it is an AuthRequired.
func (a *authorizer) checkSupplied(what, text string, err error) (string, error) {
	a.redactor.add(text) // an assertion gets a token, so it is a secret
	var required *mcpvisor.AuthRequired
	switch {
	case errors.As(err, &required):
		return "", err
	case err != nil:
		return "", &safehttp.Temporary{Err: fmt.Errorf("the host supplied no %s: %w", what, err)}
	case text == "":
		return "", &safehttp.Temporary{Err: fmt.Errorf("the host supplied an empty %s", what)}
	}
	return text, nil
}
