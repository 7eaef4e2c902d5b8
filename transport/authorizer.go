package transport

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/oauth"
)

// Authorization returns the authorizer of a dialer; nil if its spec has no Auth.
func Authorization(d Dialer) Authorizer {
	if h, ok := d.(interface{ Authorizer() Authorizer }); ok {
		return h.Authorizer()
	}
	return nil
}

// Authorizer is the part of OAuth authorization that needs the user. Safe for concurrent
// use.
type Authorizer interface {
	// Authorize passes an authorization URL to open, waits for the redirect to this
	// machine, and stores the tokens. It blocks until then, or until ctx ends.
	Authorize(ctx context.Context, open func(url string) error) error
	// Finish completes an authorization with the URL to which the authorization server
	// redirected.
	Finish(ctx context.Context, redirect string) error
	// Forget deletes the tokens and the client registration, in memory and in the store.
	Forget(ctx context.Context) error
}

// Inherit hands the pending authorization requests of the previous registration of a
// server over to the next one; see oauth.Authorizer.Inherit.
func Inherit(next, previous Authorizer) {
	n, ok := next.(*oauth.Authorizer)
	if p, same := previous.(*oauth.Authorizer); ok && same {
		n.Inherit(p)
	}
}
