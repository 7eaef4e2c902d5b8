package stdio

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// pending is a request of the call lane, from its line to its answer. It is
// reused: whoever takes it out of the table sends the one answer.
type pending struct {
	outgoing
	id       int64
	deadline time.Time // zero: none
	clocks   jsonrpc.Clocks
	news     *jsonrpc.ProgressQueue // nil: nobody asked for it
	answer   chan answer
	stream   bool   // it stays open
	remarks  uint64 // how many there were before it
}

// answer ends a request.
type answer struct {
	result json.RawMessage
	err    *mcpvisor.Error
	// unheard: the server may still work on a request that is given up.
	unheard bool
	// share is what a large result holds of Limits.Buffer; nil: nothing.
	share *budget.Share
}

func newPending() any { return &pending{answer: make(chan answer, 1)} }

// keepLine is the longest line whose memory is kept for the next request.
const keepLine = 4 << 10

// recycle gives p back. Its answer was received, so nobody else holds it,
// unless its line is being written without a copy.
func (w *wire) recycle(p *pending) {
	if p.state == direct {
		return
	}
	if cap(p.line) > keepLine {
		p.line = nil
	}
	p.line, p.deadline, p.clocks, p.news = p.line[:0], time.Time{}, jsonrpc.Clocks{}, nil
	w.spare.Put(p)
}

// take removes a request from the table because its answer has come. An answer
// to what was never sent is none.
func (w *wire) take(id int64) *pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pending[id]
	if p == nil || p.state == queued {
		return nil
	}
	delete(w.pending, id)
	return p
}

// giveUp removes a request from the table for another reason, unless it is
// gone already. It says whether the server may have seen it.
func (w *wire) giveUp(p *pending) (outcome mcpvisor.Outcome, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[p.id] != p {
		return mcpvisor.OutcomeUnknown, true
	}
	return w.removeLocked(p), false
}

func (w *wire) removeLocked(p *pending) mcpvisor.Outcome {
	delete(w.pending, p.id)
	if p.state == queued {
		w.out.withdraw(&p.outgoing)
		return mcpvisor.OutcomeNotSent
	}
	return mcpvisor.OutcomeUnknown
}

// failAll fails every request, now and from now on.
func (w *wire) failAll() {
	died := w.Cause()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.alarm.Stop()
	for _, p := range w.pending {
		outcome := w.removeLocked(p)
		p.answer <- answer{err: jsonrpc.DeathError(died, outcome)}
	}
}

// sweep gives up what is overdue.
func (w *wire) sweep() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarm.Fired()
	if w.ended {
		return
	}
	var next time.Time
	for _, p := range w.pending {
		switch {
		case p.deadline.IsZero():
		case p.deadline.After(now):
			if next.IsZero() || p.deadline.Before(next) {
				next = p.deadline
			}
		default:
			outcome := w.removeLocked(p)
			p.answer <- answer{unheard: outcome == mcpvisor.OutcomeUnknown,
				err: &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: outcome, Cause: w.remarks.Since(p.remarks, w.redactor)}}
		}
	}
	w.alarm.Rearm(now, next)
}

// CountRequest implements callClocks. A pair of streams does not tell to which
// call a request of the server's belongs.
func (w *wire) CountRequest(int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed, calls := false, 0
	for _, p := range w.pending {
		if p.state != queued {
			calls++
			allowed = p.clocks.CountRequest() || allowed
		}
	}
	return allowed || calls == 0
}

// PauseClocks implements callClocks.
func (w *wire) PauseClocks(int64) (restart func(answered bool)) {
	now := time.Now()
	var ids []int64
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.pending {
		if p.state != queued {
			p.deadline = p.clocks.Pause(p.deadline, now)
			ids = append(ids, id)
		}
	}
	return func(answered bool) {
		now := time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			p := w.pending[id]
			if p == nil || !p.clocks.Paused() {
				continue
			}
			if p.deadline = p.clocks.Resume(answered, now); !p.deadline.IsZero() && !w.ended {
				w.alarm.Set(p.deadline)
			}
		}
	}
}

// keep passes on what an answer holds: to the caller, if it decodes the result,
// or back.
func (a *answer) keep(r transport.Request) {
	switch {
	case a.share == nil:
	case r.Held != nil && a.err == nil:
		r.Held.TakeOver(a.share)
	default:
		a.share.Release()
	}
}
