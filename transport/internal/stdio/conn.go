package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio/reader"
)

// conn frames messages on one pair of streams and matches responses to requests. Callers
// write for themselves (see [lineQueue]). The only caller also reads (see package reader),
// so "the goroutine that reads" may be a caller.
//
// A response goes straight to the caller that waits for it. Requests and notifications of the
// server go to the handlers of the host.
type conn struct {
	// Set by newConn and newProcessConn, constant afterwards. Each guards itself.
	lifetime       *jsonrpc.Lifetime
	notifications  *jsonrpc.Notifications
	serverRequests inbound.Requests
	redactor       redact.Redactor
	reader         *reader.Reader // of stdout; its mutex is locked after that of the table
	maxLine        int            // the longest message that is read, in bytes
	onReadEnd      func(error)    // is called, once, by the goroutine that reads

	table        jsonrpc.Table // the requests in flight; its mutex guards the queue of out, too
	out          lineQueue
	goWrite      func(write func()) // runs write in a goroutine; called with the mutex of the table
	onWriteError func(error)        // is called, at most once, by that goroutine
	pendingPool  sync.Pool          // of *pending; per conn, because their channels must not leave a synctest bubble

	// Written by the goroutine that reads, read by others. All are atomic or guard
	// themselves.
	lastReceived jsonrpc.LastReceived
	discarded    jsonrpc.Discarded
	remarks      jsonrpc.Remarks

	split splitMessage // the current message over several lines; owned by the goroutine that reads
}

// newConn makes a connection that reads from the moment at which its reader is started.
func newConn(life *jsonrpc.Lifetime, in io.Reader, out io.Writer, o reader.Options) *conn {
	c := &conn{
		lifetime:      life,
		maxLine:       o.MaxLine,
		onReadEnd:     func(error) {},
		out:           lineQueue{out: out, tryWrite: pipe.TryWriter(out)},
		goWrite:       func(write func()) { go write() },
		onWriteError:  func(error) {},
		notifications: new(jsonrpc.Notifications),
		lastReceived:  jsonrpc.NewLastReceived(),
	}
	o.Dead = life.Dead()
	c.reader = reader.New(in, c, o)
	c.pendingPool.New = func() any { return c.newPending() }
	c.serverRequests = inbound.Requests{Calls: &c.table, Reply: c.sendResponse, Room: inbound.Allowance{Max: maxServerRequests},
		Go: func(f func()) bool { go f(); return true }}
	return c
}

// end records the end of the connection and fails all requests in flight. It reports
// whether cause is the first one.
func (c *conn) end(cause *supervisor.Cause) bool {
	first := c.lifetime.RecordEnd(cause)
	if first {
		c.failAll()
		runtime.Gosched() // the callers first: nothing that OnDead calls is as urgent
	}
	c.lifetime.Notify()
	return first
}

// NoteReceived implements [reader.Handler].
func (c *conn) NoteReceived() { c.lastReceived.Note() }

// ReadEnded implements [reader.Handler].
func (c *conn) ReadEnded(err error) { c.onReadEnd(err) }

var byteOrderMark = []byte("\xef\xbb\xbf")

// ReceiveLine implements [reader.Handler]. A line that is not JSON-RPC is counted and
// skipped; it affects no call.
func (c *conn) ReceiveLine(line []byte) {
	c.remarks.LineEnded()
	// "Implementations that parse JSON texts MAY ignore the presence of a byte order
	// mark" (RFC 8259, 8.1). Some servers begin with one.
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(trimmed) > 0 && trimmed[0] == '[' {
		c.receiveBatch(trimmed)
		return
	}
	env, ok := jsonrpc.ScanEnvelope(trimmed)
	if ok && jsonrpc.IsOrphan(trimmed, &env) {
		c.receiveErrorWithoutID(&env)
		return
	}
	if !ok || !env.IsMessage() {
		if len(trimmed) > 0 && !(ok && c.failEmptyResponse(trimmed, &env)) && (ok || !c.receiveJoined(trimmed)) {
			c.receiveMalformed(trimmed)
		}
		return
	}
	if c.split.depth > 0 {
		c.split.reset()
	}
	if env.IsResponse() {
		if id, ok := env.NumericID(); ok {
			c.receiveResponse(id, env)
		} else {
			c.discarded.Unmatched.Add(1)
		}
		return
	}
	if !c.notifications.Dispatch(&env, 0, &c.table, &c.discarded) && c.serverRequests.Receive(trimmed, &env, 0, &c.discarded) {
		c.refuseRequest(env.ID, inbound.ErrTooMany)
	}
}

// maxServerRequests bounds the requests of the server that are not answered yet, each of which has a
// goroutine until the server has read the response; further ones are refused. inbound.MaxHeldBytes bounds their bytes.
const maxServerRequests = 1024

// refuseRequest answers a request of the server with an error. If the server does not
// read its responses, the request is dropped and counted instead.
func (c *conn) refuseRequest(id []byte, why *sdkrpc.Error) {
	line, ok := inbound.ResponseLine(id, nil, why)
	if !ok || !c.postLineIfRoom(&outgoing{text: append(line, '\n')}, maxServerRequests) {
		c.discarded.Dropped.Add(1)
	}
}

// receiveBatch handles the messages of a JSON-RPC batch (MCP 2025-03-26). What is not
// an object is counted as malformed.
func (c *conn) receiveBatch(batch []byte) {
	if !jsonscan.Valid(batch) {
		c.receiveMalformed(batch)
		return
	}
	jsonscan.EachItem(batch, func(item []byte) bool {
		if item[0] == '{' {
			c.ReceiveLine(item)
		} else {
			c.discarded.Malformed.Add(1)
		}
		return true
	})
}

// ReceiveResponse implements [reader.Handler].
func (c *conn) ReceiveResponse(line []byte) (handled bool) {
	c.remarks.LineEnded()
	if env, ok := jsonrpc.ScanEnvelope(line); ok && env.IsMessage() && env.IsResponse() && c.split.depth == 0 {
		if id, ok := env.NumericID(); ok {
			c.receiveResponse(id, env)
			return true
		}
	}
	return false
}

// receiveResponse passes a response to its caller.
func (c *conn) receiveResponse(id int64, env jsonrpc.Envelope) {
	p := c.takeAnswered(id)
	if p == nil {
		c.discarded.Unmatched.Add(1)
		return
	}
	switch {
	case env.Malformed:
		p.end(answer{err: invalidAnswer(errors.New("the answer is not valid JSON"), "")})
	case env.Error != nil:
		p.end(answer{err: jsonrpc.ServerError(c.redactor.JSON(env.Error))})
	default:
		result, share, ok := c.reader.Keep(env.Result)
		if !ok {
			p.end(answer{err: c.noRoomError()})
			return
		}
		p.end(answer{result: result, share: share})
	}
}

// noRoomError returns the error of a call whose answer was skipped. The end of the
// connection ends the wait for memory, too; the call fails by that end then, as all others.
func (c *conn) noRoomError() *mcpvisor.Error {
	if died := c.lifetime.Cause(); died != nil {
		return transport.DeathError(died, mcpvisor.OutcomeUnknown)
	}
	return jsonrpc.NoRoomError()
}

// failEmptyResponse fails the request whose response has neither a result nor an error.
// It reports false if the line is not such a response. The ids of the handshake
// are small, and log lines in JSON have small ids, too. So there the line must also say
// that it is JSON-RPC.
func (c *conn) failEmptyResponse(line []byte, env *jsonrpc.Envelope) bool {
	id, ok := env.NumericID()
	if !ok || env.Method != nil || id < jsonrpc.FirstID && !jsonrpc.IsVersion2(line) {
		return false
	}
	return c.failResponse(id, errors.New("the answer has neither a result nor an error"), "")
}

// ReceiveSkipped implements [reader.Handler]. It fails the request whose response was
// skipped.
func (c *conn) ReceiveSkipped(head, tail []byte, noRoom bool) {
	c.discarded.CountSkipped(noRoom)
	c.remarks.LineEnded()
	id, ok := jsonrpc.FindID(head, tail)
	switch {
	case !ok:
	case !noRoom:
		c.failResponse(id, fmt.Errorf("the answer is longer than %d bytes", c.maxLine), "raise Limits.MaxMessageBytes if such answers are expected")
	default:
		if p := c.takeAnswered(id); p != nil {
			p.end(answer{err: c.noRoomError()})
		}
	}
}

// failResponse fails a request whose response cannot be used. It reports false if no request
// with this id is in flight.
func (c *conn) failResponse(id int64, cause error, hint string) bool {
	p := c.takeAnswered(id)
	if p == nil {
		return false
	}
	p.end(answer{err: invalidAnswer(cause, hint)})
	return true
}

// invalidAnswer is the error of a call whose response violates the protocol.
func invalidAnswer(cause error, hint string) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: cause, Hint: hint}
}

// receiveErrorWithoutID handles an error that names no request. It fails the request in
// flight if there is exactly one and it gets no answer in time. If there are several,
// or if the error may be about a notification of this client, the error is recorded (see
// jsonrpc/remarks.go).
func (c *conn) receiveErrorWithoutID(env *jsonrpc.Envelope) {
	failed := jsonrpc.ServerError(c.redactor.JSON(env.Error))
	readable := failed.Kind == mcpvisor.ErrRPC // if not, the line may be a torn log line
	if readable && jsonrpc.MayFailRequest(failed) && c.failOnlyRequest(failed) {
		return
	}
	if text, log := c.remarks.AddOrphan(failed, &c.discarded); log && c.serverRequests.Handler != nil {
		c.serverRequests.Handler.Pool.Log().Warn().Str("error", text).Msg("the server sent an error that names no request")
	}
}

// failOnlyRequest fails the request in flight: one of the handshake at once, a call after
// jsonrpc.OrphanGrace. It reports false if no request is in flight, or more than one. It also
// does if an error has been noted for the request before, and while a handler of the host
// works for the request.
func (c *conn) failOnlyRequest(why *mcpvisor.Error) bool {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	p, n := c.onlyInFlightLocked()
	if n != 1 || p.orphan != nil || p.entry.Clocks.Paused() {
		return false
	}
	grace := jsonrpc.OrphanGrace
	if p.entry.ID < jsonrpc.FirstID {
		grace = 0
	}
	p.orphan = jsonrpc.OrphanError(why)
	c.table.HastenLocked(&p.entry, time.Now().Add(grace))
	return true
}

// onlyInFlightLocked counts the requests that the server may have seen, and returns one of
// them. Streams stay open without a response, so they count only if there is no other request.
// Requests of the handshake count as streams.
func (c *conn) onlyInFlightLocked() (only *pending, count int) {
	var stream *pending
	streams := 0
	for e := range c.table.Open.All() {
		p := e.Owner.(*pending)
		switch {
		case p.line.state == lineUnsent:
		case p.stream:
			stream = p
			streams++
		default:
			only = p
			count++
		}
	}
	if count == 0 {
		return stream, streams
	}
	return only, count
}
