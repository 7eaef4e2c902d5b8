package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// request sends one request of a caller and waits for its response.
func (c *conn) request(ctx context.Context, r *transport.Request, meta json.RawMessage) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, jsonrpc.RequestError(ctx, c.lifetime.Cause(), mcpvisor.OutcomeNotSent, nil)
	}
	p := c.pendingPool.Get().(*pending)
	p.entry.Start(r)
	p.entry.Progress = jsonrpc.NewProgressQueue(r)
	p.stream, p.remarks = r.Stream != nil, c.remarks.Count()
	c.encodeAndLock(p, r, meta)
	if c.table.Ended() != nil {
		c.table.Mu.Unlock()
		c.recyclePending(p)
		return nil, transport.DeathError(c.lifetime.Cause(), mcpvisor.OutcomeNotSent)
	}
	c.table.AddLocked(&p.entry)
	concurrent, leads := false, false
	if !p.stream {
		concurrent, leads = c.reader.Begin(ctx, p, p.entry.Progress == nil)
	}
	write := c.out.add(&p.line)
	c.table.Mu.Unlock()
	if write {
		if concurrent {
			runtime.Gosched() // other callers queue their lines meanwhile: one write sends them all
		}
		c.flush()
	}

	var a answer
	switch {
	case leads && c.reader.Lead(p):
		a = <-p.answer
	case p.entry.Progress != nil:
		a = c.awaitWithProgress(ctx, p)
	case ctx.Done() == nil:
		a = <-p.answer
	default:
		select {
		case a = <-p.answer:
		case <-ctx.Done():
			if r.Stream == nil {
				a = c.endWait(ctx, p)
			} else {
				a = c.cancelStream(ctx, p, r.Stream)
			}
		}
	}
	a.settleShare(r.Held)
	if a.err == nil {
		c.recyclePending(p)
		return a.result, nil
	}
	if r.Caller != nil {
		c.serverRequests.CancelOfCall(p.entry.ID)
	}
	if a.needsCancel {
		c.notifyCancelled(p.entry.ID, a.err.Kind == mcpvisor.ErrTimeout || errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	c.recyclePending(p)
	return nil, a.err
}

// postRequest sends a request that has its id and its line, and does not wait for the response. It
// reports false if the connection has ended.
func (c *conn) postRequest(p *pending) bool {
	c.table.Mu.Lock()
	if c.table.Ended() != nil {
		c.table.Mu.Unlock()
		return false
	}
	c.table.AddLocked(&p.entry)
	write := c.out.add(&p.line)
	c.table.Mu.Unlock()
	if write {
		c.flush()
	}
	return true
}

// encodeAndLock gives p an id and encodes its line. It returns with the mutex of the
// table locked, so that no other request takes the same id before p is entered.
func (c *conn) encodeAndLock(p *pending, r *transport.Request, meta json.RawMessage) {
	for {
		id, used := c.table.IDs.Next()
		p.entry.ID = id
		p.line.text = jsonrpc.AppendRequest(p.line.text[:0], id, r, meta)
		jsonrpc.NotifySent(r, id)
		c.table.Mu.Lock()
		if !used || c.table.Open.Get(id) == nil {
			return
		}
		c.table.Mu.Unlock()
	}
}

// awaitWithProgress waits for the response and passes progress reports to the callback
// of the caller. If the callback panics, the request is given up.
func (c *conn) awaitWithProgress(ctx context.Context, p *pending) (a answer) {
	progress, answered, finished := p.entry.Progress, false, false
	defer func() {
		if finished {
			return
		}
		if !answered {
			a = c.endWait(ctx, p)
		}
		a.settleShare(nil)
		if a.needsCancel {
			c.notifyCancelled(p.entry.ID, false)
		}
	}()
	for !answered {
		select {
		case a = <-p.answer:
			answered = true
		case <-progress.Ready:
		case <-ctx.Done():
			a, answered = c.endWait(ctx, p), true
		}
		progress.Deliver()
	}
	finished = true
	return a
}

// endWait ends the wait of a caller whose context has ended. A response that has
// arrived by then counts.
func (c *conn) endWait(ctx context.Context, p *pending) answer {
	select {
	case a := <-p.answer:
		return a
	case <-overdue.Last(ctx):
	}
	outcome, gone := c.giveUpRequest(p)
	if gone {
		return <-p.answer // another goroutine has sent it, or is about to
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, outcome, nil), needsCancel: outcome == mcpvisor.OutcomeUnknown}
}

// cancelStream ends a stream whose context has ended. It gives the server the time
// CancelGrace to confirm that with a response. The queue keeps the order: the server sees
// the request before the cancellation.
func (c *conn) cancelStream(ctx context.Context, p *pending, stream *transport.Stream) answer {
	c.notifyCancelled(p.entry.ID, false)
	if stream.Cancelled != nil {
		stream.Cancelled()
	}
	select {
	case a := <-p.answer:
		a.settleShare(nil)
	case <-time.After(stream.CancelGrace):
		if a := c.endWait(ctx, p); a.needsCancel {
			return answer{err: a.err} // the server has been notified above
		}
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeUnknown, nil)}
}

// pending is a request, from its line to its response. Values are reused.
//
// The caller owns it until the entry is in the table. The goroutine that removes the entry from the
// table sends exactly one answer: the goroutine that reads, the timer of the deadlines, the
// caller itself, or the end of the session. Then the caller owns it again.
type pending struct {
	line    outgoing // guarded by the mutex of the table while it is in the queue of lines
	conn    *conn
	entry   jsonrpc.Entry // in the table
	answer  chan answer   // holds one
	stream  bool          // the request stays open, as subscriptions/listen does
	remarks uint64        // the number of remarks when the request was sent
	// orphan is an error without an id that fails the request if its entry is hastened; nil:
	// none. Guarded by the mutex of the table while the entry is in it.
	orphan *mcpvisor.Error
	// late, if set, is called in place of an answer that the server sends: no caller waits for it.
	// modern says that it is a result. Guarded by the mutex of the table while the entry is in it.
	late func(modern bool)
}

// end passes the answer of the server to the caller. The entry is no longer in the table.
func (p *pending) end(a answer) {
	if p.late == nil {
		p.answer <- a
		return
	}
	p.late(a.err == nil)
	a.settleShare(nil)
}

// answer ends a request: with a result, or with err.
type answer struct {
	result json.RawMessage
	err    *mcpvisor.Error
	// needsCancel: the request was given up while the server may work on it, so the
	// server is to be notified.
	needsCancel bool
	// share of Limits.MaxBufferBytes that a large result holds; nil: nothing.
	share *budget.Share
}

func (c *conn) newPending() *pending {
	p := &pending{conn: c, answer: make(chan answer, 1)}
	p.entry.Owner = p
	return p
}

// Answered implements [reader.Call].
func (p *pending) Answered() bool { return len(p.answer) > 0 }

// InFlight implements [jsonrpc.Owner]. No request of the server belongs to the handshake.
func (p *pending) InFlight() bool { return p.line.state != lineUnsent && p.entry.ID >= jsonrpc.FirstID }

// Expire implements [jsonrpc.Owner]. The request is given up at once.
func (p *pending) Expire() (after func()) {
	outcome := p.conn.removeLocked(p)
	err := p.orphan
	if p.entry.Canceled {
		err = &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: outcome, Cause: transport.ErrByOperator}
	} else if p.entry.Hastened.IsZero() { // no orphan, or the server has shown since that it works
		err = &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: outcome, Cause: p.conn.remarks.Since(p.remarks, p.conn.redactor)}
	}
	p.answer <- answer{needsCancel: outcome == mcpvisor.OutcomeUnknown, err: err}
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
	p.line.text, p.entry, p.orphan = p.line.text[:0], jsonrpc.Entry{Owner: p}, nil
	c.pendingPool.Put(p)
}

// takeAnswered removes a request from the table because its response has arrived. It
// returns nil for a request that was never sent: a server may guess ids.
func (c *conn) takeAnswered(id int64) *pending {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	p := c.pendingLocked(id)
	if p == nil || p.line.state == lineUnsent {
		c.table.AnsweredLateLocked(id)
		return nil
	}
	c.table.Open.Delete(id)
	if !p.stream {
		c.reader.End()
	}
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

// removeLocked removes a request from the table before its response has arrived. The
// outcome says whether the server may have seen it.
func (c *conn) removeLocked(p *pending) mcpvisor.Outcome {
	c.table.Open.Delete(p.entry.ID)
	if !p.stream {
		c.reader.GiveUp(p)
	}
	if p.line.state == lineUnsent {
		c.out.withdraw(&p.line)
		return mcpvisor.OutcomeNotSent
	}
	c.table.GaveUpLocked(&p.entry)
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
		p.answer <- answer{err: transport.DeathError(died, outcome)}
	}
}

// settleShare moves the memory that an answer holds to held, the share of the caller, if there is one and
// the result is decoded. Otherwise it releases the memory.
func (a *answer) settleShare(held *budget.Share) {
	switch {
	case a.share == nil:
	case held != nil && a.err == nil:
		held.TakeOver(a.share)
	default:
		a.share.Release()
	}
}
