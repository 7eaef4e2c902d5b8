package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
)

// pending is a call in flight. The goroutine that makes the call owns it, except for what mu guards.
type pending struct {
	leave func() // ends the count of a call with handlers; nil: it has none. The goroutine of the call owns it

	number    uint64
	server    string
	epoch     uint64
	sent      *framing.Message // set before the stream knows the call
	handlers  *transport.CallHandlers
	answerer  *answererRef     // of handlers
	relay     *relay.TaskRelay // of the caller; nil: the result is no task
	notices   *noticeFuncs     // nil: the call has none
	waiting   *atomic.Int64    // bytes of reports, of all calls of the client
	maxResult int
	wake      chan struct{} // has room for one

	mu       sync.Mutex
	held     *framing.Place // the room of the stream that a long result has; nil: none
	begun    bool           // its result or failure has begun to come
	finished bool
	result   json.RawMessage
	err      *mcpvisor.Error
	task     relay.TaskRelay // the task, if the result is one
	reports  []report        // not delivered yet
	bytes    int             // of reports
	dropped  bool            // a report was dropped since the last call of next
	closed   bool            // no further reports are delivered
}

// report is a report of progress, a log message, or a notice.
type report struct {
	what byte
	body []byte
}

// Bounds of the reports that wait for slow callers, in one call (as in the facade) and in all calls of a
// client together. Further ones are dropped.
const (
	maxReports         = 8192
	maxReportBytes     = 1 << 20
	maxReportBytesLink = 32 << 20
)

// deliver passes the report to the function of the caller.
func (r *report) deliver(request *call) {
	switch r.what {
	case messageProgress:
		var p mcpvisor.Progress
		if request.settings.Progress != nil && json.Unmarshal(r.body, &p) == nil {
			request.settings.Progress(p)
		}
	case messageLog:
		var m mcpvisor.LogMessage
		if request.settings.LogMessages != nil && json.Unmarshal(r.body, &m) == nil {
			request.settings.LogMessages(m)
		}
	case messageNotice:
		request.notices.deliver(r.body)
	}
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// begins records that the answer has begun to come. A second answer is an error.
func (p *pending) begins(what byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return fmt.Errorf("a second answer (kind %d) to call %d", what, p.number)
	}
	p.begun = true
	return nil
}

// hasBegun reports whether the answer has begun to come.
func (p *pending) hasBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

func (p *pending) finish(result json.RawMessage, err *mcpvisor.Error) {
	p.mu.Lock()
	if !p.finished {
		p.finished, p.result, p.err = true, result, err
	}
	p.mu.Unlock()
	p.signal()
}

func (p *pending) report(what byte, body []byte) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	if len(p.reports) < maxReports && p.bytes+len(body) <= maxReportBytes && p.waiting.Load()+int64(len(body)) <= maxReportBytesLink {
		p.reports = append(p.reports, report{what, body})
		p.bytes += len(body)
		p.waiting.Add(int64(len(body)))
	} else {
		p.dropped = true
	}
	p.mu.Unlock()
	p.signal()
}

// next returns the reports that have come since the last call of next. dropped says that some were dropped.
func (p *pending) next() (reports []report, dropped, finished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reports, dropped = p.reports, p.dropped
	p.waiting.Add(-int64(p.bytes))
	p.reports, p.bytes, p.dropped = nil, 0, false
	return reports, dropped, p.finished
}

// holds keeps the room of a long result until the call returns. It reports false if it does not.
func (p *pending) holds(held *framing.Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.held != nil {
		return false
	}
	p.held = held
	return true
}

// close drops the remaining reports, and releases the room of the result.
func (p *pending) close() {
	p.mu.Lock()
	p.waiting.Add(-int64(p.bytes))
	p.reports, p.bytes, p.closed = nil, 0, true
	held := p.held
	p.held = nil
	p.mu.Unlock()
	held.Release()
}

// largeResult is the length from which a result needs room in the budget of [Route.Into], in bytes.
const largeResult = 64 << 10

// enter returns the result of a call that has ended, once there is room for it in the budget of [Route.Into].
func (p *pending) enter(ctx context.Context, request *call) (json.RawMessage, *mcpvisor.Error) {
	result, e := p.take()
	if e != nil || request.buffer == nil || len(result) < largeResult {
		return result, e
	}
	share := request.buffer.Share()
	if request.into != nil {
		defer request.into.TakeOver(&share)
	} else {
		defer share.Release()
	}
	if !request.ends.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, request.ends, errUntil)
		defer cancel()
	}
	if share.GrowPatiently(ctx, request.over, len(result), resultPatience) {
		return result, nil
	}
	e = &mcpvisor.Error{Server: request.server, Epoch: request.epoch, Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeAnswered, Cause: errNoRoom,
		Hint: "make fewer calls with large results at a time, or raise Limits.MaxBufferBytes"}
	select {
	case <-request.over:
		e.Kind, e.Cause, e.Hint = mcpvisor.ErrCanceled, errOver, ""
	default:
		if ctx.Err() != nil {
			e.Kind, e.Cause, e.Hint = mcpvisor.ErrCanceled, context.Cause(ctx), ""
		}
		if e.Cause == errUntil {
			e.Kind = mcpvisor.ErrTimeout
		}
	}
	return nil, e
}

// resultPatience is how long a result waits for room. It is the same as for answers of a local server: they,
// too, delay other answers while they wait.
var resultPatience = budget.Patience{Still: 3 * time.Second, Most: 15 * time.Second, Interval: 200 * time.Millisecond}

var errNoRoom = errors.New("the result was dropped: other large results of the server are being read or decoded")

// A server may make a task of a call with relay.WithTaskRelay. Then the result is the task as the server has
// sent it, and messageTask also has the id of the task on the node of the server.

// maxTaskID bounds the id of a task, as the facade does.
const maxTaskID = 1 << 10

func encodeTask(t *relay.TaskRelay, result json.RawMessage) []byte {
	b := make([]byte, 1, len(t.ID)+len(result)+4)
	if t.Modern {
		b[0] = 1
	}
	return append(varint.AppendText(b, t.ID), result...)
}

// finishTask ends the call with a task.
func (p *pending) finishTask(body []byte) error {
	r := varint.Reader{Rest: body}
	modern, id := r.Byte(), r.Text()
	if r.Failed || modern > 1 || id == "" || len(id) > maxTaskID {
		return errors.New("a task cannot be read")
	}
	p.mu.Lock()
	p.task = relay.TaskRelay{ID: id, Modern: modern == 1}
	p.mu.Unlock()
	p.finish(r.Rest, nil)
	return nil
}

// take returns how the call has ended. If it has become a task, take sets the relay of the caller.
func (p *pending) take() (json.RawMessage, *mcpvisor.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.task.ID != "" {
		p.relay.Server, p.relay.ID, p.relay.Modern = p.server, p.task.ID, p.task.Modern
	}
	return p.result, p.err
}
