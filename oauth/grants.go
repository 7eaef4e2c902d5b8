package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// The identifiers of the device grant (RFC 8628, section 3.4), of the token exchange grant (RFC 8693, section 2.1) and of the
// Identity Assertion Authorization Grant (ID-JAG).
const (
	grantDevice        = "urn:ietf:params:oauth:grant-type:device_code"
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
	me := &clientIdentity{id: a.config.ClientID, secret: a.config.ClientSecret, privateKey: a.config.PrivateKey}
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
	next := &authorization{Issuer: d.Server.Issuer, Resource: d.Resource, ClientID: me.id, Scopes: scopes, RequestedScopes: scopes}
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
	form := url.Values{"grant_type": {string(a.config.Grant)}, "resource": a.resourceParam(d.Resource)}
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
	me := &clientIdentity{id: e.ClientID, secret: e.ClientSecret, authMethod: authSecretPost}
	if me.secret == "" {
		me.authMethod = authNone
	}
	form := url.Values{"grant_type": {grantTokenExchange}, "requested_token_type": {tokenTypeIDJAG}, "audience": {d.Server.Issuer},
		"resource": a.resourceParam(d.Resource), "subject_token": {idToken}, "subject_token_type": {tokenTypeIDToken}}
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

// fetchTimeout bounds one call of the host's FetchAuthorizationCode.
const fetchTimeout = time.Minute

// authorizeAgain gets a token by the authorization code grant (RFC 6749, section 4.1):
// through the host's FetchAuthorizationCode, or else through the user. A renewal never waits for the
// user: it then fails with an AuthRequired that holds the authorization URL. source
// is where the current tokens came from, refreshErr why the refresh token did not
// help.
func (a *authorizer) authorizeAgain(ctx context.Context, r *renewal, source tokenSource, refreshErr error) error {
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	why, c := r.reason, r.reason.challenge
	required := &mcpvisor.AuthRequired{Resource: safehttp.Redacted(a.http.Server()), Reason: "the server requires the user to authorize this client", Err: cmp.Or(refreshErr, c.Err())}
	// A step-up makes sense only for scopes that were neither granted nor requested. MCP,
	// "Step-Up Authorization Flow": clients must not repeat the same request forever.
	if why.trigger == triggerScopes {
		required.Reason = "the server requires more scopes than the token has"
		required.Scopes = c.Scopes
		switch {
		case tokens != nil && metadata.CoverScopes(tokens.Scopes, c.Scopes):
			required.Reason = "the server requires scopes that the token already has"
			return required
		case tokens != nil && metadata.CoverScopes(tokens.RequestedScopes, c.Scopes) && a.config.FetchAuthorizationCode != nil:
			required.Reason = "the server requires scopes that were requested and not granted"
			return required
		}
	}
	if a.config.FetchAuthorizationCode != nil {
		// The token of the last authorization was rejected at once: another one would be,
		// too.
		if why.trigger == triggerRejected && why.repeated && source == fromGrant {
			required.Reason = "the server rejects the token that its authorization server issued"
			return required
		}
		return a.fetchCode(ctx, r, required)
	}
	// Without the host's help the user has to open the URL. The renewal ends here, and
	// Finish or Authorize continues.
	preparing, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	request, err := a.newAuthRequest(preparing, c, nil, why.trigger == triggerRejected)
	if err != nil {
		return a.asAuthRequired(err)
	}
	if why.trigger == triggerScopes {
		a.rememberScopes(ctx, request.scopes)
	}
	required.URL, required.Scopes = request.url, request.scopes
	required.Resource, required.Issuer = request.discovery.Resource, request.discovery.Server.Issuer
	return required
}

// fetchCode gets a token with a code that the host fetches by itself. required is
// the error if the host fails.
func (a *authorizer) fetchCode(ctx context.Context, r *renewal, required *mcpvisor.AuthRequired) error {
	ctx, cancel := overdue.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := a.newAuthRequest(ctx, r.reason.challenge, nil, r.reason.trigger == triggerRejected)
	if err != nil {
		return a.asAuthRequired(err)
	}
	close(r.fetching) // from here on callers wait beyond TokenWait
	redirect, err := hostcall.Wait(ctx, "FetchAuthorizationCode", nil, func(ctx context.Context) (string, error) { return a.config.FetchAuthorizationCode(ctx, request.url) })
	if err != nil {
		required.Reason, required.URL, required.Err = "FetchAuthorizationCode failed", request.url, err
		return required
	}
	// Finish may have received the same redirect, for example from the host's own page.
	if a.takePending(request.state) == nil {
		return a.asAuthRequired(errNotPending)
	}
	err = a.exchangeCode(ctx, request, redirect)
	if notStored := (*notStoredError)(nil); errors.As(err, &notStored) {
		a.warn(err.Error())
		return nil
	}
	return a.asAuthRequired(err)
}

// asAuthRequired makes an error that is not temporary an AuthRequired.
func (a *authorizer) asAuthRequired(err error) error {
	var required *mcpvisor.AuthRequired
	if _, temporary := safehttp.IsTemporary(err); err == nil || temporary || errors.As(err, &required) {
		return err
	}
	return &mcpvisor.AuthRequired{Reason: "no token could be obtained", Resource: safehttp.Redacted(a.http.Server()), Err: err}
}

// rememberScopes stores the scopes that the server missed, so that the next
// authorization requests them, also in another process (MCP, "Step-Up Authorization
// Flow"). nil forgets them.
func (a *authorizer) rememberScopes(ctx context.Context, scopes []string) {
	a.mu.Lock()
	tokens, source := a.tokens, a.source
	a.mu.Unlock()
	if tokens == nil || slices.Equal(tokens.StepUpScopes, scopes) {
		return
	}
	next := tokens.clone()
	next.StepUpScopes = scopes
	if err := a.save(ctx, next, source); err != nil {
		a.warn(err.Error())
	}
}

// renew gets another token than used, by the first of these that works: the store,
// the refresh token, a new authorization. Grants without a user have one step.
func (a *authorizer) renew(ctx context.Context, r *renewal, used string) error {
	why := r.reason
	if unattended(&a.config) {
		return a.requestWithoutUser(ctx, why)
	}
	// Step 1, the store: another process may have renewed the token meanwhile. The lock is
	// held until the end, so the refresh token is used once.
	unlock := a.lockTokens(ctx)
	defer unlock()
	if err := a.reload(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	tokens, source := a.tokens, a.source
	a.mu.Unlock()
	if tokens != nil && tokens.AccessToken != "" && tokens.AccessToken != used && !isExpired(tokens, time.Now()) {
		return nil // renewed by another process
	}
	// Step 2, the refresh token. It cannot add scopes (RFC 6749, section 6). If the server
	// rejected a token that was just refreshed, refreshing it again is useless.
	var refreshErr error
	if why.trigger != triggerScopes && tokens != nil && tokens.RefreshToken != "" && !(why.repeated && source == fromRefresh) {
		refreshErr = a.refresh(ctx, tokens, why.challenge)
		if _, temporary := safehttp.IsTemporary(refreshErr); refreshErr == nil || temporary {
			return refreshErr
		}
		if !a.dropRejected(ctx, tokens, why.trigger, refreshErr) && why.trigger == triggerAhead {
			return refreshErr
		}
	}
	// Step 3, a new authorization, only if the server really asks for it.
	if why.trigger < triggerRejected {
		return nil // the next request shows what the server wants
	}
	return a.authorizeAgain(ctx, r, source, refreshErr)
}

// refresh uses the refresh token (RFC 6749, section 6). If the token endpoint has
// moved, it looks for the new one at the same issuer.
func (a *authorizer) refresh(ctx context.Context, tokens *authorization, c metadata.Challenge) error {
	requesting, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	me := &clientIdentity{id: tokens.ClientID, secret: tokens.ClientSecret, authMethod: tokens.AuthMethod}
	if a.config.ClientID != "" && tokens.ClientID == a.config.ClientID { // the spec may hold a newer secret
		if err := a.checkIssuer(tokens.Issuer); err != nil {
			return err
		}
		me.secret, me.privateKey = a.config.ClientSecret, a.config.PrivateKey
	}
	var key *jwt.DPoPKey
	if tokens.DPoPKey != "" { // the refresh token is bound to it (RFC 9449, section 5)
		var err error
		if key, err = jwt.ParseDPoPKey(tokens.DPoPKey); err != nil {
			return err
		}
	}
	// RFC 8707, section 2.2: the new token is for the same resource.
	next := tokens.clone()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}, "resource": a.resourceParam(tokens.Resource)}
	setScopes(form, scopesToRenew(tokens))
	request := func() (*tokenResponse, error) {
		got, err := a.requestToken(requesting, next.TokenEndpoint, next.Issuer, me, form, key)
		if errorCodeOf(err) == "invalid_scope" && form.Has("scope") { // without it the scopes stay
			form.Del("scope")
			got, err = a.requestToken(requesting, next.TokenEndpoint, next.Issuer, me, form, key)
		}
		return got, err
	}
	got, err := request()
	// The refresh token belongs to its issuer. It is never sent to an endpoint of another
	// one, whatever the server names now.
	if isGone(err) {
		d, discoveryErr := metadata.Discover(requesting, a.http, c.MetadataURL, tokens.Issuer)
		if discoveryErr == nil && d.Server.Issuer == tokens.Issuer && d.Server.TokenEndpoint != tokens.TokenEndpoint {
			next.TokenEndpoint = d.Server.TokenEndpoint
			got, err = request()
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the token: %w", err)
	}
	got.applyTo(next)
	// ctx and not requesting: its deadline must not prevent the save, and Forget cancels
	// ctx with its own cause.
	if err := a.save(ctx, next, fromRefresh); err != nil {
		a.warn("a renewed token could not be stored, and will be lost when this process ends: " + err.Error())
	}
	return nil
}

// scopesToRenew returns the scopes of a renewal (RFC 6749, section 6: none that the user did
// not grant). Some servers refuse a renewal without them. Servers leave offline_access out of
// their answers, and the refresh token shows that it was granted.
func scopesToRenew(tokens *authorization) []string {
	if len(tokens.Scopes) == 0 {
		return metadata.UnionScopes(tokens.RequestedScopes)
	}
	if slices.Contains(tokens.RequestedScopes, scopeOfflineAccess) {
		return metadata.UnionScopes(tokens.Scopes, []string{scopeOfflineAccess})
	}
	return metadata.UnionScopes(tokens.Scopes)
}

// dropRejected removes what the authorization server rejected permanently: the refresh
// token after invalid_grant, and a dynamic registration that the server no longer
// knows. It reports whether it removed anything. After any other error,
// such as a wrong secret, the tokens are kept, because the user can fix the cause.
func (a *authorizer) dropRejected(ctx context.Context, tokens *authorization, t trigger, err error) bool {
	next := tokens.clone()
	switch code := errorCodeOf(err); { // RFC 6749, section 5.2
	case code == "invalid_grant": // expired, revoked, or used before
	case (code == "invalid_client" || code == "unauthorized_client") && tokens.RedirectURL != "":
		// Only a dynamic registration: credentials of the spec are the user's to change.
		a.dropRegistration(next)
	default:
		return false
	}
	next.RefreshToken = ""
	if t != triggerAhead { // ahead of the expiry the access token is still valid
		next.AccessToken = ""
	}
	if err := a.save(ctx, next, fromStore); err != nil {
		a.warn(err.Error())
	}
	return true
}

// applyTo puts the tokens of a response into an authorization. If the response has
// no new refresh token, the old one stays valid (RFC 6749, section 6).
func (t *tokenResponse) applyTo(next *authorization) {
	next.AccessToken, next.Expires, next.Obtained = t.accessToken, t.expires, time.Now()
	if next.DPoPKey = ""; t.key != nil {
		next.DPoPKey = t.key.Text()
	}
	if t.refreshToken != "" {
		next.RefreshToken = t.refreshToken
	}
	if t.scopes != nil {
		next.Scopes = slices.Clone(t.scopes)
	}
}
