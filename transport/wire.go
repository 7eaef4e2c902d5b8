package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/messages"
)

// laneBase is where the ids of the call lane begin: far from those of the
// go-sdk, which count from 1, and well below 2^53, so that servers in
// JavaScript give them back unharmed.
const laneBase = int64(1) << 40

// wire frames messages on one pair of streams and matches answers to
// requests. One goroutine reads, one writes whole lines.
//
// It serves two lanes. On the call lane requests carry ids from laneBase up
// and their answers go straight to whoever waits. Everything else belongs to
// the control lane.
type wire struct {
	*lifeline
	in    *lineReader
	out   io.Writer
	queue chan *outgoing

	nextID  atomic.Int64
	mu      sync.Mutex
	pending map[int64]*pending

	control *control
	heard   atomic.Int64 // unix nanoseconds
	noise   noise
}

// pending is a request of the call lane that waits for its answer.
type pending struct{ answer chan answer }

type answer struct {
	result json.RawMessage
	err    *messages.Error
}

// outgoing is one line on its way to the writer. Whoever moves state away
// from queued first decides whether it is written at all.
type outgoing struct {
	line  []byte
	state atomic.Int32
	done  chan struct{} // closed when written; nil if nobody waits for that
}

const (
	queued int32 = iota
	taken
	withdrawn
)

type noise struct{ junk, oversize, unmatched, dropped atomic.Uint64 }

func newWire(life *lifeline, in io.Reader, out io.Writer, limit int) *wire {
	w := &wire{
		lifeline: life,
		in:       newLineReader(in, limit),
		out:      out,
		queue:    make(chan *outgoing),
		pending:  make(map[int64]*pending),
	}
	w.nextID.Store(laneBase)
	w.control = newControl(w)
	return w
}

// readLoop reads until the stream ends and returns why it did.
func (w *wire) readLoop() error {
	for {
		line, tail, over, err := w.in.next()
		if len(line) > 0 {
			w.heard.Store(time.Now().UnixNano())
			if over {
				w.oversize(line, tail)
			} else if err == nil || len(line) > 0 {
				w.receive(line)
			}
		}
		if err != nil {
			return err
		}
	}
}

// writeLoop writes queued lines until the session is dead or a write fails.
func (w *wire) writeLoop() error {
	for {
		select {
		case <-w.dead:
			return nil
		case o := <-w.queue:
			if !o.state.CompareAndSwap(queued, taken) {
				continue
			}
			_, err := w.out.Write(o.line)
			if o.done != nil {
				close(o.done)
			}
			if err != nil {
				return err
			}
		}
	}
}

// receive handles one line. What is not JSON-RPC is counted and skipped: it
// costs nobody anything.
func (w *wire) receive(line []byte) {
	trimmed := bytes.TrimSpace(line)
	if len(trimmed) > 0 && trimmed[0] == '[' { // a batch (2025-03-26)
		var batch []json.RawMessage
		if json.Unmarshal(trimmed, &batch) == nil {
			for _, one := range batch {
				if len(one) > 0 && one[0] == '{' {
					w.receive(one)
				} else {
					w.noise.junk.Add(1)
				}
			}
			return
		}
	}
	env, ok := scanEnvelope(trimmed)
	if !ok || !env.isMessage() {
		if len(trimmed) > 0 {
			w.noise.junk.Add(1)
		}
		return
	}
	if env.isResponse() {
		if id, ok := env.numericID(); ok && id >= laneBase {
			w.answer(id, env)
			return
		}
	}
	w.control.deliver(trimmed, &env)
}

func (w *wire) answer(id int64, env envelope) {
	p := w.take(id)
	if p == nil {
		w.noise.unmatched.Add(1)
		return
	}
	var a answer
	switch {
	case env.errorm != nil:
		a.err = rpcError(env.errorm)
	case !json.Valid(env.result):
		a.err = &messages.Error{Kind: messages.KindProtocol, Outcome: messages.Answered,
			Cause: errors.New("the result is not valid JSON")}
	default:
		a.result = env.result
	}
	p.answer <- a
}

// oversize fails the one call whose answer was too long.
func (w *wire) oversize(head, tail []byte) {
	w.noise.oversize.Add(1)
	id, ok := edgeID(head, tail)
	if !ok {
		return
	}
	if p := w.take(id); p != nil {
		p.answer <- answer{err: &messages.Error{Kind: messages.KindProtocol, Outcome: messages.Answered,
			Cause: fmt.Errorf("the answer is longer than %d bytes", w.in.limit),
			Hint:  "raise Limits.Line if such answers are expected"}}
	}
}

func (w *wire) take(id int64) *pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pending[id]
	delete(w.pending, id)
	return p
}

// request sends one request on the call lane and waits for its answer.
func (w *wire) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, requestError(ctx, w.Cause(), messages.NotSent, err)
	}
	id := w.nextID.Add(1)
	p := &pending{answer: make(chan answer, 1)}
	w.mu.Lock()
	w.pending[id] = p
	w.mu.Unlock()

	o := &outgoing{line: requestLine(id, method, params)}
	select {
	case w.queue <- o:
	case <-w.dead:
		return nil, w.abandon(ctx, id, o)
	case <-ctx.Done():
		return nil, w.abandon(ctx, id, o)
	}
	select {
	case a := <-p.answer:
		return a.unpack()
	case <-w.dead:
	case <-ctx.Done():
	}
	// An answer that came together with the end is still an answer.
	select {
	case a := <-p.answer:
		return a.unpack()
	default:
	}
	return nil, w.abandon(ctx, id, o)
}

func (a answer) unpack() (json.RawMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.result, nil
}

// abandon gives a request up and says what is known about it. A request that
// the server has seen and may still work on is cancelled there.
func (w *wire) abandon(ctx context.Context, id int64, o *outgoing) error {
	w.take(id)
	outcome := messages.Unknown
	if o.state.CompareAndSwap(queued, withdrawn) {
		outcome = messages.NotSent
	}
	died := w.Cause()
	if died == nil && outcome == messages.Unknown {
		w.cancelRemote(id, ctx)
	}
	return requestError(ctx, died, outcome, nil)
}

// cancelRemote tells the server that nobody waits for the answer any more
// (MCP, utilities, cancellation). It does not wait: to a server that is not
// reading, the notice is lost.
func (w *wire) cancelRemote(id int64, ctx context.Context) {
	reason := "canceled"
	if errors.Is(context.Cause(ctx), messages.ErrTimeout) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = "timed out"
	}
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`+"\n", id, reason)
	go func() {
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case w.queue <- &outgoing{line: line}:
		case <-w.dead:
		case <-t.C:
		}
	}()
}

// send writes one line of the control lane and waits until it is written.
func (w *wire) send(ctx context.Context, line []byte) error {
	o := &outgoing{line: line, done: make(chan struct{})}
	select {
	case w.queue <- o:
	case <-w.dead:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return errRejected(ctx.Err())
	}
	select {
	case <-o.done:
		return nil
	case <-w.dead:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return errRejected(ctx.Err())
	}
}

// errRejected makes the go-sdk fail one request instead of the whole session:
// code -32005 is its "rejected by transport" (jsonrpc2.ErrRejected).
func errRejected(err error) error {
	return fmt.Errorf("%w: %w", &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}, err)
}

func requestLine(id int64, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, len(params)+len(method)+64)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if len(params) > 0 {
		b = append(b, `,"params":`...)
		b = appendOneLine(b, params)
	}
	return append(b, '}', '\n')
}

// appendOneLine appends JSON text, compacted if it holds line breaks: a
// message MUST NOT contain embedded newlines (MCP, transports, stdio).
func appendOneLine(b []byte, text json.RawMessage) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return append(b, text...)
	}
	buf := bytes.NewBuffer(b)
	if json.Compact(buf, text) != nil {
		return append(b, text...)
	}
	return buf.Bytes()
}

func (w *wire) noiseCounts() messages.Noise {
	return messages.Noise{
		Junk:      w.noise.junk.Load(),
		Oversize:  w.noise.oversize.Load(),
		Unmatched: w.noise.unmatched.Load(),
		Dropped:   w.noise.dropped.Load(),
	}
}
