package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// wire frames messages on one pair of streams and matches answers to
// requests. One goroutine reads; callers write for themselves (see [outbox]).
//
// It serves two lanes. On the call lane requests carry ids from laneBase up
// and their answers go straight to the waiting caller. Everything else belongs to
// the control lane.
type wire struct {
	*jsonrpc.Lifetime
	in *lineReader

	table jsonrpc.Table // the requests in flight; its mutex guards out too
	out   outbox
	spare sync.Pool // of *pending; their channels must not leave a synctest bubble with the session

	control  *control
	notices  *jsonrpc.Notifications
	redactor redact.Redactor
	heard    jsonrpc.LastReceived
	asked    inbound.Requests
	noise    jsonrpc.Discarded

	several severalLines // of the reader
	remarks jsonrpc.Remarks
	orphans *rate.Limiter

	buffer *budget.Budget // of the server; nil: without bound
	share  *budget.Share  // of the line that is being read; the reader's
}

func newWire(life *jsonrpc.Lifetime, in io.Reader, out io.Writer, limit int) *wire {
	w := &wire{
		Lifetime: life,
		in:       newLineReader(in, limit),
		out:      outbox{out: out, try: tryWriter(out), takeover: make(chan struct{}, 1)},
		notices:  new(jsonrpc.Notifications),
		heard:    jsonrpc.NewLastReceived(),
		orphans:  rate.NewLimiter(jsonrpc.OrphanLogRate, 1),
	}
	w.in.reserve, w.in.free = w.reserve, w.freeLine
	w.spare.New = w.newPending
	w.in.onUnfinished = w.unfinished
	w.control = newControl(w)
	w.asked = inbound.Requests{Calls: &w.table, Reply: w.reply, Room: inbound.Allowance{Max: controlQueue},
		Go: func(f func()) bool { go f(); return true }}
	return w
}

// die records the end and fails what is under way.
func (w *wire) die(cause *supervisor.Cause) bool {
	first := w.Lifetime.End(cause)
	if first {
		w.failAll()
	}
	return first
}

// readLoop reads until the stream ends and returns why it did.
func (w *wire) readLoop() error {
	defer w.freeLine() // of a line that the end of the stream cuts short
	for reads := 0; ; {
		line, tail, over, err := w.in.next()
		if reads != w.in.reads {
			reads = w.in.reads
			w.heard.Note()
		}
		if over {
			w.oversize(line, tail)
		} else if len(line) > 0 {
			w.receive(line)
		}
		if err != nil {
			return err
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// receive handles one line. What is not JSON-RPC is counted and skipped: it
// costs no call anything.
func (w *wire) receive(line []byte) {
	// A parser may ignore a byte order mark (RFC 8259, 8.1); some writers begin
	// with one.
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(trimmed) > 0 && trimmed[0] == '[' { // a batch (2025-03-26)
		if !jsonscan.Valid(trimmed) {
			w.junk(trimmed)
			return
		}
		jsonscan.EachItem(trimmed, func(one []byte) bool {
			if one[0] == '{' {
				w.receive(one)
			} else {
				w.noise.Malformed.Add(1)
			}
			return true
		})
		return
	}
	env, ok := jsonrpc.ScanEnvelope(trimmed)
	if ok && jsonrpc.IsOrphan(trimmed, &env) {
		w.orphaned(&env)
		return
	}
	if !ok || !env.IsMessage() {
		if len(trimmed) > 0 && !(ok && w.emptyAnswer(trimmed, &env)) {
			w.junk(trimmed)
		}
		return
	}
	if w.several.depth > 0 {
		w.several.reset()
	}
	if env.IsResponse() {
		if id, ok := env.NumericID(); ok && id >= jsonrpc.FirstID {
			w.answer(id, env)
			return
		}
	}
	if !w.notices.Dispatch(&env, &w.table, &w.noise) {
		w.control.deliver(trimmed, &env)
	}
}

// emptyAnswer fails the request that is answered with neither result nor
// error. A line that merely has a number as "id" is junk: the ids of the control
// lane are small, and what servers log has ids too.
func (w *wire) emptyAnswer(line []byte, env *jsonrpc.Envelope) bool {
	id, ok := env.NumericID()
	if !ok || env.Method != nil {
		return false
	}
	const complaint = "the answer has neither a result nor an error"
	if id < jsonrpc.FirstID {
		return jsonrpc.IsVersion2(line) && w.control.fail(id, complaint)
	}
	p := w.take(id)
	if p == nil {
		return false
	}
	p.answer <- answer{err: &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New(complaint)}}
	return true
}

func (w *wire) answer(id int64, env jsonrpc.Envelope) {
	p := w.take(id)
	if p == nil {
		w.noise.Unmatched.Add(1)
		return
	}
	switch {
	case env.Malformed:
		p.answer <- answer{err: &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: errors.New("the answer is not valid JSON")}}
	case env.Error != nil:
		p.answer <- answer{err: jsonrpc.ServerError(w.redactor.JSON(env.Error))}
	case !w.in.hold(len(env.Result)):
		p.answer <- answer{err: jsonrpc.NoRoomError()}
	default:
		result := w.in.claim(env.Result)
		p.answer <- answer{result: result, share: w.takeShare()}
	}
}

// oversize fails the one call whose answer was too long.
func (w *wire) oversize(head, tail []byte) {
	w.noise.Oversize.Add(1)
	id, ok := jsonrpc.FindID(head, tail)
	if !ok {
		return
	}
	if w.in.crowded {
		w.skipped(id)
		return
	}
	if id < jsonrpc.FirstID {
		w.control.fail(id, fmt.Sprintf("the answer is longer than %d bytes; raise Limits.MaxMessageBytes if such answers are expected", w.in.limit))
		return
	}
	if p := w.take(id); p != nil {
		p.answer <- answer{err: &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the answer is longer than %d bytes", w.in.limit),
			Hint:  "raise Limits.MaxMessageBytes if such answers are expected"}}
	}
}

// request sends one request on the call lane and waits for its answer.
func (w *wire) request(ctx context.Context, r transport.Request, meta json.RawMessage) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, jsonrpc.RequestError(ctx, w.Cause(), mcpvisor.OutcomeNotSent, nil)
	}
	p := w.spare.Get().(*pending)
	p.entry.Deadline, p.entry.Progress = p.entry.Clocks.Start(r), jsonrpc.NewProgressQueue(r.Progress)
	p.stream, p.remarks = r.Stream != nil, w.remarks.Count()
	w.encodeLocking(p, r, meta)
	if w.table.Ended() != nil {
		w.table.Mu.Unlock()
		w.recycle(p)
		return nil, jsonrpc.DeathError(w.Cause(), mcpvisor.OutcomeNotSent)
	}
	w.table.AddLocked(&p.entry)
	write, crowd := w.out.add(&p.outgoing), len(w.table.Open) > 1
	w.table.Mu.Unlock()
	if write {
		if crowd {
			runtime.Gosched() // let the others add theirs: one write for all
		}
		w.flush()
	}

	var a answer
	if p.entry.Progress != nil {
		a = w.listenFor(ctx, p)
	} else {
		select {
		case a = <-p.answer:
		case <-ctx.Done():
			if r.Stream == nil {
				a = w.leave(ctx, p)
			} else {
				a = w.dismiss(ctx, p, r.Stream.CancelGrace)
			}
		}
	}
	a.keep(r)
	if a.err == nil {
		w.recycle(p)
		return a.result, nil
	}
	if a.unheard {
		w.cancelRemote(p.entry.ID, a.err.Kind == mcpvisor.KindTimeout || errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	w.recycle(p)
	return nil, a.err
}

// encodeLocking gives p an id and its line, and takes the lock of the table, in
// which no other request has that id.
func (w *wire) encodeLocking(p *pending, r transport.Request, meta json.RawMessage) {
	for {
		id, used := w.table.IDs.Next()
		p.entry.ID = id
		p.line = jsonrpc.AppendRequest(p.line[:0], id, r, meta)
		jsonrpc.NotifySent(r.Stream, id)
		w.table.Mu.Lock()
		if !used || w.table.Open[id] == nil {
			return
		}
		w.table.Mu.Unlock()
	}
}

// post queues one line, and writes it if no other goroutine is writing. It reports
// false if the wire is dead.
func (w *wire) post(o *outgoing) bool { return w.postIfRoom(o, math.MaxInt) }

// postIfRoom is post, unless room lines or more are queued.
func (w *wire) postIfRoom(o *outgoing, room int) bool {
	w.table.Mu.Lock()
	if w.table.Ended() != nil || len(w.out.queue) >= room {
		w.table.Mu.Unlock()
		return false
	}
	write := w.out.add(o)
	w.table.Mu.Unlock()
	if write {
		w.flush()
	}
	return true
}

// send writes one line of the control lane and waits until it is written.
func (w *wire) send(ctx context.Context, line []byte) error {
	o := &outgoing{line: line, done: make(chan struct{})}
	if !w.post(o) {
		return io.ErrClosedPipe
	}
	select {
	case <-o.done:
		return nil
	case <-w.Dead():
		return io.ErrClosedPipe
	case <-ctx.Done():
		w.table.Mu.Lock()
		defer w.table.Mu.Unlock()
		if o.state == queued {
			w.out.withdraw(o)
		}
		return errRejected(ctx.Err())
	}
}

// errRejected makes the go-sdk fail one request instead of the whole session:
// code -32005 is its "rejected by transport" (jsonrpc2.ErrRejected).
func errRejected(err error) error {
	return fmt.Errorf("%w: %w", &sdkrpc.Error{Code: -32005, Message: "rejected by transport"}, err)
}

// reply writes an answer of ours, and returns when it is written.
func (w *wire) reply(line []byte) {
	_ = w.send(context.Background(), append(line, '\n')) // it fails with the session
}
