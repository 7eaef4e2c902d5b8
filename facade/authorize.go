package facade

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// NewFileTokenStore is a store of files in a directory of its own, for their owner
// only, and safe for several processes. A file that another user has put there is
// an error. An empty dir means mcpvisor/tokens below
// the user's configuration directory, which is the default of OAuth.Store.
func NewFileTokenStore(dir string) (mcpvisor.TokenStore, error) { return transport.NewTokenFiles(dir) }

// NewKeyringTokenStore is a store in the keyring of the operating system: the Keychain,
// the Credential Manager, or a Secret Service on D-Bus. One that is locked asks a
// person for its password; nobody waits for that longer than 3 s. Windows takes
// tokens up to 2.5 KB. Unlike files it has no lock between processes.
func NewKeyringTokenStore() mcpvisor.TokenStore { return transport.NewTokenKeyring() }

// NewMemoryTokenStore is a store that forgets at the end of the process.
func NewMemoryTokenStore() mcpvisor.TokenStore { return transport.NewTokenMemory() }

// Authorize lets a person authorize this client at a server whose spec has
// Auth. It listens on this machine for the redirect, hands the authorization
// URL to open (to print it, or to start a browser), waits for the person as
// long as ctx allows, stores the token, and restarts the server, as [Client.Restart]
// does. With GrantClientCredentials and GrantJWTBearer there is no person and open is not
// called. Authorize runs open in a goroutine, and does not wait for it once the person is back.
//
// A server whose Register failed with ErrAuthRequired may be authorized too;
// register it again afterwards.
//
// Errors: ErrUnknownServer, ErrInvalid (the server has no Auth, or its redirect
// URL is not on this machine), ErrAuthRequired (the authorization was refused or
// failed), ErrCanceled, ErrClosed.
func (c *Client) Authorize(ctx context.Context, server string, open func(url string) error) error {
	return c.authorize(ctx, server, func(ctx context.Context, a transport.Authorizer) error { return a.Authorize(ctx, open) })
}

// FinishAuthorization is the other half of [AuthRequired].URL, for hosts whose
// RedirectURL is a page of their own, and for people who copy what their browser
// shows: redirect is the whole URL to which the authorization server sent them.
// The server is restarted with the token. If ctx ends first, as with the request
// of a browser that leaves, the token is still fetched and stored, and Restart uses
// it. Errors as for [Client.Authorize].
func (c *Client) FinishAuthorization(ctx context.Context, server, redirect string) error {
	return c.authorize(ctx, server, func(ctx context.Context, a transport.Authorizer) error { return a.Finish(ctx, redirect) })
}

// ForgetAuthorization drops the stored tokens of a server, and the registration
// of this client. The tokens are not revoked. A session that is open goes on
// until the server refuses it. Errors: ErrUnknownServer, ErrInvalid, ErrCanceled,
// ErrClosed.
func (c *Client) ForgetAuthorization(ctx context.Context, server string) error {
	op := "forget the authorization of " + server
	ctx, cancel := c.authorizers.within(ctx)
	defer cancel()
	a, err := c.authorizer(ctx, server, op)
	if err != nil {
		return err
	}
	if err := a.Forget(ctx); err != nil {
		return authorizationError(ctx, server, op, mcpvisor.KindInvalid, err)
	}
	return nil
}

// authorizationError is the error of an operation that may have failed because
// its context ended, or the client was closed.
func authorizationError(ctx context.Context, server, op string, kind mcpvisor.ErrorKind, err error) error {
	switch {
	case context.Cause(ctx) == errClientClosed:
		kind, err = mcpvisor.KindClosed, errClientClosed
	case ctx.Err() != nil:
		kind = mcpvisor.KindCanceled
	}
	return &mcpvisor.Error{Server: server, Op: op, Kind: kind, Cause: err}
}

// authorizer finds what obtains the tokens of a server. Register may return
// before that is made; then authorizer waits for it.
func (c *Client) authorizer(ctx context.Context, server, op string) (transport.Authorizer, error) {
	for ctx.Err() == nil {
		made := c.authorizers.changes() // before the look at what there is
		a, of := c.authorizers.find(server)
		v := c.rt.Snapshot().Server(server)
		switch {
		case v == nil && a != nil:
			return a, nil // its Register failed
		case v == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindUnknownServer}
		case v.Spec.HTTP == nil || v.Spec.HTTP.Auth == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid,
				Cause: errors.New("the server has no Auth, so there is nothing to authorize"), Hint: "set HTTP.Auth, in a file \"auth\": {}"}
		case of == v.Spec.HTTP && a == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Cause: errors.New("the server's Auth cannot be used; see its status")}
		case of == v.Spec.HTTP:
			return a, nil
		}
		select {
		case <-made:
		case <-ctx.Done():
		}
	}
	return nil, authorizationError(ctx, server, op, mcpvisor.KindCanceled, context.Cause(ctx))
}

// authorize authorizes a server in one of two ways and gives it a fresh start.
// Close ends that.
func (c *Client) authorize(ctx context.Context, server string, do func(context.Context, transport.Authorizer) error) error {
	op := "authorize " + server
	ctx, cancel := c.authorizers.within(ctx)
	defer cancel()
	a, err := c.authorizer(ctx, server, op)
	if err != nil {
		return err
	}
	if err = do(ctx, a); err != nil {
		return authorizationError(ctx, server, op, mcpvisor.KindAuthRequired, err)
	}
	err = withOp(c.rt.Restart(ctx, server), op)
	if errors.Is(err, mcpvisor.ErrUnknownServer) { // it waits to be registered again
		return nil
	}
	return err
}

// errClientClosed is why an authorization ends that Close finds under way.
var errClientClosed = errors.New("the client is closed; make a new one")

// authorizers remembers what obtains the tokens of each server, also of those
// that could not be registered for want of one.
type authorizers struct {
	mu     sync.Mutex
	byName map[string]authorizerOf
	// changed is closed and replaced with each change of byName; nil if nothing
	// waits for it.
	changed chan struct{}
	// ends holds what ends the authorizations under way.
	ends   map[*context.CancelCauseFunc]struct{}
	closed bool
}

// authorizerOf is what obtains the tokens of one registration, which is known by
// its own copy of the spec. It is nil if that cannot work.
type authorizerOf struct {
	transport.Authorizer
	spec *mcpvisor.HTTP
}

// changes is closed with the next change.
func (s *authorizers) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// within is a context that ends with the client as well.
func (s *authorizers) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		end(errClientClosed)
	}
	if s.ends == nil {
		s.ends = map[*context.CancelCauseFunc]struct{}{}
	}
	s.ends[&end] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(s.ends, &end)
		s.mu.Unlock()
		end(nil)
	}
}

// close ends the authorizations under way, for good.
func (s *authorizers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for end := range s.ends {
		(*end)(errClientClosed)
	}
}

// authorizersKept is from how many on those of servers that are no more are
// dropped.
const authorizersKept = 256

// note remembers the dialer of a registration; nil if it could not be made.
// registered tells whether a name is still of use.
func (s *authorizers) note(spec mcpvisor.ServerSpec, d transport.Dialer, registered func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]authorizerOf{}
	}
	if len(s.byName) >= authorizersKept {
		for old := range s.byName {
			if !registered(old) {
				delete(s.byName, old)
			}
		}
	}
	if spec.HTTP != nil && spec.HTTP.Auth != nil {
		a := transport.Authorization(d)
		transport.Inherit(a, s.byName[spec.Name].Authorizer)
		s.byName[spec.Name] = authorizerOf{a, spec.HTTP}
	} else {
		delete(s.byName, spec.Name)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// find returns what obtains the tokens of a server, and which registration of it
// that belongs to.
func (s *authorizers) find(name string) (transport.Authorizer, *mcpvisor.HTTP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byName[name]
	return known.Authorizer, known.spec
}
