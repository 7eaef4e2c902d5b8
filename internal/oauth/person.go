package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// Authorize gets a token with a person's help: it listens on this machine for
// the redirect, hands the authorization URL to open, and waits until the
// redirect has come and the token is stored, or ctx ends. With a grant
// that needs no person it asks none. Tokens at hand are not used.
func (a *Authorizer) Authorize(ctx context.Context, open func(url string) error) error {
	return a.secrets.clean(a.authorize(ctx, open))
}

func (a *Authorizer) authorize(ctx context.Context, open func(url string) error) error {
	if err := a.recall(ctx); err != nil {
		a.warn(a.Redact(err.Error()))
	}
	c, err := a.asked(ctx)
	if err != nil {
		return err
	}
	if a.oauth.Unattended() {
		return a.byItself(ctx, &flight{need: refused, challenge: c})
	}
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	d, err := a.openDoor(held)
	if err != nil {
		return err
	}
	defer d.close()
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := a.begin(asking, c, d, false)
	if err != nil {
		return err
	}
	// A browser may come back before open does: some wait for its end.
	opened := make(chan error, 1)
	go func() {
		opened <- guard.Do(ctx, "open function", func(context.Context) error { return open(n.url) })
	}()
	err = d.await(ctx, n, opened, func(redirect string) error { return a.Finish(ctx, redirect) })
	if ctx.Err() != nil {
		a.distrust(ctx, n)
	}
	return err
}

// distrust drops a registration with which a person was sent away who did not
// come back: it may be that the authorization server does not know it any more,
// and tells only the person. Tokens tell us.
func (a *Authorizer) distrust(ctx context.Context, n *consent) {
	a.mu.Lock()
	held, origin := a.held, a.origin
	waits := a.pending[n.state] == n
	a.mu.Unlock()
	if !waits || !n.client.dynamic || held == nil || held.ClientID != n.client.id || held.RefreshToken != "" {
		return
	}
	next := held.Clone()
	next.ClientID, next.ClientSecret, next.RedirectURL = "", "", ""
	if err := a.keep(ctx, next, origin); err != nil {
		a.warn(err.Error())
	}
}

// Finish completes the consent that an AuthRequired gave the URL of: redirected
// is the URL to which the authorization server sent the person. If ctx ends, the
// exchange for a token goes on in the background: what the redirect brings is
// good for once.
func (a *Authorizer) Finish(ctx context.Context, redirected string) error {
	u, err := url.Parse(redirected)
	if err != nil {
		return errors.New("the redirect cannot be read as a URL")
	}
	n := a.claim(u.Query().Get("state"))
	if n == nil {
		return errTaken
	}
	done := make(chan error, 1)
	go func() {
		unlock := a.lock(context.WithoutCancel(ctx))
		defer unlock()
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		done <- guard.Call("authorization", func() error { return a.secrets.clean(a.complete(work, n, redirected)) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// asked is what the server said when it refused us last. If it has not been
// asked yet it is asked now, without a token.
func (a *Authorizer) asked(ctx context.Context) (challenge, error) {
	a.mu.Lock()
	c := a.refusal
	a.mu.Unlock()
	if c.heard {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// It holds no secret: it goes to where a server at that address sends it.
	req, err := http.NewRequestWithContext(context.WithValue(ctx, nearby{}, true), http.MethodPost, a.web.server.String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := a.web.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return c, err
	}
	_ = resp.Body.Close()
	return challengeIn(resp.Header), nil
}
