package oauth

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// authorizer obtains and renews the tokens of one registration. Safe for
// concurrent use. It has goroutines and timers only while a session is attached or
// an operation runs.
//
// The order of its locks is tokenLock, the lock of the store between processes, mu.
// Invariant: tokens come only from the issuer of their authorization and are sent only to
// the resource in it (MCP, "Token Audience Binding and Validation"; RFC 8707).
type authorizer struct {
	// Set by newAuthorizer, never changed.
	config Config
	key    TokenKey
	store  TokenStore // nil: tokens are not stored
	http   *safehttp.Client
	// warn writes to a log, which may block. So it is never called by newAuthorizer, nor with mu held.
	warn func(string)

	// redactor has a lock of its own.
	redactor redactor

	// tokenLock is a mutex as a channel. A goroutine that replaces the tokens holds
	// it, so that two of them never use one refresh token.
	tokenLock chan struct{}

	// mu guards everything below. It is never held during I/O.
	mu sync.Mutex
	// tokens is the current authorization; nil: none. The value is replaced and
	// never changed, so readers may use it without the lock.
	tokens *authorization
	// dpop is the key that tokens are bound to; nil: they are bearer tokens. issuerNonce and
	// serverNonce are the last nonces of the authorization server and of the MCP server.
	dpop                     *jwt.DPoPKey
	issuerNonce, serverNonce string
	// source says where tokens came from.
	source tokenSource
	// stored is what the store held last. If the store holds something else, another
	// process or registration wrote it.
	stored *authorization
	// boundIssuer is the issuer that the spec's own client was used at first.
	boundIssuer string
	// challenge is the last one of the server.
	challenge metadata.Challenge
	// renewalsLeft is how many renewals may start at once; it was true at renewalsCounted.
	renewalsLeft    float64
	renewalsCounted time.Time
	// renewal is the one that runs; nil: none.
	renewal *renewal
	// lastFailure is the outcome of the last renewal if it failed; nil otherwise.
	lastFailure *failure
	// pending are the authorization requests that wait for their redirect, by state.
	pending map[string]*authRequest
	// discovery is remembered for grants that need no user; nil: not known.
	discovery *metadata.Discovery

	// storeWarning says why the default store cannot be used; empty after the first Attach.
	storeWarning string

	// sessions counts the sessions that are attached.
	sessions int
	// lifetime ends with the last of them. It is the context of renewals.
	lifetime    context.Context
	endLifetime context.CancelCauseFunc
	// renewTimer starts the renewal ahead of the expiry; nil: never set.
	renewTimer *time.Timer
}

// tokenSource says where tokens came from.
type tokenSource int

const (
	fromStore   tokenSource = iota
	fromRefresh             // the refresh token grant
	fromGrant               // any other grant
)

// newAuthorizer is NewAuthorizer. It does no I/O, so an actor may call it. warn writes a text
// to a log. newAuthorizer does not call it; the other methods do, and wait for it.
func (c *Config) newAuthorizer(spec *mcpvisor.HTTP, warn func(string)) (*authorizer, error) {
	server, err := url.Parse(spec.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed; write it as https://host/path")
	}
	// The resource identifier has no fragment (RFC 8707, section 2), and credentials in
	// the URL must not reach the authorization server.
	server.User, server.Fragment, server.RawFragment = nil, "", ""
	a := &authorizer{config: *c, key: storeKey(c, server, spec.Socket), store: c.Store,
		http: safehttp.New(server, spec, c.trustedAddresses()...), warn: warn, pending: map[string]*authRequest{}, renewalsLeft: renewalBurst, tokenLock: make(chan struct{}, 1)}
	a.redactor.addPermanent(a.config.ClientSecret, a.config.PrivateKey)
	if e := a.config.Enterprise; e != nil {
		a.redactor.addPermanent(e.ClientSecret)
	}
	for _, value := range spec.Headers {
		a.redactor.addPermanent(value)
	}
	switch {
	case unattended(&a.config):
		a.store = nil // a new token can always be requested
	case a.store == nil:
		// Without a configuration directory, as in some containers, tokens live as long
		// as the process.
		if a.store, err = NewFileStore(""); err != nil {
			a.store = NewMemoryStore()
			a.storeWarning = err.Error()
		}
	}
	return a, nil
}

// trustedAddresses returns the addresses that the host names: those of the issuer and of the
// identity provider.
func (c *Config) trustedAddresses() []string {
	trusted := []string{c.Issuer}
	if c.Enterprise != nil {
		trusted = append(trusted, c.Enterprise.TokenEndpoint)
	}
	return trusted
}

// tokenWait returns how long a caller waits for a token at most.
func (a *authorizer) tokenWait() time.Duration {
	if a.config.TokenWait > 0 {
		return a.config.TokenWait
	}
	return defaults.TokenWait
}

// Redact returns text with a mask for every secret that the authorizer knows.
func (a *authorizer) Redact(text string) string { return a.redactor.redact(text) }

var (
	// errDetached and errForgotten are the causes that end a renewal early.
	errDetached  = errors.New("the session ended")
	errForgotten = errors.New("the authorization was deleted meanwhile")
)

const (
	// storeTimeout bounds one write to the store.
	storeTimeout = 5 * time.Second
	// detachTimeout is how long Detach waits for a canceled renewal, which may still
	// have to store a token.
	detachTimeout = storeTimeout + time.Second
)

// Attach starts a session: it reads the stored tokens, and renews tokens ahead of
// their expiry until Detach.
func (a *authorizer) Attach(ctx context.Context) {
	a.mu.Lock()
	if a.sessions++; a.sessions == 1 {
		a.lifetime, a.endLifetime = context.WithCancelCause(context.Background())
	}
	warning := a.storeWarning
	a.storeWarning = ""
	a.mu.Unlock()
	if warning != "" {
		a.warn(warning)
	}
	if err := a.reload(ctx); err != nil {
		a.warn(a.Redact(err.Error()))
	}
	a.mu.Lock()
	a.scheduleRenewal()
	a.mu.Unlock()
}

// Detach ends a session. The last one gives a running token request grace to
// complete: if its answer got lost, a rotated refresh token would be lost, too.
// When Detach returns, no goroutine of the authorizer runs for the session, except
// one that a function of the host blocks. Detach itself is bounded by grace; a Store that
// hangs may add detachTimeout.
func (a *authorizer) Detach(grace time.Duration) {
	a.mu.Lock()
	if a.sessions--; a.sessions > 0 {
		a.mu.Unlock()
		return
	}
	if a.renewTimer != nil {
		a.renewTimer.Stop()
	}
	r, end := a.renewal, a.endLifetime
	a.mu.Unlock()
	// The waits are without the mutex, because the renewal needs it to end.
	if r != nil {
		r.waitDone(grace) // may complete by itself
	}
	end(errDetached) // cancels its requests
	if r != nil {
		r.waitDone(detachTimeout)
	}
}

// setTokens makes an authorization the current one. The caller holds a.mu.
func (a *authorizer) setTokens(next *authorization, source tokenSource) {
	a.tokens, a.source, a.lastFailure = next, source, nil
	if a.dpop = nil; next.DPoPKey != "" {
		if a.dpop, _ = jwt.ParseDPoPKey(next.DPoPKey); a.dpop != nil { // adopt has checked a stored one
			a.redactor.addProofs(a.dpop.Header())
		}
	}
	a.redactor.setCurrent(next.AccessToken, next.RefreshToken, next.ClientSecret, next.DPoPKey)
	if next.ClientID == a.config.ClientID {
		a.boundIssuer = next.Issuer
	}
	a.scheduleRenewal()
}

// Forget deletes the tokens and the registration, in memory and in the store. It
// does not revoke them at the authorization server (RFC 7009). The result of a
// renewal that runs meanwhile is dropped, too.
func (a *authorizer) Forget(ctx context.Context) error {
	a.clear()
	locking, cancel := overdue.WithTimeout(ctx, a.tokenWait())
	defer cancel()
	unlock := a.lockTokens(locking)
	defer unlock()
	a.clear() // tokens may have arrived while this goroutine waited for the lock
	if a.store == nil {
		return nil
	}
	// The lock is held, so no renewal can store tokens after this.
	deleting, cancel := overdue.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return a.redactor.redactError(hostcall.Do(deleting, "Store", func(ctx context.Context) error { return a.store.Delete(ctx, a.key) }))
}

// clear drops everything that was learnt, and cancels the renewal that runs.
func (a *authorizer) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.renewal != nil {
		a.renewal.cancel(errForgotten)
	}
	a.tokens, a.stored, a.lastFailure, a.discovery, a.boundIssuer = nil, nil, nil, nil, ""
	a.dpop, a.issuerNonce, a.serverNonce = nil, "", ""
	clear(a.pending)
	a.scheduleRenewal()
}

// Inherit implements mcpvisor.UserAuthorizer. It takes over the pending authorization requests
// and the bound issuer of an earlier registration, if it was for the same server, account,
// client and redirect URL. So a URL that the user has open stays valid.
func (a *authorizer) Inherit(earlier mcpvisor.Authorizer) {
	previous, ok := earlier.(*authorizer)
	if !ok {
		return
	}
	now, before := &a.config, &previous.config
	if a == previous || a.key != previous.key || now.ClientSecret != before.ClientSecret || now.PrivateKey != before.PrivateKey ||
		now.Resource != before.Resource || now.OmitResource != before.OmitResource || now.Issuer != before.Issuer || now.RedirectURL != before.RedirectURL || now.Grant != before.Grant {
		return
	}
	// One lock at a time: the two authorizers are used concurrently.
	previous.mu.Lock()
	pending, issuer := maps.Clone(previous.pending), previous.boundIssuer
	previous.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.boundIssuer = issuer
	for state, r := range pending {
		a.pending[state] = r
		a.redactor.add(r.state, r.codeVerifier, r.client.secret)
	}
}
