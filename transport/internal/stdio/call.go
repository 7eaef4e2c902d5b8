package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// request sends one request on the call channel and waits for its response.
func (c *conn) request(ctx context.Context, r transport.Request, meta json.RawMessage) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, jsonrpc.RequestError(ctx, c.lifetime.Cause(), mcpvisor.OutcomeNotSent, nil)
	}
	p := c.pendingPool.Get().(*pending)
	p.entry.Start(&r)
	p.entry.Progress = jsonrpc.NewProgressQueue(r.Progress)
	p.stream, p.remarks = r.Stream != nil, c.remarks.Count()
	c.encodeAndLock(p, r, meta)
	if c.table.Ended() != nil {
		c.table.Mu.Unlock()
		c.recyclePending(p)
		return nil, jsonrpc.DeathError(c.lifetime.Cause(), mcpvisor.OutcomeNotSent)
	}
	c.table.AddLocked(&p.entry)
	if p.stream {
		c.reading.streams++
	}
	write, concurrent, leads := c.out.add(&p.line), c.callsLocked() > 1, c.takeTurnLocked(ctx, p)
	c.table.Mu.Unlock()
	if write {
		if concurrent {
			runtime.Gosched() // other callers queue their lines meanwhile: one write sends them all
		}
		c.flush()
	}

	a, answered := answer{}, false
	if leads {
		a, answered = c.lead(p)
	}
	switch {
	case answered:
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
	a.settleShare(r)
	if a.err == nil {
		c.recyclePending(p)
		return a.result, nil
	}
	if a.needsCancel {
		c.notifyCancelled(p.entry.ID, a.err.Kind == mcpvisor.KindTimeout || errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	c.recyclePending(p)
	return nil, a.err
}

// encodeAndLock gives p an id and encodes its line. It returns with the mutex of the
// table locked, so that no other request takes the same id before p is entered.
func (c *conn) encodeAndLock(p *pending, r transport.Request, meta json.RawMessage) {
	for {
		id, used := c.table.IDs.Next()
		p.entry.ID = id
		p.line.text = jsonrpc.AppendRequest(p.line.text[:0], id, r, meta)
		jsonrpc.NotifySent(&r, id)
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
		switch {
		case finished:
			return
		case answered: // no other answer comes
			a.settleShare(transport.Request{})
			if a.needsCancel {
				c.notifyCancelled(p.entry.ID, false)
			}
			return
		}
		outcome, gone := c.giveUpRequest(p)
		switch {
		case gone:
			a = <-p.answer
			a.settleShare(transport.Request{})
		case outcome == mcpvisor.OutcomeUnknown:
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
	outcome, gone := c.giveUpRequest(p)
	if gone {
		return <-p.answer // another goroutine has sent it, or is about to
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, outcome, nil), needsCancel: outcome == mcpvisor.OutcomeUnknown}
}

// cancelStream ends a stream whose context has ended. It gives the server the time
// CancelGrace to confirm that with a response. The request is written before the
// cancellation, also if it is still queued.
func (c *conn) cancelStream(ctx context.Context, p *pending, stream *transport.Stream) answer {
	c.notifyCancelled(p.entry.ID, false)
	if stream.Cancelled != nil {
		stream.Cancelled()
	}
	t := time.NewTimer(stream.CancelGrace)
	defer t.Stop()
	select {
	case a := <-p.answer:
		a.settleShare(transport.Request{})
	case <-t.C:
		if a := c.endWait(ctx, p); a.needsCancel {
			return answer{err: a.err} // the server has been notified above
		}
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeUnknown, nil)}
}
