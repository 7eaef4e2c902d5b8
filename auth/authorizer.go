package auth

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
)

// Authorizer obtains and renews the tokens of one registration. Safe for
// concurrent use. It has goroutines and timers only while something is
// attached or under way.
type Authorizer struct {
	oauth   messages.OAuth
	key     messages.TokenKey
	store   messages.TokenStore // nil: nothing is kept
	web     *web
	secrets secrets
	warn    func(string)
	// turn is held by whoever replaces the tokens.
	turn chan struct{}
	// doubted: the current token has not been accepted by the server yet.
	doubted atomic.Bool

	mu sync.Mutex
	// held is what is known. It is replaced and never changed.
	held *messages.Authorization
	// origin is where the current token came from, until it is accepted.
	origin origins
	// refusal is what the server said last.
	refusal challenge
	flight  *flight
	failed  *failure
	pending map[string]*consent
	place   *place // of the client credentials grant

	attached int
	life     context.Context
	end      context.CancelCauseFunc
	timer    *time.Timer
}

// origins say where a token came from.
type origins int

const (
	fromStore origins = iota
	fromRefresh
	fromConsent
)

// New makes an authorizer for the server of a valid spec with Auth. warn gets
// what is worth a line in a log; it must not block.
func New(spec *messages.HTTP, warn func(string)) (*Authorizer, error) {
	server, err := url.Parse(spec.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed; write it as https://host/path")
	}
	server.User, server.Fragment, server.RawFragment = nil, "", ""
	a := &Authorizer{oauth: *spec.Auth, key: spec.Auth.Key(server), store: spec.Auth.Store,
		web: newWeb(server, spec), warn: warn, pending: map[string]*consent{}, turn: make(chan struct{}, 1)}
	a.secrets.keep(a.oauth.ClientSecret, a.oauth.PrivateKey)
	if e := a.oauth.Enterprise; e != nil {
		a.secrets.keep(e.ClientSecret)
	}
	for _, value := range spec.Headers {
		a.secrets.keep(value)
	}
	switch {
	case a.oauth.Alone():
		a.store = nil // there is always another token to be had
	case a.store == nil:
		if a.store, err = NewFileStore(""); err != nil {
			a.store = NewMemoryStore()
			warn(err.Error())
		}
	}
	return a, nil
}

// wait is how long a caller waits for a token.
func (a *Authorizer) wait() time.Duration {
	if a.oauth.Wait > 0 {
		return a.oauth.Wait
	}
	return messages.DefaultTokenWait
}

// Hide returns a text without any secret that the authorizer knows of.
func (a *Authorizer) Hide(text string) string { return a.secrets.replace(text) }

// errDetached is why the work of an authorizer ends.
var errDetached = errors.New("the session ended")

// Attach begins a session: what is stored is read, and tokens are renewed
// ahead from now on. Detach ends it.
func (a *Authorizer) Attach(ctx context.Context) {
	a.mu.Lock()
	if a.attached++; a.attached == 1 {
		a.life, a.end = context.WithCancelCause(context.Background())
	}
	a.mu.Unlock()
	a.recall(ctx)
	a.mu.Lock()
	a.arm()
	a.mu.Unlock()
}

// Detach ends a session. A request to the token endpoint that is under way is
// given grace to come back: a refresh token that was rotated for nobody is lost.
// When Detach returns, nothing of the authorizer is left running for the session.
func (a *Authorizer) Detach(grace time.Duration) {
	a.mu.Lock()
	if a.attached--; a.attached > 0 {
		a.mu.Unlock()
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	f, end := a.flight, a.end
	a.mu.Unlock()
	if f != nil {
		limit := time.NewTimer(max(grace, 0))
		defer limit.Stop()
		select {
		case <-f.done:
		case <-limit.C:
		}
	}
	end(errDetached)
	if f != nil {
		<-f.done
	}
	a.web.client.CloseIdleConnections()
}

// recall takes what is stored, if it is newer than what is known.
func (a *Authorizer) recall(ctx context.Context) {
	if a.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	stored, err := a.store.Load(ctx, a.key)
	if err != nil {
		a.warn(a.Hide(err.Error()))
	}
	if stored == nil {
		return
	}
	stored = stored.Clone()
	a.secrets.hide(stored.AccessToken, stored.RefreshToken, stored.ClientSecret)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil || stored.Obtained.After(a.held.Obtained) {
		a.adopt(stored, fromStore)
	}
}

// adopt makes an authorization the current one. a.mu is held.
func (a *Authorizer) adopt(n *messages.Authorization, from origins) {
	a.held, a.origin, a.failed = n, from, nil
	a.doubted.Store(n.AccessToken != "")
	a.arm()
}

// keep stores an authorization and makes it the current one, in this order.
// The error is the store's; the authorization is current all the same.
func (a *Authorizer) keep(ctx context.Context, n *messages.Authorization, from origins) error {
	a.secrets.hide(n.AccessToken, n.RefreshToken, n.ClientSecret)
	var err error
	if a.store != nil {
		if err = a.store.Save(ctx, a.key, n.Clone()); err != nil {
			err = a.secrets.clean(err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adopt(n, from)
	return err
}

// lock keeps others away who would replace the tokens, in this process and in
// others. Without a lock it goes on all the same: a token renewed twice is better
// than none.
func (a *Authorizer) lock(ctx context.Context) (unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leave := func() {}
	select {
	case a.turn <- struct{}{}:
		leave = func() { <-a.turn }
	case <-ctx.Done():
	}
	locker, ok := a.store.(messages.TokenLocker)
	if !ok {
		return leave
	}
	free, err := locker.Lock(ctx, a.key)
	if err != nil {
		if ctx.Err() == nil {
			a.warn(a.Hide(err.Error()))
		}
		return leave
	}
	return func() { free(); leave() }
}

// Accepted notes that the server took a token.
func (a *Authorizer) Accepted(token string) {
	if token == "" || !a.doubted.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held != nil && a.held.AccessToken == token {
		a.origin = fromStore
		a.doubted.Store(false)
	}
}

// Forget drops the tokens and the registration, here and in the store. It does
// not revoke them.
func (a *Authorizer) Forget(ctx context.Context) error {
	a.mu.Lock()
	a.held, a.failed, a.place = nil, nil, nil
	a.doubted.Store(false)
	a.arm()
	a.mu.Unlock()
	if a.store == nil {
		return nil
	}
	return a.secrets.clean(a.store.Delete(ctx, a.key))
}
