package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// The names of RFC 8693 and of the identity assertion grant.
const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token" //nolint:gosec // the name of a kind
	typeAssertion = "urn:ietf:params:oauth:token-type:id-jag"
)

// alone makes the token request of a grant that needs no person.
func (a *Authorizer) alone(ctx context.Context, p *place, scopes []string) (url.Values, error) {
	form := url.Values{"grant_type": {string(a.oauth.Grant)}, "resource": {p.resource}}
	setScopes(form, scopes)
	if a.oauth.Grant == mcpvisor.GrantJWTBearer {
		assertion, err := a.assertion(ctx, p, scopes)
		if err != nil {
			return nil, err
		}
		form.Set("assertion", assertion)
	}
	return form, nil
}

// assertion gets what the authorization server is shown.
func (a *Authorizer) assertion(ctx context.Context, p *place, scopes []string) (string, error) {
	if a.oauth.Enterprise != nil {
		return a.exchange(ctx, p, scopes)
	}
	assertion, err := guard.Wait(ctx, "Assertion", nil, func(ctx context.Context) (string, error) {
		return a.oauth.FetchAssertion(ctx, mcpvisor.AssertionRequest{
			Issuer: p.server.Issuer, Resource: p.resource, ClientID: a.oauth.ClientID, Scopes: scopes})
	})
	return a.supplied("assertion", assertion, err)
}

// exchange gets an assertion for a person's login (RFC 8693, section 2.1).
func (a *Authorizer) exchange(ctx context.Context, p *place, scopes []string) (string, error) {
	e := a.oauth.Enterprise
	login, err := guard.Wait(ctx, "IDToken", nil, e.FetchIDToken)
	if login, err = a.supplied("ID token", login, err); err != nil {
		return "", err
	}
	me := &client{id: e.ClientID, secret: e.ClientSecret, method: methodPost}
	if me.secret == "" {
		me.method = methodNone
	}
	form := url.Values{"grant_type": {grantExchange}, "requested_token_type": {typeAssertion}, "audience": {p.server.Issuer},
		"resource": {p.resource}, "subject_token": {login}, "subject_token_type": {typeIDToken}}
	setScopes(form, scopes)
	got, err := a.ask(ctx, e.TokenEndpoint, "", me, form)
	if err != nil {
		return "", fmt.Errorf("asking the identity provider for an assertion: %w", err)
	}
	return got.access, nil
}

// supplied looks at what the host has supplied.
func (a *Authorizer) supplied(what, text string, err error) (string, error) {
	a.secrets.hide(text)
	var required *mcpvisor.AuthRequired
	switch {
	case errors.As(err, &required):
		return "", err
	case err != nil:
		return "", &passing{err: fmt.Errorf("the host has no %s: %w", what, err)}
	case text == "":
		return "", &passing{err: fmt.Errorf("the host gave an empty %s", what)}
	}
	return text, nil
}
