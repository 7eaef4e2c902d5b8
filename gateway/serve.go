package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/lines"
)

// Serve answers a peer outside this program, such as a host that has started the program as a server. It
// opens one session of each transport and passes the messages on. session is a [Transport] of a client,
// and peer is a transport to the peer:
//
//	err := gateway.Serve(ctx, gateway.Transport(client), &mcp.StdioTransport{})
//
// A program with many peers calls Serve for each of them with the same transport of a client, and an
// mcp.IOTransport for a connection of its listener. For Streamable HTTP use [Handler]. Serve
// authenticates no peer: each may call all tools.
//
// What a peer may cost is bounded by [Limits]. The transport of the peer bounds the length of a message,
// by its MaxLineLength. While a request waits for room (Limits.MaxWaiting, Limits.MaxRequestBytes),
// later messages of the peer wait, too, cancellations included. When more than 2 MiB of them wait,
// further requests are refused after 2 seconds, and further notifications are lost.
//
// With an mcp.IOTransport or an mcp.StdioTransport, a line that is not a message is answered with an
// error, and the session continues; the messages of a JSON-RPC batch are answered one by one, as version
// 2025-03-26 allows and newer ones demand. Another transport has to split batches itself.
//
// Serve returns nil when the peer has closed its side, which cancels the requests in flight. It also
// returns nil when the client was closed, after the answers in flight were sent. Otherwise it returns
// the error of ctx, [ErrPeerDoesNotRead], or the error of a transport that cannot connect, read or
// write. Both sessions are closed then. A peer that does not read delays the return by 3 seconds at
// most. A write to the peer that Close does not end keeps a goroutine. Safe for concurrent use.
func Serve(ctx context.Context, session, peer mcp.Transport) error {
	transport, stream := lines.Of(peer)
	far, err := transport.Connect(ctx)
	if err != nil {
		return fmt.Errorf("gateway: connect to the peer: %w", err)
	}
	near, err := session.Connect(ctx)
	if err != nil {
		_ = far.Close()
		return fmt.Errorf("gateway: open the session: %w", err)
	}
	ended := make(chan error, 2)
	if c, ok := near.(*connection); ok {
		c.session.peer.Introduce(clients.Info{Transport: "stdio"})
		if stream != nil {
			stream.OnTaken(c.exchange.out.noteRead)
		}
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { ended <- passOn(both, far, near) }()
	go func() { ended <- passOn(both, near, far) }()
	select {
	case err = <-ended:
	case err = <-failure(near):
	case <-stream.Ended():
		select {
		case err = <-ended: // the last messages of the peer were passed on
		case <-time.After(endTimeout): // they wait for room
		}
	}
	cancel()
	_ = near.Close()
	_ = far.Close()
	select {
	case <-ended: //nolint:errcheck // the first error counts
	case <-time.After(closeTimeout):
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// failure returns a channel that gets the error of a session that fails, even while no message is passed
// on. A session that ends without an error sends nothing: its last answers are still being passed on.
func failure(session mcp.Connection) <-chan error {
	c, ok := session.(*connection)
	if !ok {
		return nil
	}
	failed := make(chan error, 1)
	context.AfterFunc(c.session.ctx, func() {
		if err := c.session.endError(nil); err != nil {
			failed <- err
		}
	})
	return failed
}

// endTimeout bounds how long the last messages of a peer may wait to be passed on.
const endTimeout = time.Second

// closeTimeout bounds the wait for a peer that does not read. The sum of endTimeout and closeTimeout is
// well below 5 seconds: within that time a command such as mcpvisor wrap must end after its stdin.
const closeTimeout = 2 * time.Second

// passOn passes messages on until a session ends. It returns nil if one was closed.
func passOn(ctx context.Context, from, to mcp.Connection) error {
	for {
		m, err := from.Read(ctx)
		if err == nil {
			err = to.Write(ctx, m)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed):
			return nil
		case errors.Is(err, ErrPeerDoesNotRead):
			return err
		default:
			return fmt.Errorf("gateway: pass a message on: %w", err)
		}
	}
}
