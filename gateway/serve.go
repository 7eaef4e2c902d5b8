package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/lines"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/linereader"
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
	context.AfterFunc(c.ctx, func() {
		if err := c.endError(nil); err != nil {
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

// direct passes messages between a session and a peer on a stream. The goroutine that reads a tool call
// also serves it and writes its answer, if no other request is in flight. Otherwise each call would pass
// through four goroutines, and each handover may wake a thread: that takes longer than all the work of
// the gateway.
//
// All other messages take the usual way. Another goroutine reads on while a call is served.
type direct struct {
	near   *connection
	far    mcp.Connection
	stream *lines.Transport // of far
	failed chan<- error     // buffered; gets the error of a goroutine that serves a call and cannot write

	writing sync.Mutex      // locked from taking a message from near until it is written, to keep their order
	next    jsonrpc.Message // taken from near, and not yet written; nil: none. Guarded by writing
}

// directCall is a call that is served by the goroutine that has read it.
type directCall struct {
	*direct
	request *request
}

// Run implements [linereader.Runner].
func (c directCall) Run() { c.near.serve(c.request) }

// Finish implements [linereader.Runner].
func (c directCall) Finish() { c.writeAtOnce() }

// take is the [linereader.Take] of the stream: it accepts a tool call before it is read as any other
// message.
func (d *direct) take(line []byte, mayRun bool) (run linereader.Runner, taken bool) {
	messages, batch, wrong := message.Read(line)
	if wrong != nil || batch {
		return nil, false
	}
	r, ok := messages[0].(*jsonrpc.Request)
	if !ok || !r.ID.IsValid() || r.Method != "tools/call" || d.near.ctx.Err() != nil {
		return nil, false
	}
	made := newRequest(d.near.ctx, r, d.near.out)
	if !d.near.requests().tryAdmit(made, mayRun) {
		made.cancel()
		return nil, false
	}
	if made.byReader {
		return directCall{d, made}, true
	}
	return nil, true
}

// maxDirectWrites bounds the messages that are written directly after a call.
const maxDirectWrites = 16

// writeAtOnce writes messages to the peer as far as that does not block, and then wakes the goroutine in
// passOn for the rest: the answer of a direct call does not wake it.
func (d *direct) writeAtOnce() {
	if !d.writing.TryLock() {
		d.near.out.signal()
		return
	}
	defer d.writing.Unlock()
	for range maxDirectWrites {
		m, err := d.nextLocked()
		if err != nil || m == nil {
			return // the other goroutine meets the end, too
		}
		written, err := d.stream.TryWrite(m)
		if err != nil {
			d.fail(err)
			return
		}
		if !written {
			break
		}
		d.next = nil
	}
	d.near.out.signal()
}

// nextLocked returns the message that is to be written next, and stores it in d.next; nil if there is
// none.
func (d *direct) nextLocked() (jsonrpc.Message, error) {
	if d.next != nil {
		return d.next, nil
	}
	m, err := d.near.poll()
	d.next = m
	return m, err
}

func (d *direct) fail(err error) {
	select {
	case d.failed <- passError(err):
	default: // one is enough
	}
}

// passOn passes messages of the session on to the peer until one of them ends.
func (d *direct) passOn(ctx context.Context) error {
	for {
		m, err := d.writeNext(ctx)
		if err == nil && m == nil {
			err = d.near.wait(ctx)
		}
		if err != nil {
			return passError(err)
		}
	}
}

func (d *direct) writeNext(ctx context.Context) (m jsonrpc.Message, err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if m, err = d.nextLocked(); m != nil {
		d.next = nil
		err = d.far.Write(ctx, m)
	}
	return m, err
}
