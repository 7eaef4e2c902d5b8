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

// Serve answers a peer outside this program, such as a host that started it as a server. It opens
// one session of each transport and passes the messages on. session is a [Transport] of a client,
// and peer leads to the peer:
//
//	err := gateway.Serve(ctx, gateway.Transport(client), &mcp.StdioTransport{})
//
// A program with many peers calls Serve for each of them with the same transport of a client,
// and an mcp.IOTransport for a connection of its listener. For Streamable HTTP use [Handler]. Serve
// authenticates no peer: each may call all tools.
//
// What a peer may cost is bounded by [Limits]. The transport of the peer bounds the length
// of a message, by its MaxLineLength. While a request waits for room (Limits.MaxWaiting,
// Limits.MaxRequestBytes), what the peer sends further waits, too, cancellations included. Beyond 2 MiB of that,
// requests are refused after 2 seconds, and notifications are lost.
//
// Behind an mcp.IOTransport or an mcp.StdioTransport a line that is not a message is answered with an
// error, and the session continues; the messages of a JSON-RPC batch are answered one by one, as version
// 2025-03-26 allows and newer ones demand. Another transport has to split batches itself.
//
// It returns nil when the peer has closed its side, which cancels the requests in flight, and
// when the client was closed, after their answers were sent. It returns the error of ctx when
// that ends, [ErrPeerDoesNotRead], and the error of a transport that cannot connect, read or write. Both
// sessions are closed then. A peer that does not read its messages delays the return by 3 seconds at
// most, and a write to it that does not end when it is closed keeps a goroutine. Safe for concurrent use.
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
	ended := make(chan error, 3)
	passBack := func(ctx context.Context) error { return passOn(ctx, near, far) }
	if c, ok := near.(*connection); ok {
		c.peer.Introduce(clients.Info{Transport: "stdio"})
		if stream != nil {
			stream.OnTaken(c.out.noteRead)
			if stream.IsBehind(far) {
				d := &direct{near: c, far: far, stream: stream, failed: ended}
				stream.TakeWith(d.take)
				passBack = d.passOn
			}
		}
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { ended <- passOn(both, far, near) }()
	go func() { ended <- passBack(both) }()
	select {
	case err = <-ended:
	case err = <-failure(near):
	case <-stream.Ended():
		select {
		case err = <-ended: // what it has sent before its end is passed on
		case <-time.After(endTimeout): // its requests wait for room
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

// failure returns a channel with the error that ends a session while nothing is passed on. A
// session that ends as it should sends nothing: its last answers are on their way.
func failure(session mcp.Connection) <-chan error {
	c, ok := session.(*connection)
	if !ok {
		return nil
	}
	failed := make(chan error, 1)
	context.AfterFunc(c.ctx, func() {
		if err := c.endError(nil); err != nil {
			failed <- err
		}
	})
	return failed
}

// endTimeout bounds how long the last messages of a peer may wait to be passed on.
const endTimeout = time.Second

// closeTimeout bounds the wait for a peer that does not read. Together with endTimeout it is well below the 5 seconds
// within which a command such as mcpvisor wrap ends after its stdin.
const closeTimeout = 2 * time.Second

// passOn passes messages on until a session ends. It returns nil if one was closed.
func passOn(ctx context.Context, from, to mcp.Connection) error {
	for {
		m, err := from.Read(ctx)
		if err == nil {
			err = to.Write(ctx, m)
		}
		if err != nil {
			return passError(err)
		}
	}
}

// passError is the error of Serve when a message could not be passed on; nil if a session was closed.
func passError(err error) error {
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed):
		return nil
	case errors.Is(err, ErrPeerDoesNotRead):
		return err
	}
	return fmt.Errorf("gateway: pass a message on: %w", err)
}
