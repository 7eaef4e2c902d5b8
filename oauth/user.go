package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/callback"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

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
	next := tokens.Clone()
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
func (a *authorizer) redirectURI(known *Authorization, server *callback.Server) (string, error) {
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
func (a *authorizer) preferredRedirectURI(known *Authorization) (u *url.URL, anyPort bool) {
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
func (a *authorizer) listenForRedirect(known *Authorization) (*callback.Server, error) {
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
