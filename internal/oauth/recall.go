package oauth

import (
	"context"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// recall takes what is stored, if it was written by another. The error passes:
// what is held may be stale, and a refresh token that is used twice is the end of
// both. A store that never worked is no reason to do nothing.
func (a *Authorizer) recall(ctx context.Context) error {
	if a.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	stored, err := guard.Wait(ctx, "Store", nil, func(ctx context.Context) (*mcpvisor.Authorization, error) {
		return a.store.Load(ctx, a.key)
	})
	if stored != nil {
		stored = stored.Clone()
		a.secrets.hide(stored.AccessToken, stored.RefreshToken, stored.ClientSecret)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil && a.stored != nil && !errors.Is(err, errSpoiled):
		return &passing{err: err}
	case err != nil:
		a.warn(a.Redact(err.Error()))
	case stored == nil || sameTokens(stored, a.stored):
	case stored.Resource != "" && !isResource(stored.Resource, a.web.server):
		a.warn("the tokens in the store are for " + stored.Resource + ", which is not this server; they are not used")
	default:
		a.stored = stored
		if !sameTokens(stored, a.held) {
			a.adopt(stored, fromStore)
		}
	}
	return nil
}

// sameTokens reports whether two authorizations stand for the same.
func sameTokens(a, b *mcpvisor.Authorization) bool {
	return a != nil && b != nil && a.Issuer == b.Issuer && a.ClientID == b.ClientID &&
		a.AccessToken == b.AccessToken && a.RefreshToken == b.RefreshToken
}

// keep stores an authorization and makes it the current one, in this order. It
// does so also when ctx has ended: what it keeps cannot be had again. The error
// is the store's; the authorization is current all the same, unless it was
// forgotten meanwhile.
func (a *Authorizer) keep(ctx context.Context, n *mcpvisor.Authorization, from origins) error {
	a.secrets.hide(n.AccessToken, n.RefreshToken, n.ClientSecret)
	var err error
	if a.store != nil && !forgotten(ctx) {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		err = guard.Do(saving, "Store", func(ctx context.Context) error { return a.store.Save(ctx, a.key, n.Clone()) })
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if forgotten(ctx) {
		return errForgotten
	}
	if err == nil {
		a.stored = n
	}
	a.adopt(n, from)
	return a.secrets.clean(err)
}

func forgotten(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errForgotten) }

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
	locker, ok := a.store.(mcpvisor.TokenLocker)
	if !ok {
		return leave
	}
	free, err := guard.Wait(ctx, "Store", func(free func()) { free() }, func(ctx context.Context) (func(), error) {
		return locker.Lock(ctx, a.key)
	})
	if err != nil {
		if ctx.Err() == nil {
			a.warn(a.Redact(err.Error()))
		}
		return leave
	}
	return func() {
		defer leave()
		freeing, cancel := context.WithTimeout(context.Background(), storeTime)
		defer cancel()
		if err := guard.Do(freeing, "Store", func(context.Context) error { free(); return nil }); err != nil {
			a.warn(a.Redact(err.Error()))
		}
	}
}
