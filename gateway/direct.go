package gateway

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/lines"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/linereader"
)

// direct is a session whose peer is on a stream. A tool call that comes alone is served by the goroutine that has read it,
// which writes the answer, too. Otherwise its message would pass from goroutine to goroutine four times, and each
// time that may wake a thread: that takes longer than all the work of the gateway.
//
// Everything else takes the usual way, and what comes while a call is served is read by another goroutine.
type direct struct {
	near   *connection
	far    mcp.Connection
	stream *lines.Transport // of far
	failed chan<- error     // has room: why a goroutine that serves could not write

	writing sync.Mutex      // held from taking a message from near until it is written, which keeps their order
	held    jsonrpc.Message // taken, and to be written first; nil: none. Guarded by writing
}

// directCall is a call that the goroutine serves that has read it.
type directCall struct {
	*direct
	request *request
}

// Run implements [linereader.Runner].
func (c directCall) Run() { c.near.serve(c.request) }

// Finish implements [linereader.Runner].
func (c directCall) Finish() { c.writeAtOnce() }

// take is the [linereader.Take] of the stream.
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

// maxDirectWrites is how many messages are written at once after a call.
const maxDirectWrites = 16

// writeAtOnce writes what the session has for its peer as far as that does not block, and leaves the rest to the goroutine
// that passes messages on. That was not woken for the answer.
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
		d.held = nil
	}
	d.near.out.signal()
}

// nextLocked returns what is written next, which is then held; nil if there is nothing.
func (d *direct) nextLocked() (jsonrpc.Message, error) {
	if d.held != nil {
		return d.held, nil
	}
	m, err := d.near.poll()
	d.held = m
	return m, err
}

func (d *direct) fail(err error) {
	select {
	case d.failed <- passError(err):
	default: // one is enough
	}
}

// passOn passes on what the session has for its peer, as the function of that name does.
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
		d.held = nil
		err = d.far.Write(ctx, m)
	}
	return m, err
}
