package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Authorize gets a token with a person's help: it listens on this machine for
// the redirect, hands the authorization URL to open, and waits until the
// redirect has come and the token is stored, or ctx ends. With a grant
// that needs no person it asks none. Tokens at hand are not used.
func (a *Authorizer) Authorize(ctx context.Context, open func(url string) error) error {
	return a.secrets.clean(a.authorize(ctx, open))
}

func (a *Authorizer) authorize(ctx context.Context, open func(url string) error) error {
	a.recall(ctx)
	c, err := a.asked(ctx)
	if err != nil {
		return err
	}
	if a.oauth.Alone() {
		a.mu.Lock()
		a.held, a.failed = nil, nil
		a.mu.Unlock()
		return a.byItself(ctx, &flight{need: refused}, c)
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
	n, err := a.begin(asking, c, d.redirect, false)
	if err != nil {
		return err
	}
	// A browser may come back before open does: some wait for its end.
	opened := make(chan error, 1)
	go func() { opened <- open(n.url) }()
	return d.await(ctx, n, opened, func(redirect string) error { return a.finish(ctx, n, redirect) })
}

// Finish completes the consent that an AuthRequired gave the URL of: redirected
// is the URL to which the authorization server sent the person.
func (a *Authorizer) Finish(ctx context.Context, redirected string) error {
	u, err := url.Parse(redirected)
	if err != nil {
		return errors.New("the redirect cannot be read as a URL")
	}
	a.mu.Lock()
	n := a.pending[u.Query().Get("state")]
	a.mu.Unlock()
	if n == nil {
		return errors.New("nobody waits for this redirect: it belongs to another process, was used before, or came too late; begin anew")
	}
	return a.secrets.clean(a.finish(ctx, n, redirected))
}

func (a *Authorizer) finish(ctx context.Context, n *consent, redirected string) error {
	unlock := a.lock(ctx)
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return a.complete(ctx, n, redirected)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.web.server.String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
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
