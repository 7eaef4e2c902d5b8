package stdio

import (
	"encoding/json"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// pending is a request of the call channel, from its line to its response. Values are
// reused.
//
// The caller owns it until the entry is in the table. The goroutine that removes the
// entry from the table sends exactly one answer. Then the caller owns it again.
type pending struct {
	line    outgoing // guarded by the mutex of the table while it is in the outbox
	conn    *conn
	entry   jsonrpc.Entry // in the table
	answer  chan answer   // holds one
	stream  bool          // the request stays open, as subscriptions/listen does
	remarks uint64        // the number of remarks when the request was sent
}

// answer ends a request: with a result, or with err.
type answer struct {
	result json.RawMessage
	err    *mcpvisor.Error
	// needsCancel: the request was given up while the server may work on it, so the
	// server is to be notified.
	needsCancel bool
	// share is what a large result holds of Limits.MaxBufferBytes; nil: nothing.
	share *budget.Share
}

func (c *conn) newPending() any {
	p := &pending{conn: c, answer: make(chan answer, 1)}
	p.entry.Owner = p
	return p
}

// InFlight implements [jsonrpc.Owner].
func (p *pending) InFlight() bool { return p.line.state != lineQueued }

// Expire implements [jsonrpc.Owner]. The request is given up at once.
func (p *pending) Expire() (after func()) {
	outcome := p.conn.removeLocked(p)
	p.answer <- answer{needsCancel: outcome == mcpvisor.OutcomeUnknown,
		err: &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: outcome, Cause: p.conn.remarks.Since(p.remarks, p.conn.redactor)}}
	return nil
}

// pendingLocked returns the request with this id; nil if it is not in the table.
func (c *conn) pendingLocked(id int64) *pending {
	if e := c.table.Open.Get(id); e != nil {
		return e.Owner.(*pending)
	}
	return nil
}

// maxKeptLine is the longest line whose memory is kept for the next request, in bytes.
const maxKeptLine = 4 << 10

// recyclePending returns p to the pool. No other goroutine holds p after its answer was
// received, except for the writer of a line that is written without a copy.
func (c *conn) recyclePending(p *pending) {
	if p.line.state == lineDirect {
		return
	}
	if cap(p.line.text) > maxKeptLine {
		p.line.text = nil
	}
	p.line.text, p.entry = p.line.text[:0], jsonrpc.Entry{Owner: p}
	c.pendingPool.Put(p)
}

// takeAnswered removes a request from the table because its response has arrived. It
// returns nil for a request that was never sent: a server may guess ids.
func (c *conn) takeAnswered(id int64) *pending {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	p := c.pendingLocked(id)
	if p == nil || p.line.state == lineQueued {
		return nil
	}
	c.deleteLocked(p)
	return p
}

// giveUpRequest removes a request from the table before its response has arrived. gone
// reports that another goroutine has removed it already, and sends the answer. Otherwise
// outcome says whether the server may have seen the request.
func (c *conn) giveUpRequest(p *pending) (outcome mcpvisor.Outcome, gone bool) {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	if c.table.Open.Get(p.entry.ID) != &p.entry {
		return mcpvisor.OutcomeUnknown, true
	}
	return c.removeLocked(p), false
}

// deleteLocked removes a request from the table.
func (c *conn) deleteLocked(p *pending) {
	c.table.Open.Delete(p.entry.ID)
	if p.stream {
		c.reading.streams--
	}
}

// removeLocked removes a request from the table before its response has arrived. If its
// caller reads, the caller is woken for the answer that comes instead. If it was the last
// call, the goroutine that reads may end soon.
func (c *conn) removeLocked(p *pending) mcpvisor.Outcome {
	c.deleteLocked(p)
	switch {
	case c.reading.leader == p:
		c.reading.wakeReaderLocked()
	case c.idleLocked():
		c.reading.lingerLocked()
	}
	if p.line.state == lineQueued {
		c.out.withdraw(&p.line)
		return mcpvisor.OutcomeNotSent
	}
	return mcpvisor.OutcomeUnknown
}

// failAll fails all requests in flight. Later requests fail at once. It keeps the mutex
// of the table throughout, because it withdraws queued lines: so it does not use
// [jsonrpc.Table.End], which calls its function without the mutex.
func (c *conn) failAll() {
	died := c.lifetime.Cause()
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	c.table.EndLocked(died)
	for e := range c.table.Open.All() {
		p := e.Owner.(*pending)
		outcome := c.removeLocked(p)
		p.answer <- answer{err: jsonrpc.DeathError(died, outcome)}
	}
}

// settleShare moves the memory that an answer holds to the caller, if the caller decodes
// the result and asked for that. Otherwise it releases the memory.
func (a *answer) settleShare(r transport.Request) {
	switch {
	case a.share == nil:
	case r.Held != nil && a.err == nil:
		r.Held.TakeOver(a.share)
	default:
		a.share.Release()
	}
}
