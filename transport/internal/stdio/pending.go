package stdio

import (
	"encoding/json"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// pending is a request of the call lane, from its line to its answer. It is
// reused: the goroutine that takes it out of the table sends the one answer.
type pending struct {
	outgoing
	wire    *wire
	entry   jsonrpc.Entry // in the table
	answer  chan answer
	stream  bool   // it stays open
	remarks uint64 // how many there were before it
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

func (w *wire) newPending() any {
	p := &pending{wire: w, answer: make(chan answer, 1)}
	p.entry.Owner = p
	return p
}

// InFlight implements jsonrpc.Owner.
func (p *pending) InFlight() bool { return p.state != queued }

// Expire implements jsonrpc.Owner. The request is given up at once.
func (p *pending) Expire() (after func()) {
	outcome := p.wire.removeLocked(p)
	p.answer <- answer{unheard: outcome == mcpvisor.OutcomeUnknown,
		err: &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: outcome, Cause: p.wire.remarks.Since(p.remarks, p.wire.redactor)}}
	return nil
}

// pendingLocked is the request with this id; nil if it is not in the table.
func (w *wire) pendingLocked(id int64) *pending {
	if e := w.table.Open[id]; e != nil {
		return e.Owner.(*pending)
	}
	return nil
}

// keepLine is the longest line whose memory is kept for the next request.
const keepLine = 4 << 10

// recycle gives p back. Its answer was received, so no other goroutine holds it,
// unless its line is being written without a copy.
func (w *wire) recycle(p *pending) {
	if p.state == direct {
		return
	}
	if cap(p.line) > keepLine {
		p.line = nil
	}
	p.line, p.entry = p.line[:0], jsonrpc.Entry{Owner: p}
	w.spare.Put(p)
}

// take removes a request from the table because its answer has come. An answer
// to a request that was never sent does not count.
func (w *wire) take(id int64) *pending {
	w.table.Mu.Lock()
	defer w.table.Mu.Unlock()
	p := w.pendingLocked(id)
	if p == nil || p.state == queued {
		return nil
	}
	delete(w.table.Open, id)
	return p
}

// giveUp removes a request from the table for another reason, unless it is
// gone already. It says whether the server may have seen it.
func (w *wire) giveUp(p *pending) (outcome mcpvisor.Outcome, gone bool) {
	w.table.Mu.Lock()
	defer w.table.Mu.Unlock()
	if w.table.Open[p.entry.ID] != &p.entry {
		return mcpvisor.OutcomeUnknown, true
	}
	return w.removeLocked(p), false
}

func (w *wire) removeLocked(p *pending) mcpvisor.Outcome {
	delete(w.table.Open, p.entry.ID)
	if p.state == queued {
		w.out.withdraw(&p.outgoing)
		return mcpvisor.OutcomeNotSent
	}
	return mcpvisor.OutcomeUnknown
}

// failAll fails every request, now and from now on.
func (w *wire) failAll() {
	died := w.Cause()
	w.table.Mu.Lock()
	defer w.table.Mu.Unlock()
	w.table.EndLocked(died)
	for _, e := range w.table.Open {
		p := e.Owner.(*pending)
		outcome := w.removeLocked(p)
		p.answer <- answer{err: jsonrpc.DeathError(died, outcome)}
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
