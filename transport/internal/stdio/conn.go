package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// conn frames messages on one pair of streams and matches responses to requests. Callers
// write for themselves (see [outbox]), and the only caller also reads (see [reading]).
//
// It serves two channels. On the call channel, requests have ids from jsonrpc.FirstID
// up, and a response goes straight to the caller that waits for it. Every other message
// belongs to the control channel.
type conn struct {
	// Set by newConn and newProcessConn, constant afterwards. Each guards itself.
	lifetime       *jsonrpc.Lifetime
	control        *controlChannel
	notifications  *jsonrpc.Notifications
	serverRequests inbound.Requests
	redactor       redact.Redactor
	buffer         *budget.Budget // bounds large messages of the server; nil: without bound

	table        jsonrpc.Table // the requests in flight; its mutex guards reading and the queue of out, too
	reading      reading
	out          outbox
	goWrite      func(write func()) // runs write in a goroutine; called with the mutex of the table
	onWriteError func(error)        // is called, at most once, by that goroutine
	pendingPool  sync.Pool          // of *pending; per conn, because their channels must not leave a synctest bubble

	// Written by the reader, read by others. All are atomic or guard
	// themselves.
	lastReceived jsonrpc.LastReceived
	discarded    jsonrpc.Discarded
	remarks      jsonrpc.Remarks

	// Owned by the reader.
	in    *lineReader
	noted int           // the reads of in that lastReceived knows
	split splitMessage  // the current message over several lines
	share *budget.Share // what the current line holds of buffer; nil if it is small
}

func newConn(life *jsonrpc.Lifetime, in io.Reader, out io.Writer, limit int) *conn {
	c := &conn{
		lifetime:      life,
		reading:       newReading(in),
		in:            newLineReader(in, limit),
		out:           outbox{out: out, tryWrite: pipe.TryWriter(out)},
		goWrite:       func(write func()) { go write() },
		onWriteError:  func(error) {},
		notifications: new(jsonrpc.Notifications),
		lastReceived:  jsonrpc.NewLastReceived(),
	}
	c.in.in.OnEmpty = c.mayStop
	c.in.reserve, c.in.free = c.reserveBuffer, c.freeLine
	c.pendingPool.New = c.newPending
	c.in.onUnfinished = c.receiveUnfinished
	c.control = newControlChannel(c)
	c.serverRequests = inbound.Requests{Calls: &c.table, Reply: c.sendResponse, Room: inbound.Allowance{Max: maxControlQueue},
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

// readLoop handles lines until the stream ends, and returns the error that ended it. It
// returns errPaused if its turn has ended (see [reading]).
func (c *conn) readLoop() error {
	for {
		line, tail, over, err := c.in.next()
		if errors.Is(err, errPaused) {
			if c.endTurn() {
				return err
			}
			continue
		}
		c.noteRead()
		if over {
			c.receiveOversize(line, tail)
		} else if len(line) > 0 {
			c.receive(line)
		}
		if err != nil {
			c.freeLine() // which the end of the stream has cut short
			return err
		}
	}
}

// noteRead records that the server is alive, if it has sent something. It is called for
// complete lines only: a server that sends one endless line answers nothing more.
func (c *conn) noteRead() {
	if c.noted != c.in.readCount {
		c.noted = c.in.readCount
		c.lastReceived.Note()
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// receive handles one line. A line that is not JSON-RPC is counted and skipped; it
// affects no call.
func (c *conn) receive(line []byte) {
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
		if id, ok := env.NumericID(); ok && id >= jsonrpc.FirstID {
			c.receiveResponse(id, env)
			return
		}
	}
	if !c.notifications.Dispatch(&env, &c.table, &c.discarded) {
		c.control.deliver(trimmed, &env)
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
			c.receive(item)
		} else {
			c.discarded.Malformed.Add(1)
		}
		return true
	})
}

// receiveResponse passes a response of the call channel to its caller.
func (c *conn) receiveResponse(id int64, env jsonrpc.Envelope) {
	p := c.takeAnswered(id)
	if p == nil {
		c.discarded.Unmatched.Add(1)
		return
	}
	switch {
	case env.Malformed:
		p.answer <- answer{err: invalidAnswer(errors.New("the answer is not valid JSON"), "")}
	case env.Error != nil:
		p.answer <- answer{err: jsonrpc.ServerError(c.redactor.JSON(env.Error))}
	case !c.in.reserveFor(len(env.Result)):
		p.answer <- answer{err: jsonrpc.NoRoomError()}
	default:
		result := c.in.detach(env.Result)
		p.answer <- answer{result: result, share: c.takeShare()}
	}
}

// failEmptyResponse fails the request whose response has neither a result nor an error.
// It reports false if the line is not such a response. The ids of the control channel
// are small, and log lines in JSON have small ids, too. So there the line must also say
// that it is JSON-RPC.
func (c *conn) failEmptyResponse(line []byte, env *jsonrpc.Envelope) bool {
	id, ok := env.NumericID()
	if !ok || env.Method != nil || id < jsonrpc.FirstID && !jsonrpc.IsVersion2(line) {
		return false
	}
	return c.failResponse(id, errors.New("the answer has neither a result nor an error"), "")
}

// receiveOversize fails the request whose response was skipped: it was too long, or
// there was no room for it. head and tail are the two ends of the line.
func (c *conn) receiveOversize(head, tail []byte) {
	c.discarded.Oversize.Add(1)
	id, ok := jsonrpc.FindID(head, tail)
	switch {
	case !ok:
	case c.in.noRoom:
		c.failSkipped(id)
	default:
		c.failResponse(id, fmt.Errorf("the answer is longer than %d bytes", c.in.limit), "raise Limits.MaxMessageBytes if such answers are expected")
	}
}

// failResponse fails a request, on either channel, whose response cannot be used. It
// reports false if no request with this id is in flight.
func (c *conn) failResponse(id int64, cause error, hint string) bool {
	if id < jsonrpc.FirstID {
		text := cause.Error()
		if hint != "" {
			text += "; " + hint
		}
		return c.control.failRequest(id, text)
	}
	p := c.takeAnswered(id)
	if p == nil {
		return false
	}
	p.answer <- answer{err: invalidAnswer(cause, hint)}
	return true
}

// invalidAnswer is the error of a call whose response violates the protocol.
func invalidAnswer(cause error, hint string) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: cause, Hint: hint}
}
