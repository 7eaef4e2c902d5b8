package facade

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
)

// retryPause is the wait between attempts of a waiting call on one incarnation: it is
// ready, but cannot be reached at the moment.
var retryPause = backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// sendTo sends a request with params to a server that is given by name.
func (c *Client) sendTo(ctx context.Context, q *tracked, server string, r transport.Request, params any, opts []CallOption) (response, error) {
	s := c.rt.Snapshot()
	view := s.Server(server)
	if view == nil {
		return response{}, unknownServer(s, server)
	}
	ctx = c.begin(ctx, q, view, r.Method, r.Target, r.Method == "prompts/get" && view.Catalog.HasPrompt(r.Target))
	var err error
	if r.Params, err = json.Marshal(params); err != nil {
		return response{}, &mcpvisor.Error{Server: server, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	o := c.callOptions(opts)
	if view, err = c.awaitServer(ctx, view, o); err != nil {
		return response{}, err
	}
	r.Held = new(budget.Share)
	got, err := c.sendWhenReady(ctx, q, view, r, o)
	if err != nil {
		r.Held.Release()
		return response{}, err
	}
	return got, nil
}

// awaitServer waits until a server is ready, with WithWaitReady; without it, it returns
// the view at once.
func (c *Client) awaitServer(ctx context.Context, v *actors.View, o callOptions) (*actors.View, error) {
	if !o.waitReady {
		return v, nil
	}
	if err := checkBounded(ctx, v, o); err != nil {
		return nil, err
	}
	return c.rt.AwaitReady(ctx, v.Name)
}

// checkBounded refuses a call that nothing would end: neither its context nor a timeout.
func checkBounded(ctx context.Context, v *actors.View, o callOptions) error {
	if _, bounded := ctx.Deadline(); bounded {
		return nil
	}
	if idle, total := actors.CallTimeouts(v.Spec.Timeouts, o.timeout); idle > 0 || total > 0 {
		return nil
	}
	return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.KindInvalid,
		Outcome: mcpvisor.OutcomeNotSent, Cause: errUnbounded, Hint: "set one of the three"}
}

// errUnbounded is the cause of a call that nothing but the server would end.
var errUnbounded = errors.New("nothing would end the call if the server does not: its timeout and Timeouts.CallTotal are negative, and its context has no deadline")

// sendWhenReady sends one request. With WithWaitReady it sends it again if nothing was
// sent because the server was down or was being replaced, and only then.
func (c *Client) sendWhenReady(ctx context.Context, q *tracked, v *actors.View, r transport.Request, o callOptions) (response, error) {
	if err := checkBounded(ctx, v, o); err != nil {
		return response{}, err
	}
	r.Track, r.Progress = true, o.progress
	if q.observation != nil {
		r.Meta, r.ID = q.observation.meta, &q.observation.id
	}
	for pause := retryPause.First; ; pause = retryPause.Next(pause) {
		r.Began = time.Now()
		raw, spent, err := c.rt.Request(ctx, v, r, o.timeout)
		q.view, q.record.Began, q.record.Took = v, r.Began, spent.Took
		if err == nil {
			q.answered(v, raw)
			return response{raw, v, r.Began, spent.Queued, o.timeout, r.Held}, nil
		}
		if !o.waitReady {
			return response{}, err
		}
		var e *mcpvisor.Error
		if !errors.As(err, &e) || e.Outcome != mcpvisor.OutcomeNotSent || e.Kind != mcpvisor.KindUnavailable && e.Kind != mcpvisor.KindClosed {
			return response{}, err
		}
		next, waitErr := c.rt.AwaitReady(ctx, v.Name)
		if waitErr != nil {
			if e.Kind == mcpvisor.KindClosed && errors.Is(waitErr, mcpvisor.ErrUnknownServer) { // unregistered, not replaced
				return response{}, err
			}
			return response{}, waitErr
		}
		if next.Gen == v.Gen && next.Epoch == v.Epoch { // ready, and unreachable all the same
			if backoff.Sleep(ctx, max(pause, e.RetryAfter)) != nil {
				return response{}, err
			}
		}
		v = next
	}
}
