package facade

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport"
)

// What belongs to authorization; see [HTTP].
type (
	// OAuth says how tokens for a server are come by.
	OAuth = messages.OAuth
	// AuthRequired is in errors of ErrAuthRequired that a person can mend.
	AuthRequired = messages.AuthRequired
	// TokenStore keeps authorizations beyond the end of the process.
	TokenStore = messages.TokenStore
	// TokenLocker is what a TokenStore for several processes has, too.
	TokenLocker = messages.TokenLocker
	// TokenKey names one authorization in a store.
	TokenKey = messages.TokenKey
	// Authorization is what a store keeps.
	Authorization = messages.Authorization
	// Grant is how a token is come by.
	Grant = messages.Grant
	// Enterprise is an organization's identity provider; see GrantAssertion.
	Enterprise = messages.Enterprise
	// Assertion makes what is shown to an authorization server; see GrantAssertion.
	Assertion = messages.Assertion
	// AssertionRequest says what an assertion is wanted for.
	AssertionRequest = messages.AssertionRequest
)

// The grants of [OAuth].
const (
	GrantCode      = messages.GrantCode
	GrantClient    = messages.GrantClient
	GrantAssertion = messages.GrantAssertion
)

// TokenFiles is a store of files in a directory of its own, for their owner
// only, and safe for several processes. An empty dir means mcpvisor/tokens below
// the user's configuration directory, which is the default of OAuth.Store.
func TokenFiles(dir string) (TokenStore, error) { return transport.NewTokenFiles(dir) }

// TokenKeyring is a store in the keyring of the operating system: the Keychain,
// the Credential Manager, or a Secret Service on D-Bus. One that is locked asks a
// person for its password; nobody waits for that longer than 3 s. Windows takes
// tokens up to 2.5 KB. Unlike files it has no lock between processes.
func TokenKeyring() TokenStore { return transport.NewTokenKeyring() }

// TokenMemory is a store that forgets at the end of the process.
func TokenMemory() TokenStore { return transport.NewTokenMemory() }

// Authorize lets a person authorize this client at a server whose spec has
// Auth. It listens on this machine for the redirect, hands the authorization
// URL to open (to print it, or to start a browser), waits for the person as
// long as ctx allows, stores the token, and restarts the server, as [Client.Restart]
// does. With GrantClient and GrantAssertion there is no person and open is not
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
// until the server refuses it. Errors: ErrUnknownServer, ErrInvalid.
func (c *Client) ForgetAuthorization(ctx context.Context, server string) error {
	op := "forget the authorization of " + server
	a, err := c.authorizer(server, op)
	if err != nil {
		return err
	}
	if err := a.Forget(ctx); err != nil {
		return &Error{Server: server, Op: op, Kind: messages.KindInvalid, Cause: err}
	}
	return nil
}

func (c *Client) authorizer(server, op string) (transport.Authorizer, error) {
	known := c.rt.Snapshot().Server(server) != nil
	a := c.authorizers.find(server)
	switch {
	case a != nil:
		return a, nil
	case known:
		return nil, &Error{Server: server, Op: op, Kind: messages.KindInvalid,
			Cause: errors.New("the server has no Auth, so there is nothing to authorize"), Hint: "set HTTP.Auth, in a file \"auth\": {}"}
	}
	return nil, &Error{Server: server, Op: op, Kind: messages.KindUnknownServer}
}

// authorize authorizes a server in one of two ways and gives it a fresh start.
// Close ends that.
func (c *Client) authorize(ctx context.Context, server string, do func(context.Context, transport.Authorizer) error) error {
	op := "authorize " + server
	a, err := c.authorizer(server, op)
	if err != nil {
		return err
	}
	ctx, cancel := c.authorizers.within(ctx)
	defer cancel()
	if err = context.Cause(ctx); err == nil {
		err = do(ctx, a)
	}
	switch {
	case err == nil:
	case context.Cause(ctx) == errClientClosed:
		return &Error{Server: server, Op: op, Kind: messages.KindClosed, Cause: errClientClosed}
	case ctx.Err() != nil:
		return &Error{Server: server, Op: op, Kind: messages.KindCanceled, Cause: err}
	default:
		return &Error{Server: server, Op: op, Kind: messages.KindAuthRequired, Cause: err}
	}
	err = withOp(c.rt.Restart(ctx, server), op)
	if errors.Is(err, ErrUnknownServer) { // it waits to be registered again
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
	byName map[string]transport.Authorizer
	// ends holds what ends the authorizations under way.
	ends   map[*context.CancelCauseFunc]struct{}
	closed bool
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

// note remembers the dialer of a server. registered tells whether a name is
// still of use.
func (s *authorizers) note(name string, d transport.Dialer, registered func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]transport.Authorizer{}
	}
	if len(s.byName) >= authorizersKept {
		for old := range s.byName {
			if !registered(old) {
				delete(s.byName, old)
			}
		}
	}
	if a := transport.Authorization(d); a != nil {
		transport.Inherit(a, s.byName[name])
		s.byName[name] = a
	} else {
		delete(s.byName, name)
	}
}

func (s *authorizers) find(name string) transport.Authorizer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}
