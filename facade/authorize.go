package facade

import (
	"context"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Authorize lets the user authorize this client at a server whose spec has Auth. It
// listens on a loopback port for the redirect, passes the authorization URL to open (to
// print it, or to start a browser), waits for the redirect as long as ctx allows,
// exchanges the code, stores the tokens, and restarts the server, as [Client.Restart]
// does. open runs in a goroutine of its own; Authorize does not wait for it after the
// redirect. An error or a panic of open, and so a nil open, fails Authorize with
// ErrAuthRequired. With GrantClientCredentials and GrantJWTBearer no user is needed, and
// open is not called.
//
// A server whose Register failed with ErrAuthRequired can be authorized, too. Register
// it again afterwards.
//
// Errors: ErrUnknownServer, ErrInvalid (the server has no Auth, or its RedirectURL is
// not on this machine), ErrAuthRequired (the authorization was refused or failed),
// ErrCanceled, ErrClosed.
func (c *Client) Authorize(ctx context.Context, server string, open func(url string) error) error {
	return c.authorize(ctx, server, func(ctx context.Context, a transport.Authorizer) error { return a.Authorize(ctx, open) })
}

// FinishAuthorization completes an authorization that began with [mcpvisor.AuthRequired].URL:
// for hosts whose RedirectURL is a page of their own, and for users who copy the URL
// from their browser. redirect is the complete URL that the authorization server
// redirected to. The tokens are stored and the server is restarted. If ctx ends first,
// for example because a browser closes its request, the token is fetched and stored all
// the same, and Restart uses it. Errors as for [Client.Authorize].
func (c *Client) FinishAuthorization(ctx context.Context, server, redirect string) error {
	return c.authorize(ctx, server, func(ctx context.Context, a transport.Authorizer) error { return a.Finish(ctx, redirect) })
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
		return authorizationError(ctx, server, op, mcpvisor.KindInvalid, err)
	}
	return nil
}

// authorize runs one way to authorize a server, and restarts the server. Close ends it.
func (c *Client) authorize(ctx context.Context, server string, run func(context.Context, transport.Authorizer) error) error {
	op := "authorize " + server
	ctx, cancel := c.authorizers.bindContext(ctx)
	defer cancel()
	a, err := c.findAuthorizer(ctx, server, op)
	if err != nil {
		return err
	}
	if err = run(ctx, a); err != nil {
		return authorizationError(ctx, server, op, mcpvisor.KindAuthRequired, err)
	}
	err = withOp(c.rt.Restart(ctx, server), op)
	if errors.Is(err, mcpvisor.ErrUnknownServer) { // its Register failed; the host registers it again
		return nil
	}
	return err
}

// findAuthorizer finds the authorizer of a server. Register may return before the
// authorizer is made; then findAuthorizer waits for it.
func (c *Client) findAuthorizer(ctx context.Context, server, op string) (transport.Authorizer, error) {
	for ctx.Err() == nil {
		changed := c.authorizers.changeSignal() // before the lookup, so that no change is missed
		a, spec := c.authorizers.lookup(server)
		v := c.rt.Snapshot().Server(server)
		switch {
		case v == nil && a != nil:
			return a, nil // its Register failed
		case v == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindUnknownServer}
		case v.Spec.HTTP == nil || v.Spec.HTTP.Auth == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid,
				Cause: errors.New("the server has no HTTP.Auth, so there is nothing to authorize"), Hint: "set HTTP.Auth, in a file \"auth\": {}"}
		case spec == v.Spec.HTTP && a == nil:
			return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Cause: errors.New("the server's HTTP.Auth cannot be used; see its status")}
		case spec == v.Spec.HTTP:
			return a, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, authorizationError(ctx, server, op, mcpvisor.KindCanceled, context.Cause(ctx))
}

// authorizationError is the error of an operation on an authorization. The end of its
// context or of the client takes precedence over err.
func authorizationError(ctx context.Context, server, op string, kind mcpvisor.ErrorKind, err error) error {
	switch {
	case context.Cause(ctx) == errClientClosed:
		kind, err = mcpvisor.KindClosed, errClientClosed
	case ctx.Err() != nil:
		kind = mcpvisor.KindCanceled
	}
	return &mcpvisor.Error{Server: server, Op: op, Kind: kind, Cause: err}
}

// errClientClosed is the cause of authorizations that Close ends.
var errClientClosed = errors.New("the client is closed; make a new one")
