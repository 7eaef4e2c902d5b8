package stdio

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// listenFor waits for the answer and reports the progress on the way. The
// callback may panic: then the request is given up.
func (w *wire) listenFor(ctx context.Context, p *pending) (a answer) {
	told, finished := p.entry.Progress, false
	defer func() {
		if finished {
			return
		}
		outcome, gone := w.giveUp(p)
		switch {
		case gone:
			a = <-p.answer
			a.keep(transport.Request{})
		case outcome == mcpvisor.OutcomeUnknown:
			w.cancelRemote(p.entry.ID, false)
		}
	}()
	for answered := false; !answered; {
		select {
		case a = <-p.answer:
			answered = true
		case <-told.Ready:
		case <-ctx.Done():
			a, answered = w.leave(ctx, p), true
		}
		told.Deliver()
	}
	finished = true
	return a
}

// leave ends the wait of a caller whose context has ended.
func (w *wire) leave(ctx context.Context, p *pending) answer {
	outcome, gone := w.giveUp(p)
	if gone {
		return <-p.answer // it has just come, or is about to
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, outcome, nil), unheard: outcome == mcpvisor.OutcomeUnknown}
}

// dismiss ends a stream whose context has ended, and gives the server a while to
// confirm that. What is still queued leaves before the cancellation does.
func (w *wire) dismiss(ctx context.Context, p *pending, farewell time.Duration) answer {
	w.cancelRemote(p.entry.ID, false)
	t := time.NewTimer(farewell)
	defer t.Stop()
	select {
	case a := <-p.answer:
		a.keep(transport.Request{})
	case <-t.C:
		if a := w.leave(ctx, p); a.unheard {
			return answer{err: a.err}
		}
	}
	return answer{err: jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeUnknown, nil)}
}

// cancelRemote tells the server that the answer is not wanted any more
// (MCP, utilities, cancellation). It does not wait for the server to read it.
func (w *wire) cancelRemote(id int64, timedOut bool) {
	reason := "canceled"
	if timedOut {
		reason = "timed out"
	}
	w.post(&outgoing{line: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`+"\n", id, reason)})
}
