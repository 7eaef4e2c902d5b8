package transport

import (
	"context"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/internal/oauth/tokenstore"
)

// Authorization is what obtains the tokens of a dialer's sessions; nil if its
// spec has no Auth.
func Authorization(d Dialer) Authorizer {
	if h, ok := d.(interface{ Authorizer() Authorizer }); ok {
		return h.Authorizer()
	}
	return nil
}

// Authorizer is the part of authorization that needs a person.
type Authorizer interface {
	// Authorize hands an authorization URL to open, and waits until the person
	// has come back and the token is stored.
	Authorize(ctx context.Context, open func(url string) error) error
	// Finish takes the URL to which a person was redirected.
	Finish(ctx context.Context, redirect string) error
	// Forget drops tokens and registration.
	Forget(ctx context.Context) error
}

// Inherit hands over from the authorizer of an earlier registration of a server
// to that of the next; see oauth.Authorizer.Inherit.
func Inherit(next, last Authorizer) {
	n, ok := next.(*oauth.Authorizer)
	if l, same := last.(*oauth.Authorizer); ok && same {
		n.Inherit(l)
	}
}

// NewTokenFiles returns a store of files in a directory; see tokenstore.NewFile.
func NewTokenFiles(dir string) (mcpvisor.TokenStore, error) { return tokenstore.NewFile(dir) }

// NewTokenKeyring returns a store in the keyring of the operating system; see
// tokenstore.NewKeyring.
func NewTokenKeyring() mcpvisor.TokenStore { return tokenstore.NewKeyring() }

// NewTokenMemory returns a store that forgets at the end of the process.
func NewTokenMemory() mcpvisor.TokenStore { return tokenstore.NewMemory() }
