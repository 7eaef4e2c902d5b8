// Package lines connects a gateway with a peer on a stream that carries one message a line (MCP, basic,
// transports, stdio). The connection has its lines; package linereader bounds what is read ahead.
package lines

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/linereader"
)

// Of returns a transport that replaces a stream transport of the go-sdk. In the go-sdk, a line that
// cannot be read ends the session with all requests in flight; here it is answered with an error. The
// messages of a JSON-RPC batch are received one by one: only version 2025-03-26 has batches, and it
// allows separate answers. Any other transport is returned as it is, and lines is nil.
func Of(peer mcp.Transport) (transport mcp.Transport, lines *Transport) {
	switch peer := peer.(type) {
	case *mcp.IOTransport:
		lines = &Transport{reader: peer.Reader, writer: peer.Writer, maxLine: peer.MaxLineLength}
		return lines, lines
	case *mcp.StdioTransport:
		lines = &Transport{reader: os.Stdin, writer: openWriter{os.Stdout}, maxLine: peer.MaxLineLength}
		return lines, lines
	case *mcp.LoggingTransport:
		transport, lines = Of(peer.Transport)
		return &mcp.LoggingTransport{Transport: transport, Writer: peer.Writer}, lines
	}
	return peer, nil
}

// openWriter is a writer that Close leaves open: standard output.
type openWriter struct{ io.Writer }

// Close implements io.Closer.
func (openWriter) Close() error { return nil }

// Transport is a transport on a stream. Connect is called once, before all other methods.
type Transport struct {
	reader  io.ReadCloser
	writer  io.WriteCloser
	maxLine int   // as in mcp.IOTransport: 0 means the default, and a negative value no bound
	made    *conn // by Connect; nil before
}

// Connect implements [mcp.Transport].
func (t *Transport) Connect(context.Context) (mcp.Connection, error) {
	c := &conn{reader: t.reader, writer: t.writer, maxLine: cmp.Or(t.maxLine, mcp.DefaultMaxLineLength), closed: make(chan struct{})}
	c.buffer = bufio.NewWriter(pieces{c})
	if c.maxLine < 0 {
		c.maxLine = math.MaxInt
	}
	c.lines = linereader.New(c.reader, c.maxLine).Ahead(c.refuseAll)
	t.made = c
	return c, nil
}

// OnTaken sets the function that is called when the peer has read a piece of a message.
func (t *Transport) OnTaken(f func()) {
	t.made.mu.Lock()
	defer t.made.mu.Unlock()
	t.made.taken = f
}

// Ended returns a channel that is closed when the peer has closed its side, even if a message of the
// peer is not read yet; nil if t is nil.
func (t *Transport) Ended() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.made.lines.Ended()
}

// conn is a connection on a stream. A goroutine reads the stream until it ends or is closed. A read that
// Close does not end keeps the goroutine.
type conn struct {
	lines    *linereader.Ahead
	reader   io.ReadCloser
	writer   io.WriteCloser
	maxLine  int
	incoming []jsonrpc.Message // what is left of the last line; owned by the goroutine that calls Read
	closed   chan struct{}     // by Close
	close    sync.Once

	mu     sync.Mutex // locked while a message is written; guards the fields below
	buffer *bufio.Writer
	taken  func() // called for each piece that was written; may be nil
}

// pieces writes to the stream of a conn, message.PieceBytes at a time.
type pieces struct{ *conn }

// Write implements io.Writer.
func (p pieces) Write(b []byte) (written int, err error) {
	for len(b) > written && err == nil {
		var n int
		n, err = p.writer.Write(b[written:min(len(b), written+message.PieceBytes)])
		written += n
		if p.taken != nil {
			p.taken()
		}
	}
	return written, err
}

// refuse answers messages that cannot be read. While the peer does not read these answers, nothing more
// is read from the peer.
func (c *conn) refuse(refusals ...*jsonrpc.Response) {
	for _, r := range refusals {
		_ = c.Write(context.Background(), r) // an error also ends the reading
	}
}

// refuseAll refuses the requests of a line for which there is no room.
func (c *conn) refuseAll(line []byte) {
	messages, refusals := message.ReadEach(line)
	c.refuse(refusals...)
	for _, m := range messages {
		if id := message.IDOf(m); id.IsValid() {
			c.refuse(&jsonrpc.Response{ID: id, Error: message.Busy("too many requests wait")})
		}
	}
}

// Read implements [mcp.Connection]. One goroutine calls it.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(c.incoming) == 0 {
		line, err := c.lines.Next(ctx)
		switch {
		case errors.Is(err, linereader.ErrTooLong):
			c.refuse(&jsonrpc.Response{Error: message.InvalidRequest("the message is longer than %d bytes", c.maxLine)})
			continue
		case errors.Is(err, linereader.ErrClosed):
			return nil, io.EOF
		case err != nil:
			return nil, err
		}
		messages, refusals := message.ReadEach(line)
		c.refuse(refusals...)
		c.incoming = messages
	}
	m := c.incoming[0]
	c.incoming = c.incoming[1:]
	return m, nil
}

// Write implements [mcp.Connection]. It ends when the message is written, or with Close.
func (c *conn) Write(ctx context.Context, m jsonrpc.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	encoded := message.Encode(m)
	for _, part := range [][]byte{encoded.Head, jsonscan.OneLine(encoded.Body), encoded.Tail, []byte("\n")} {
		_, _ = c.buffer.Write(part) // Flush has the error
	}
	err := c.buffer.Flush()
	select {
	case <-c.closed:
		return mcp.ErrConnectionClosed
	default:
	}
	if err != nil {
		return fmt.Errorf("write to the peer: %w", err)
	}
	return nil
}

// Close implements [mcp.Connection].
func (c *conn) Close() (err error) {
	c.close.Do(func() {
		close(c.closed)
		c.lines.Close()
		err = errors.Join(c.reader.Close(), c.writer.Close())
	})
	return err
}

// SessionID implements [mcp.Connection]. It is empty.
func (c *conn) SessionID() string { return "" }
