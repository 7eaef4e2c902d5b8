package oauth

import (
	"context"
	"errors"
	"net/url"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/oauth/metadata"
)

// Authorize gets a token with the help of the user: it listens on this machine for
// the redirect, passes the authorization URL to open, and waits until the redirect
// has come and the token is stored, or until ctx ends. Current tokens are not used.
// With a grant that needs no user it requests a token and does not call open. open
// runs in a goroutine of its own; Authorize does not wait for its end.
func (a *Authorizer) Authorize(ctx context.Context, open func(url string) error) error {
	return a.redactor.redactError(a.authorize(ctx, open))
}

// authorize is Authorize. Its errors may hold secrets, which Authorize redacts.
func (a *Authorizer) authorize(ctx context.Context, open func(url string) error) error {
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
	preparing, cancel := context.WithTimeout(ctx, renewalTimeout)
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
func (a *Authorizer) dropUnconfirmedRegistration(ctx context.Context, r *authRequest) {
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
func (a *Authorizer) Finish(ctx context.Context, redirect string) error {
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewalTimeout)
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
func (a *Authorizer) currentChallenge(ctx context.Context) (metadata.Challenge, error) {
	a.mu.Lock()
	c := a.challenge
	a.mu.Unlock()
	if c.Received {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	header, err := a.http.Probe(ctx)
	if err != nil {
		return c, err
	}
	return metadata.ParseChallenge(header), nil
}
