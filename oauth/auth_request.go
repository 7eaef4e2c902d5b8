package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/callback"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

const (
	// authRequestLifetime is how long the user may take to consent.
	authRequestLifetime = 15 * time.Minute
	// authRequestReuse is how long the same URL is given to further callers.
	authRequestReuse = 5 * time.Minute
	// maxAuthRequests is how many requests may be pending; the oldest is dropped.
	maxAuthRequests = 16
)

// authRequest is one authorization request (RFC 6749, section 4.1.1) that waits for
// its redirect. It is never changed after it was made.
type authRequest struct {
	url          string              // the authorization URL, for the browser
	state        string              // identifies the redirect and rejects forged ones (RFC 6749, section 10.12)
	codeVerifier string              // of PKCE (RFC 7636, section 4.1); sent with the code only
	discovery    *metadata.Discovery // the endpoints that the request is bound to
	client       *clientIdentity     // the client that the request names
	redirectURI  string              // must be repeated in the token request
	scopes       []string            // the requested ones
	challenge    metadata.Challenge  // of the refused request
	hasCallback  bool                // a callback server waits for its redirect
	created      time.Time
}

// newAuthRequest makes an authorization request, or returns a pending one that fits.
// server receives the redirect; without one the redirect URI is that of the spec.
// tokensUseless means that the current tokens are of no use, so a new registration
// may replace them in the store.
func (a *authorizer) newAuthRequest(ctx context.Context, c metadata.Challenge, server *callback.Listener, tokensUseless bool) (*authRequest, error) {
	a.mu.Lock()
	tokens := a.tokens
	pending := a.findPending(c, server)
	a.mu.Unlock()
	if pending != nil {
		return pending, nil
	}
	d, err := metadata.Discover(ctx, a.http, c.MetadataURL, a.preferredIssuer(tokens))
	if err != nil {
		return nil, err
	}
	s := d.Server
	switch {
	case s.AuthorizationEndpoint == "" || s.TokenEndpoint == "":
		return nil, fmt.Errorf("the authorization server %s names no endpoints for the authorization code grant", s.Issuer)
	// MCP 2025-11-25, "Authorization Code Protection": a client must refuse a server
	// whose metadata does not announce PKCE.
	case !d.Guessed && !slices.Contains(s.CodeChallengeMethodsSupported, "S256") && !(a.config.AssumePKCE && len(s.CodeChallengeMethodsSupported) == 0):
		return nil, fmt.Errorf("the authorization server %s does not announce PKCE with S256, without which authorization codes can be stolen; if its documents say that it checks PKCE, set AssumePKCE (in a file \"assume\")", s.Issuer)
	}
	// The redirect URI comes first, because a registration names it.
	known := authFor(d, tokens)
	redirectURI, err := a.redirectURI(known, server)
	if err != nil {
		return nil, err
	}
	// The client registers for all scopes of the server, so that a later step-up needs no
	// new registration.
	scopes := a.scopesForUser(c, d, tokens)
	me, err := a.clientFor(ctx, s, tokens, redirectURI, metadata.UnionScopes(scopes, d.ResourceScopes))
	if err != nil {
		return nil, err
	}
	if me.dynamic && tokensUseless && (known == nil || known.ClientID != me.id) {
		// Without this the next attempt would register another client.
		if err := a.save(ctx, newAuthorization(d, me, redirectURI), fromStore); err != nil {
			a.warn(err.Error())
		}
	}
	// rand.Text has 26 characters and 130 bits; a code verifier has at least 43 characters
	// (RFC 7636, section 4.1).
	r := &authRequest{state: rand.Text(), codeVerifier: rand.Text() + rand.Text(), discovery: d, client: me, redirectURI: redirectURI,
		scopes: scopes, challenge: c, hasCallback: server != nil, created: time.Now()}
	if r.url, err = r.buildURL(s.AuthorizationEndpoint, a.resourceParam(d.Resource)); err != nil {
		return nil, err
	}
	// The state and the verifier are secrets until the code is exchanged.
	a.redactor.add(r.state, r.codeVerifier)
	if err := a.addPending(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// preferredIssuer returns which of several authorization servers to use (MCP, "Authorization
// Server Discovery"): the one where this client is known. Empty: the first.
func (a *authorizer) preferredIssuer(tokens *authorization) string {
	if a.config.Issuer == "" && tokens != nil {
		return tokens.Issuer
	}
	return a.config.Issuer
}

// addPending adds a request to the pending ones. It drops those that are too old,
// and the oldest if there are too many. It fails if Forget ended ctx: a request that
// was made before Forget must not restore the authorization after it.
func (a *authorizer) addPending(ctx context.Context, r *authRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isForgotten(ctx) {
		return errForgotten
	}
	maps.DeleteFunc(a.pending, func(_ string, old *authRequest) bool { return old.isTooOld(authRequestLifetime) })
	for len(a.pending) >= maxAuthRequests {
		oldest := slices.MinFunc(slices.Collect(maps.Values(a.pending)), func(x, y *authRequest) int { return x.created.Compare(y.created) })
		delete(a.pending, oldest.state)
	}
	a.pending[r.state] = r
	return nil
}

// isTooOld reports whether the request is older than limit. Time in which the machine was
// suspended counts; see elapsed.
func (r *authRequest) isTooOld(limit time.Duration) bool {
	return elapsed(r.created, time.Now()) > limit
}

// findPending returns a recent request for the same metadata and scopes, whose URL
// the user may have open, or nil. A request with a callback server is never shared. The
// caller holds a.mu.
func (a *authorizer) findPending(c metadata.Challenge, server *callback.Listener) *authRequest {
	for _, r := range a.pending {
		if server == nil && !r.hasCallback && r.challenge.MetadataURL == c.MetadataURL && r.challenge.DPoP == c.DPoP && !r.isTooOld(authRequestReuse) &&
			slices.Equal(r.scopes, a.scopesForUser(c, r.discovery, a.tokens)) {
			return r
		}
	}
	return nil
}

// errNotPending is the error of a redirect whose state belongs to no pending request.
var errNotPending = errors.New("no authorization request waits for this redirect: it belongs to another process, was used before, or came too late; start the authorization again")

// takePending removes the pending request with that state and returns it. It returns nil
// if no request has the state or if the request is too old. Each request is taken once, because its code must
// be used once (RFC 6749, section 4.1.2).
func (a *authorizer) takePending(state string) *authRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.pending[state]
	delete(a.pending, state)
	if r != nil && a.lastFailure != nil && a.lastFailure.permanent { // it may name the URL that is used up now
		a.lastFailure = nil
	}
	if r != nil && r.isTooOld(authRequestLifetime) {
		return nil
	}
	return r
}

// buildURL returns the authorization URL: RFC 6749, section 4.1.1, with PKCE (RFC
// 7636, section 4.3) and the resource (RFC 8707, section 2.1), which is at most one.
func (r *authRequest) buildURL(endpoint string, resource []string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("the authorization endpoint cannot be parsed: %w", err)
	}
	// The endpoint may have a query of its own, which is kept (RFC 6749, section 3.1). MCP,
	// "Resource Parameter Implementation": authorization and token requests must name the
	// resource, even if the server ignores it.
	sum := sha256.Sum256([]byte(r.codeVerifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": r.client.id, "redirect_uri": r.redirectURI, "state": r.state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	q["resource"] = resource
	setScopes(q, r.scopes)
	if slices.Contains(r.scopes, scopeOfflineAccess) {
		q.Set("prompt", "consent") // OpenID Connect Core 1.0, section 11
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// exchangeCode checks the redirect of a request that was taken from the pending ones,
// and exchanges its code for tokens (RFC 6749, sections 4.1.2 to 4.1.4).
func (a *authorizer) exchangeCode(ctx context.Context, r *authRequest, redirect string) error {
	u, err := url.Parse(redirect)
	if err != nil {
		return errors.New("the redirect cannot be parsed as a URL")
	}
	q := u.Query()
	// The host's FetchAuthorizationCode may return any redirect (RFC 6749, section 10.12).
	if q.Get("state") != r.state {
		return errors.New("the redirect belongs to another authorization request (its state differs); start the authorization again")
	}
	code, s := q.Get("code"), r.discovery.Server
	a.redactor.add(r.state, r.codeVerifier, code)
	// RFC 9207, section 2.4: the client checks iss before it uses anything else.
	switch iss := q.Get("iss"); {
	case iss == "" && s.AuthorizationResponseIssParameterSupported:
		return fmt.Errorf("the redirect has no iss parameter, which %s must send; start the authorization again", s.Issuer)
	case iss != "" && iss != s.Issuer:
		return fmt.Errorf("the redirect comes from another authorization server than %s; its code is not used", s.Issuer)
	}
	// RFC 6749, section 4.1.2.1: an error, or section 4.1.2: a code.
	switch {
	case q.Get("error") != "":
		a.rememberScopes(ctx, nil) // they may be the reason
		return fmt.Errorf("the authorization was refused: %w", a.newErrorResponse(q.Get("error"), q.Get("error_description")))
	case code == "":
		return errors.New("the redirect has no code parameter")
	}
	// The code verifier proves that this client sent the authorization request (RFC 7636,
	// section 4.5).
	key, err := a.proofKey(r.discovery, r.challenge)
	if err != nil {
		return err
	}
	got, err := a.requestToken(ctx, s.TokenEndpoint, s.Issuer, r.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {r.redirectURI},
		"code_verifier": {r.codeVerifier}, "resource": a.resourceParam(r.discovery.Resource)}, key)
	if err != nil {
		return fmt.Errorf("exchanging the code for a token: %w", err)
	}
	next := newAuthorization(r.discovery, r.client, r.redirectURI)
	// Without a scope parameter in the answer, the requested scopes were granted (RFC 6749,
	// section 5.1); applyTo replaces them otherwise.
	next.Scopes, next.RequestedScopes = r.scopes, r.scopes
	got.applyTo(next)
	if err := a.save(ctx, next, fromGrant); err != nil {
		return &notStoredError{err}
	}
	return nil
}

// newAuthorization returns an authorization without tokens. It holds credentials only
// if they were registered dynamically; others are in the spec.
func newAuthorization(d *metadata.Discovery, c *clientIdentity, redirectURI string) *authorization {
	n := &authorization{Issuer: d.Server.Issuer, Resource: d.Resource, ClientID: c.id, AuthMethod: c.authMethod,
		TokenEndpoint: d.Server.TokenEndpoint, Obtained: time.Now()}
	if c.dynamic {
		n.ClientSecret, n.ClientSecretExpires, n.RedirectURL = c.secret, c.secretExpires, redirectURI
	}
	return n
}

// authFor returns the current authorization if the discovered issuer gave it; nil
// otherwise.
func authFor(d *metadata.Discovery, tokens *authorization) *authorization {
	if tokens == nil || tokens.Issuer != d.Server.Issuer {
		return nil
	}
	return tokens
}

// scopeOfflineAccess asks for a refresh token (OpenID Connect Core 1.0, section 11).
const scopeOfflineAccess = "offline_access"

// scopes returns the scopes to request (MCP, "Scope Selection Strategy"): those requested,
// granted and missing before, those of the spec and those of the challenge, which MCP
// calls authoritative. If there are none, they are those of the protected resource
// metadata.
func (a *authorizer) scopes(c metadata.Challenge, d *metadata.Discovery, tokens *authorization) []string {
	all := metadata.UnionScopes(a.config.Scopes, c.Scopes)
	if known := authFor(d, tokens); known != nil {
		all = metadata.UnionScopes(known.RequestedScopes, known.Scopes, known.StepUpScopes, all)
	}
	if len(all) > 0 {
		return all
	}
	return metadata.UnionScopes(d.ResourceScopes)
}

// scopesForUser returns the scopes of an authorization request. Some servers give a
// refresh token only with offline_access.
func (a *authorizer) scopesForUser(c metadata.Challenge, d *metadata.Discovery, tokens *authorization) []string {
	scopes := a.scopes(c, d, tokens)
	if slices.Contains(d.Server.ScopesSupported, scopeOfflineAccess) {
		scopes = metadata.UnionScopes(scopes, []string{scopeOfflineAccess})
	}
	return scopes
}

// resourceParam returns the values of the parameter resource for the server with this
// identifier: one, or none.
func (a *authorizer) resourceParam(identifier string) []string {
	if a.config.OmitResource {
		return nil
	}
	return []string{cmp.Or(a.config.Resource, identifier)}
}

// setScopes sets the scope parameter (RFC 6749, section 3.3).
func setScopes(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// Authorize gets a token with the help of the user: it listens on this machine for
// the redirect, passes the authorization URL to open, and waits until the redirect
// has come and the token is stored, or until ctx ends. Current tokens are not used.
// With a grant that needs no user it requests a token and does not call open. open
// runs in a goroutine of its own; Authorize does not wait for its end.
func (a *authorizer) Authorize(ctx context.Context, open func(url string) error) error {
	return a.redactor.redactError(a.authorize(ctx, open))
}

// authorize is Authorize. Its errors may hold secrets, which Authorize redacts.
func (a *authorizer) authorize(ctx context.Context, open func(url string) error) error {
	if err := a.reload(ctx); err != nil {
		a.warn(a.Redact(err.Error()))
	}
	c, err := a.currentChallenge(ctx)
	if err != nil {
		return err
	}
	// The user wants another token, so the renewal counts as one after a rejection.
	if unattended(&a.config) {
		return a.requestWithoutUser(ctx, reason{trigger: triggerRejected, challenge: c})
	}
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	server, err := a.listenForRedirect(tokens)
	if err != nil {
		return err
	}
	defer server.Close()
	// Discovery and registration are bounded; the wait for the user is bounded by ctx only.
	preparing, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	r, err := a.newAuthRequest(preparing, c, server, false)
	if err != nil {
		return err
	}
	// The redirect may come before open returns: some functions wait for the browser
	// to end.
	opened := make(chan error, 1)
	go func() {
		opened <- hostcall.Do(ctx, "open function", func(context.Context) error { return open(r.url) })
	}()
	err = server.Await(ctx, r.state, opened, func(redirect string) error { return a.Finish(ctx, redirect) })
	if ctx.Err() != nil { // the user did not come back
		a.dropUnconfirmedRegistration(ctx, r)
	}
	return err
}

// dropUnconfirmedRegistration drops the dynamic registration of an authorization
// request that got no redirect. The authorization server may have forgotten the
// client; it then shows that to the user only (RFC 6749, section 4.1.2.1). A refresh
// token proves that the registration exists.
func (a *authorizer) dropUnconfirmedRegistration(ctx context.Context, r *authRequest) {
	a.mu.Lock()
	tokens, source := a.tokens, a.source
	waiting := a.pending[r.state] == r
	a.mu.Unlock()
	if !waiting || !r.client.dynamic || tokens == nil || tokens.ClientID != r.client.id || tokens.RefreshToken != "" {
		return
	}
	next := tokens.clone()
	next.ClientID, next.ClientSecret, next.RedirectURL = "", "", ""
	if err := a.save(ctx, next, source); err != nil {
		a.warn(err.Error())
	}
}

// Finish completes the authorization request whose URL was in an AuthRequired.
// redirect is the URL to which the authorization server sent the browser. If ctx
// ends first, the token request continues in the background, because an authorization
// code can be used only once.
func (a *authorizer) Finish(ctx context.Context, redirect string) error {
	u, err := url.Parse(redirect)
	if err != nil {
		return errors.New("the redirect cannot be parsed as a URL")
	}
	// Taking the request first makes a second Finish with the same redirect fail.
	r := a.takePending(u.Query().Get("state"))
	if r == nil {
		return errNotPending
	}
	done := make(chan error, 1)
	go func() {
		// A renewal that runs may use up the refresh token that the new tokens replace, so
		// this waits for it.
		unlock := a.lockTokens(context.WithoutCancel(ctx))
		defer unlock()
		ctx, cancel := overdue.WithTimeout(context.WithoutCancel(ctx), renewalTimeout)
		defer cancel()
		done <- hostcall.Call("authorization", func() error { return a.redactor.redactError(a.exchangeCode(ctx, r, redirect)) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// currentChallenge returns the last challenge of the server. If the server has not sent
// one yet, it sends a request without a token to get one.
func (a *authorizer) currentChallenge(ctx context.Context) (metadata.Challenge, error) {
	a.mu.Lock()
	c := a.challenge
	a.mu.Unlock()
	if c.Received {
		return c, nil
	}
	ctx, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	header, err := a.http.Probe(ctx)
	if err != nil {
		return c, err
	}
	return metadata.ParseChallenge(header), nil
}

// defaultRedirectURI is used if the spec has no RedirectURL. Its port is chosen.
const defaultRedirectURI = "http://127.0.0.1/callback"

// redirectURI returns the redirect URI of an authorization request: that of the
// callback server, or without one the URI that the spec names, the registered one,
// or one with a free port. A loopback redirect URI may have any port (RFC 8252, section
// 7.3).
func (a *authorizer) redirectURI(known *authorization, server *callback.Listener) (string, error) {
	if server != nil {
		return server.RedirectURI(), nil
	}
	preferred, anyPort := a.preferredRedirectURI(known)
	if !anyPort {
		return preferred.String(), nil
	}
	uri, err := callback.FreePort(preferred)
	if err != nil {
		return "", fmt.Errorf("there is no free port for the redirect: %w; set RedirectURL", err)
	}
	return uri, nil
}

// preferredRedirectURI returns the redirect URI to try first: with the port that was
// registered, because some servers ignore section 7.3 of RFC 8252 and compare it.
// anyPort means that any free port will do.
func (a *authorizer) preferredRedirectURI(known *authorization) (u *url.URL, anyPort bool) {
	text := a.config.RedirectURL
	if text == "" {
		text = defaultRedirectURI
	}
	u, _ = url.Parse(text) // the spec was validated
	if !safehttp.IsLoopback(u.Hostname()) || u.Scheme != "http" || u.Port() != "" && u.Port() != "0" {
		return u, false
	}
	if known != nil && known.RedirectURL != "" {
		if v, err := url.Parse(known.RedirectURL); err == nil && v.Hostname() == u.Hostname() && v.Path == u.Path && v.Port() != "" {
			return v, false
		}
	}
	return u, true
}

// listenForRedirect starts a callback server at the preferred redirect URI. If the
// port of an earlier registration is taken, it uses another one, unless the spec
// names the port.
func (a *authorizer) listenForRedirect(known *authorization) (*callback.Listener, error) {
	u, anyPort := a.preferredRedirectURI(known)
	if !safehttp.IsLoopback(u.Hostname()) || u.Scheme != "http" {
		return nil, fmt.Errorf("the redirect URL %s is not on this machine; pass the URL that arrives there to FinishAuthorization", safehttp.Redacted(u))
	}
	port := u.Port()
	if anyPort {
		port = "0"
	}
	s, err := callback.Listen(u, port)
	if _, free := a.preferredRedirectURI(nil); err != nil && free {
		s, err = callback.Listen(u, "0")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the redirect at %s: %w; free the port, or set another RedirectURL", u.Host, err)
	}
	return s, nil
}
