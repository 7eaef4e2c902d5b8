package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
	"github.com/mcpvisor/mcpvisor/oauth/internal/tokenstore"
)

// reload makes the stored authorization the current one if another process or
// registration wrote it. If a store that worked before cannot be read, the error is
// temporary and nothing is renewed: the tokens in memory may be outdated, and an
// authorization server revokes all tokens when a refresh token is used twice. A store
// that never worked only causes a warning.
func (a *authorizer) reload(ctx context.Context) error {
	if a.store == nil {
		return nil
	}
	ctx, cancel := overdue.WithTimeout(ctx, a.tokenWait())
	defer cancel()
	stored, err := hostcall.Wait(ctx, "Store", nil, func(ctx context.Context) (*Authorization, error) {
		return a.store.Load(ctx, a.key)
	})
	if stored != nil {
		stored = stored.Clone()
		a.redactor.add(stored.AccessToken, stored.RefreshToken, stored.ClientSecret, stored.DPoPKey)
	}
	warning, err := a.adopt(stored, err)
	if warning != "" {
		a.warn(warning)
	}
	return err
}

// adopt makes what the store returned the current authorization, if it is new. It returns
// a warning for the log, because no lock may be held while that is written.
func (a *authorizer) adopt(stored *Authorization, err error) (warning string, _ error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	// The store worked before, so it may hold newer tokens than the memory.
	case err != nil && a.stored != nil && !errors.Is(err, tokenstore.ErrUnreadable):
		return "", &safehttp.Temporary{Err: err}
	case err != nil:
		return a.Redact(err.Error()), nil
	// Nothing new. Tokens in memory that could not be stored stay the current ones.
	case stored == nil || sameTokens(stored, a.stored):
	// The entry may have been copied. Tokens are audience-bound (RFC 8707).
	case stored.Resource != "" && !metadata.IsResourceOf(stored.Resource, a.http.Server()):
		return "the stored tokens are for " + stored.Resource + ", which is not this server; they are not used", nil
	default:
		a.stored = stored
		if _, err := jwt.ParseDPoPKey(stored.DPoPKey); stored.DPoPKey != "" && err != nil {
			stored, warning = stored.Clone(), err.Error()+", so that the user has to authorize again"
			stored.AccessToken, stored.RefreshToken, stored.DPoPKey = "", "", ""
		}
		if !sameTokens(stored, a.tokens) {
			a.setTokens(stored, fromStore)
		}
	}
	return warning, nil
}

// sameTokens reports whether two authorizations hold the same tokens of the same
// client and issuer.
func sameTokens(a, b *Authorization) bool {
	return a != nil && b != nil && a.Issuer == b.Issuer && a.ClientID == b.ClientID &&
		a.AccessToken == b.AccessToken && a.RefreshToken == b.RefreshToken
}

// save stores an authorization and then makes it the current one. It does both also
// after ctx has ended, because the tokens cannot be obtained a second time. If the
// store fails, the authorization becomes the current one anyway. After Forget
// save does nothing and returns errForgotten.
func (a *authorizer) save(ctx context.Context, next *Authorization, source tokenSource) error {
	a.redactor.add(next.AccessToken, next.RefreshToken, next.ClientSecret, next.DPoPKey)
	var err error
	if a.store != nil && !isForgotten(ctx) {
		saving, cancel := overdue.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		err = hostcall.Do(saving, "Store", func(ctx context.Context) error { return a.store.Save(ctx, a.key, next.Clone()) })
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// Forget may have run during the write. Renewals and code exchanges hold the token
	// lock, so Forget deletes the entry after them.
	if isForgotten(ctx) {
		return errForgotten
	}
	if err == nil {
		a.stored = next
	}
	a.setTokens(next, source)
	return a.redactor.redactError(err)
}

// isForgotten reports whether Forget ended ctx.
func isForgotten(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errForgotten) }

// lockTokens waits until no other goroutine and no other process replaces the tokens.
// If it cannot get a lock in time it continues without one: two renewals of one token
// are better than none. The caller must not hold a.mu.
func (a *authorizer) lockTokens(ctx context.Context) (unlock func()) {
	ctx, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	// First the other goroutines of this registration, then the other processes.
	unlockLocal := func() {}
	select {
	case a.tokenLock <- struct{}{}:
		unlockLocal = func() { <-a.tokenLock }
	case <-ctx.Done():
	}
	locker, ok := a.store.(TokenLocker)
	if !ok {
		return unlockLocal
	}
	// A lock that arrives after ctx has ended is released at once.
	unlockStore, err := hostcall.Wait(ctx, "Store", func(late func()) { late() }, func(ctx context.Context) (func(), error) {
		return locker.Lock(ctx, a.key)
	})
	if err != nil {
		if ctx.Err() == nil {
			a.warn(a.Redact(err.Error()))
		}
		return unlockLocal
	}
	return func() {
		defer unlockLocal()
		unlocking, cancel := overdue.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := hostcall.Do(unlocking, "Store", func(context.Context) error { unlockStore(); return nil }); err != nil {
			a.warn(a.Redact(err.Error()))
		}
	}
}

// storeKey returns the key under which the authorization of a server is stored.
func storeKey(o *Config, server *url.URL) TokenKey {
	u := *server
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	if server.RawQuery != "" { // it may hold secrets, and stores show their keys
		sum := sha256.Sum256([]byte(server.RawQuery))
		u.RawQuery = hex.EncodeToString(sum[:8])
	}
	key := TokenKey{Server: u.String(), Client: o.ClientID, Account: o.Account}
	if key.Client == "" {
		key.Client = o.ClientMetadataURL
	}
	return key
}

// unattended reports whether tokens are requested without the user. They are not stored then,
// because another one can always be requested.
func unattended(o *Config) bool {
	return o.Grant == GrantClientCredentials || o.Grant == GrantJWTBearer
}

// notStoredError means that a token was obtained, and is lost when this process ends.
type notStoredError struct{ err error }

// Error implements error.
func (e *notStoredError) Error() string { return "the token could not be stored: " + e.err.Error() }

// Unwrap returns the error of the store.
func (e *notStoredError) Unwrap() error { return e.err }
