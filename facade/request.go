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
func (c *Client) sendTo(ctx context.Context, op, server string, r transport.Request, params any, opts []CallOption) (response, error) {
	var err error
	if r.Params, err = json.Marshal(params); err != nil {
		return response{}, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	r.Held = new(budget.Share)
	o := c.callOptions(opts)
	view, err := c.findServer(ctx, server, o)
	if err != nil {
		return response{}, withOp(err, op)
	}
	got, err := c.sendWhenReady(ctx, view, r, o)
	if err != nil {
		r.Held.Release()
		return response{}, withOp(err, op)
	}
	return got, nil
}

// findServer finds a server by name. With WithWaitReady it waits until it is ready.
func (c *Client) findServer(ctx context.Context, name string, o callOptions) (*actors.View, error) {
	s := c.rt.Snapshot()
	v := s.Server(name)
	if v == nil {
		return nil, unknownServer(s, name)
	}
	if !o.waitReady {
		return v, nil
	}
	if err := checkBounded(ctx, v, o); err != nil {
		return nil, err
	}
	return c.rt.AwaitReady(ctx, name)
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
// sent because the server was down, and only then.
func (c *Client) sendWhenReady(ctx context.Context, v *actors.View, r transport.Request, o callOptions) (response, error) {
	if err := checkBounded(ctx, v, o); err != nil {
		return response{}, err
	}
	r.Track, r.Progress = true, o.progress
	for pause := retryPause.First; ; pause = retryPause.Next(pause) {
		began := time.Now()
		raw, err := c.rt.Request(ctx, v, r, o.timeout)
		if err == nil || !o.waitReady {
			return response{raw, v, began, o.timeout, r.Held}, err
		}
		var e *mcpvisor.Error
		if !errors.As(err, &e) || e.Kind != mcpvisor.KindUnavailable || e.Outcome != mcpvisor.OutcomeNotSent {
			return response{}, err
		}
		next, waitErr := c.rt.AwaitReady(ctx, v.Name)
		if waitErr != nil {
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
