package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// DefaultMaxWait is the default of [WithMaxWait].
const DefaultMaxWait = 10 * time.Second

// WithMaxWait sets how long a request waits, before it is sent, for a server that is down. A request that finds the
// server while it is being replaced waits 30 s longer, because calls in flight may end first. It fails at
// once if d is 0 or less, or if the next attempt to start the server is due later than that. When the
// wait is over, the request fails with the error that it had before the wait. Default: [DefaultMaxWait].
func WithMaxWait(d time.Duration) Option { return func(o *options) { o.maxWait = d } }

// whenUp makes a request through the client that find returns. If the request was not sent because the
// server is down or its copy has been replaced, whenUp repeats it once there is another one, within MaxWait. A request
// that may have reached the server is not repeated.
func (g *gateway) whenUp(ctx context.Context, find func() (*facade.Client, error), request func(*facade.Client) error) error {
	var end time.Time // of the wait
	var longer bool   // end is later, because calls in flight may end first
	var tried incarnation
	var replaced *facade.Client
	var refused error // by replaced
	for {
		client, err := find()
		if err == nil && client == replaced { // no other one has replaced it
			return refused
		}
		at := g.client // it has the server to wait for
		if err == nil {
			if at, err = client, request(client); err == nil {
				return nil
			}
			if client != g.client && isReplaced(err) && (end.IsZero() || time.Now().Before(end)) {
				replaced, refused = client, err
				continue
			}
		}
		var full *lastCopyEnds
		server, down := downServer(err)
		isFull := errors.As(err, &full)
		if !down && !isFull || g.opts.maxWait <= 0 {
			return withoutWait(err)
		}
		status, again := at.ServerStatus(server)
		if end.IsZero() {
			end = time.Now().Add(g.opts.maxWait)
		}
		if !longer && (isFull || status.State == supervisor.StateStopping) {
			longer, end = true, end.Add(defaults.DrainTimeout)
		}
		waiting, cancel := overdue.WithDeadline(ctx, end)
		switch {
		case isFull:
			select {
			case <-full.ended:
				again = true
			case <-waiting.Done():
			}
		case again:
			again = (status.RetryAt == nil || !status.RetryAt.After(end)) && at.WaitReady(waiting, server) == nil
			status, _ = at.ServerStatus(server)
			next := incarnation{at, status.Gen, status.Epoch}
			again, tried = again && next != tried, next // the same: it is ready, and has refused
		}
		cancel()
		if !again {
			return withoutWait(err)
		}
	}
}

// isReplaced reports whether a request was not sent because its copy of the server has ended.
func isReplaced(err error) bool {
	var e *mcpvisor.Error
	return err != nil && errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent && e.Kind == mcpvisor.KindClosed
}

// whenUp is gateway.whenUp for the incarnation of a server that this connection uses.
func (c *connection) whenUp(ctx context.Context, server string, request func(*facade.Client) error) error {
	err := c.gateway.whenUp(ctx, func() (*facade.Client, error) { return c.clientOf(server) }, request)
	if errors.Is(err, errNeverReady) && !c.isCopied(server) {
		return request(c.client) // which says why
	}
	return err
}

// incarnation identifies one session of a server or its copy.
type incarnation struct {
	client     *facade.Client
	gen, epoch uint64
}

// downServer returns the server that is down, if that is why a request was not sent.
func downServer(err error) (server string, down bool) {
	var e *mcpvisor.Error
	if err == nil || !errors.As(err, &e) {
		return "", false
	}
	return e.Server, e.Outcome == mcpvisor.OutcomeNotSent && (e.Kind == mcpvisor.KindUnavailable || e.Kind == mcpvisor.KindCrashed || e.Kind == mcpvisor.KindEnded)
}
