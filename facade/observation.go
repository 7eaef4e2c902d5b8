package facade

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// WithObserver has an observer see each request at its start and its end, for traces and
// metrics: see [mcpvisor.Observer]. Default, and for nil: none, which costs nothing.
func WithObserver(observer mcpvisor.Observer) Option {
	return func(o *options) {
		if o.observer = nil; observer != nil {
			o.observer = observer
		}
	}
}

// observation is what the observer is shown of one request. The goroutine of the caller
// owns it. Values are reused.
type observation struct {
	ctx   context.Context // of RequestStarted, for RequestEnded
	start mcpvisor.RequestStart
	meta  json.RawMessage // members of _meta that travel with the request; nil for none
	id    int64           // of the request; the session writes it before it sends
}

var observationPool = sync.Pool{New: func() any { return new(observation) }}

// observe shows the observer the start of the request, and returns the context of the
// request.
func (q *tracked) observe(ctx context.Context) context.Context {
	o := observationPool.Get().(*observation)
	q.observation = o
	o.start = q.view.RequestStart(q.record.Method, q.record.Target)
	o.start.Listed = q.listed
	o.ctx, o.meta = q.c.rt.RequestStarted(ctx, o.start)
	return o.ctx
}

// endObservation shows the observer the end of the request.
func (q *tracked) endObservation(failure *mcpvisor.Error) {
	o := q.observation
	q.observation = nil
	end := mcpvisor.RequestEnd{RequestStart: q.view.RequestStart(o.start.Method, o.start.Target), Began: q.record.Began, Took: q.record.Took,
		Err: failure, ToolError: q.record.ToolError, Outcome: q.record.Outcome, ResultBytes: q.record.ResultBytes, RequestID: o.id}
	end.Listed = q.listed
	if q.record.Epoch != 0 {
		end.Epoch = q.record.Epoch
	}
	if failure == nil {
		end.Outcome = mcpvisor.OutcomeAnswered
	}
	q.c.rt.RequestEnded(o.ctx, end)
	*o = observation{}
	observationPool.Put(o)
}
