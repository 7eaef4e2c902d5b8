package facade

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Authorize lets the user authorize this client at a server whose spec has Auth. It listens on a
// loopback port for the redirect, passes the authorization URL to open (to print it, or to start
// a browser), waits for the redirect as long as ctx allows, exchanges the code, stores the
// tokens, and restarts the server, as [Client.Restart] does. open runs in a goroutine of its own;
// Authorize does not wait for it after the redirect. If open fails, panics or is nil, Authorize
// fails with ErrAuthRequired. With oauth.GrantClientCredentials and oauth.GrantJWTBearer no user
// is needed, and open is not called.
//
// A server whose Register failed with ErrAuthRequired can be authorized, too. Register
// it again afterwards.
//
// Errors: ErrUnknownServer, ErrInvalid (the server has no Auth, or one that is no
// [mcpvisor.UserAuthorizer]), ErrAuthRequired (the authorization was refused or failed,
// or its RedirectURL is not on this machine), ErrCanceled, ErrClosed.
func (c *Client) Authorize(ctx context.Context, server string, open func(url string) error) error {
	return c.authorize(ctx, server, func(ctx context.Context, a mcpvisor.UserAuthorizer) error { return a.Authorize(ctx, open) })
}

// AuthorizeDevice is [Client.Authorize] without a browser on this machine: it passes a URL and a code
// to show, which prints them, and waits until the user has entered the code at that URL on any device
// (device authorization grant, RFC 8628). It fails with ErrAuthRequired, too, if the authorization
// server offers no such login, or if the login expires. Errors otherwise as for [Client.Authorize].
func (c *Client) AuthorizeDevice(ctx context.Context, server string, show func(mcpvisor.DeviceLogin) error) error {
	return c.authorize(ctx, server, func(ctx context.Context, a mcpvisor.UserAuthorizer) error {
		device, ok := a.(mcpvisor.DeviceAuthorizer)
		if !ok {
			return errors.New("the server's HTTP.Auth has no login by code")
		}
		return device.AuthorizeDevice(ctx, show)
	})
}

// FinishAuthorization completes an authorization that began with [mcpvisor.AuthRequired].URL: for
// hosts whose RedirectURL is a page of their own, and for users who copy the URL from their
// browser. redirect is the complete URL that the authorization server redirected to. The tokens
// are stored and the server is restarted. If ctx ends first, for example because a browser closes
// its request, the token is still fetched and stored, and the next Restart uses it. Errors as for
// [Client.Authorize].
func (c *Client) FinishAuthorization(ctx context.Context, server, redirect string) error {
	return c.authorize(ctx, server, func(ctx context.Context, a mcpvisor.UserAuthorizer) error { return a.Finish(ctx, redirect) })
}

// ForgetAuthorization deletes the stored tokens of a server and the stored registration
// of this client. It does not revoke the tokens: an open session continues until the
// server rejects its token. Errors: ErrUnknownServer, ErrInvalid, ErrCanceled,
// ErrClosed.
func (c *Client) ForgetAuthorization(ctx context.Context, server string) error {
	op := "forget the authorization of " + server
	ctx, cancel := c.authorizers.bindContext(ctx)
	defer cancel()
	a, err := c.findAuthorizer(ctx, server, op)
	if err != nil {
		return err
	}
	if err := a.Forget(ctx); err != nil {
		return authorizationError(ctx, server, op, mcpvisor.ErrInvalid, err)
	}
	return nil
}

// authorize runs one way to authorize a server, and restarts the server. Close ends it.
func (c *Client) authorize(ctx context.Context, server string, run func(context.Context, mcpvisor.UserAuthorizer) error) error {
	op := "authorize " + server
	ctx, cancel := c.authorizers.bindContext(ctx)
	defer cancel()
	a, err := c.findAuthorizer(ctx, server, op)
	if err != nil {
		return err
	}
	if err = run(ctx, a); err != nil {
		return authorizationError(ctx, server, op, mcpvisor.ErrAuthRequired, err)
	}
	err = withOp(c.rt.Restart(ctx, server), op)
	if errors.Is(err, mcpvisor.ErrUnknownServer) { // its Register failed; the host registers it again
		return nil
	}
	return err
}

// findAuthorizer finds the authorizer of a server. Register may return before the
// authorizer is made; then findAuthorizer waits for it.
func (c *Client) findAuthorizer(ctx context.Context, server, op string) (mcpvisor.UserAuthorizer, error) {
	invalid := func(problem, hint string) error {
		return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrInvalid, Cause: errors.New(problem), Hint: hint}
	}
	for ctx.Err() == nil {
		changed := c.authorizers.changeSignal() // before the lookup, so that no change is missed
		a, spec := c.authorizers.lookup(server)
		user, _ := a.(mcpvisor.UserAuthorizer)
		v := c.rt.Snapshot().Server(server)
		switch {
		case v == nil && user != nil:
			return user, nil // its Register failed
		case v == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrUnknownServer}
		case v.Spec.HTTP == nil || v.Spec.HTTP.Auth == nil:
			return nil, invalid("the server has no HTTP.Auth, so there is nothing to authorize", "set HTTP.Auth, in a file \"auth\": {}")
		case spec == v.Spec.HTTP && a == nil:
			return nil, invalid("the server's HTTP.Auth cannot be used; see its status", "")
		case spec == v.Spec.HTTP && user == nil:
			return nil, invalid("the server's HTTP.Auth needs no user, so there is nothing to authorize", "")
		case spec == v.Spec.HTTP:
			return user, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, authorizationError(ctx, server, op, mcpvisor.ErrCanceled, context.Cause(ctx))
}

// authorizationError is the error of an operation on an authorization. The end of its
// context or of the client takes precedence over err.
func authorizationError(ctx context.Context, server, op string, kind mcpvisor.ErrorKind, err error) error {
	switch {
	case context.Cause(ctx) == errClientClosed:
		kind, err = mcpvisor.ErrClosed, errClientClosed
	case ctx.Err() != nil:
		kind = mcpvisor.ErrCanceled
	}
	return &mcpvisor.Error{Server: server, Op: op, Kind: kind, Cause: err}
}

// errClientClosed is the cause of authorizations that Close ends.
var errClientClosed = errors.New("the client is closed; make a new one")

// authorizers holds the authorizer of each server with HTTP.Auth, including servers whose
// Register failed because they need one. The dialers of registrations record them; the
// methods of Client look them up.
type authorizers struct {
	mu     sync.Mutex // guards all fields
	byName map[string]registeredAuthorizer
	// changed is closed and replaced at each change of byName; nil while nothing waits
	// for it.
	changed chan struct{}
	// cancels end the authorizations in progress. The pointers are the keys by which
	// each removes its own.
	cancels map[*context.CancelCauseFunc]struct{}
	closed  bool
}

// registeredAuthorizer is the authorizer of one registration, which is identified by
// its own copy of the spec. Authorizer is nil if it could not be made.
type registeredAuthorizer struct {
	mcpvisor.Authorizer
	spec *mcpvisor.HTTP
}

// changeSignal returns a channel that is closed at the next change.
func (s *authorizers) changeSignal() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// bindContext returns a context that also ends when the client is closed.
func (s *authorizers) bindContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		cancel(errClientClosed)
	}
	if s.cancels == nil {
		s.cancels = map[*context.CancelCauseFunc]struct{}{}
	}
	s.cancels[&cancel] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(s.cancels, &cancel)
		s.mu.Unlock()
		cancel(nil)
	}
}

// close ends the authorizations in progress and those that begin later.
func (s *authorizers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for cancel := range s.cancels {
		(*cancel)(errClientClosed)
	}
}

// maxAuthorizers is the number of authorizers above which those of servers that are no
// longer registered are dropped.
const maxAuthorizers = 256

// record stores the authorizer of a registration's dialer; d is nil if the dialer could
// not be made. isRegistered says whether a name is registered.
func (s *authorizers) record(spec mcpvisor.ServerSpec, d transport.Dialer, isRegistered func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]registeredAuthorizer{}
	}
	if len(s.byName) >= maxAuthorizers {
		for name := range s.byName {
			if !isRegistered(name) {
				delete(s.byName, name)
			}
		}
	}
	if spec.HTTP != nil && spec.HTTP.Auth != nil {
		a := transport.Authorization(d)
		if user, ok := a.(mcpvisor.UserAuthorizer); ok { // an authorization URL that was handed out stays valid
			if previous := s.byName[spec.Name].Authorizer; previous != nil {
				user.Inherit(previous)
			}
		}
		s.byName[spec.Name] = registeredAuthorizer{a, spec.HTTP}
	} else {
		delete(s.byName, spec.Name)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// lookup returns the authorizer that was recorded last for a name, and the spec of its
// registration.
func (s *authorizers) lookup(name string) (mcpvisor.Authorizer, *mcpvisor.HTTP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byName[name]
	return r.Authorizer, r.spec
}
