package oauth

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// Authorizer obtains and renews the tokens of one registration. Safe for
// concurrent use. It has goroutines and timers only while something is
// attached or under way.
type Authorizer struct {
	oauth   mcpvisor.OAuth
	key     mcpvisor.TokenKey
	store   mcpvisor.TokenStore // nil: nothing is kept
	web     *web
	secrets secrets
	warn    func(string)
	// turn is held by whoever replaces the tokens.
	turn chan struct{}

	mu sync.Mutex
	// held is what is known. It is replaced and never changed.
	held *mcpvisor.Authorization
	// origin is where held came from.
	origin origins
	// stored is what the store was seen to hold: if it holds something else,
	// another has written it.
	stored *mcpvisor.Authorization
	// bound is the issuer that the spec's own client belongs to.
	bound string
	// refusal is what the server said last.
	refusal challenge
	flight  *flight
	failed  *failure
	pending map[string]*consent
	place   *place // of the grants without a person

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
func New(spec *mcpvisor.HTTP, warn func(string)) (*Authorizer, error) {
	server, err := url.Parse(spec.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed; write it as https://host/path")
	}
	server.User, server.Fragment, server.RawFragment = nil, "", ""
	a := &Authorizer{oauth: *spec.Auth, key: spec.Auth.StoreKey(server), store: spec.Auth.Store,
		web: newWeb(server, spec), warn: warn, pending: map[string]*consent{}, turn: make(chan struct{}, 1)}
	a.secrets.keep(a.oauth.ClientSecret, a.oauth.PrivateKey)
	if e := a.oauth.Enterprise; e != nil {
		a.secrets.keep(e.ClientSecret)
	}
	for _, value := range spec.Headers {
		a.secrets.keep(value)
	}
	switch {
	case a.oauth.Unattended():
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
	if a.oauth.TokenWait > 0 {
		return a.oauth.TokenWait
	}
	return mcpvisor.DefaultTokenWait
}

// Redact returns a text without any secret that the authorizer knows of.
func (a *Authorizer) Redact(text string) string { return a.secrets.replace(text) }

var (
	// errDetached and errForgotten are why the work of an authorizer ends early.
	errDetached  = errors.New("the session ended")
	errForgotten = errors.New("the authorization was forgotten meanwhile")
)

const (
	// storeTime is how long a store is given to keep what cannot be had twice.
	storeTime = 5 * time.Second
	// farewell is how long Detach waits for what was told to end, and may have
	// something to store.
	farewell = storeTime + time.Second
)

// Attach begins a session: what is stored is read, and tokens are renewed
// ahead from now on. Detach ends it.
func (a *Authorizer) Attach(ctx context.Context) {
	a.mu.Lock()
	if a.attached++; a.attached == 1 {
		a.life, a.end = context.WithCancelCause(context.Background())
	}
	a.mu.Unlock()
	if err := a.recall(ctx); err != nil {
		a.warn(a.Redact(err.Error()))
	}
	a.mu.Lock()
	a.arm()
	a.mu.Unlock()
}

// Detach ends a session. A request to the token endpoint that is under way is
// given grace to come back: a refresh token that was rotated for nobody is lost.
// When Detach returns, nothing of the authorizer is left running for the session
// but what a function of the host's holds up: Detach is bounded by grace, and by
// seconds, whatever that does.
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
		f.within(grace)
	}
	end(errDetached)
	if f != nil {
		f.within(farewell)
	}
	a.web.settle(grace)
}

// adopt makes an authorization the current one. a.mu is held.
func (a *Authorizer) adopt(n *mcpvisor.Authorization, from origins) {
	a.held, a.origin, a.failed = n, from, nil
	a.secrets.hold(n.AccessToken, n.RefreshToken, n.ClientSecret)
	if n.ClientID == a.oauth.ClientID {
		a.bound = n.Issuer
	}
	a.arm()
}

// Forget drops the tokens and the registration, here and in the store. It does
// not revoke them. What is being renewed meanwhile is dropped as well.
func (a *Authorizer) Forget(ctx context.Context) error {
	a.drop()
	turn, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	unlock := a.lock(turn)
	defer unlock()
	a.drop() // it may have come back before we had the turn
	if a.store == nil {
		return nil
	}
	deleting, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return a.secrets.clean(guard.Do(deleting, "Store", func(ctx context.Context) error { return a.store.Delete(ctx, a.key) }))
}

// drop forgets what is in memory.
func (a *Authorizer) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != nil {
		a.flight.cancel(errForgotten)
	}
	a.held, a.stored, a.failed, a.place, a.bound = nil, nil, nil, nil, ""
	clear(a.pending)
	a.arm()
}

// Inherit takes over from the authorizer of an earlier registration of the same
// server what people and issuers still refer to: the consents that were begun,
// and the issuer that the client belongs to.
func (a *Authorizer) Inherit(last *Authorizer) {
	o, was := &a.oauth, &last.oauth
	if a == last || a.key != last.key || o.ClientSecret != was.ClientSecret || o.PrivateKey != was.PrivateKey ||
		o.Issuer != was.Issuer || o.RedirectURL != was.RedirectURL || o.Grant != was.Grant {
		return
	}
	last.mu.Lock()
	pending, bound := maps.Clone(last.pending), last.bound
	last.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bound = bound
	for state, n := range pending {
		a.pending[state] = n
		a.secrets.hide(n.state, n.verifier, n.client.secret)
	}
}
