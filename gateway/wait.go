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
	var tried struct {
		client     *facade.Client
		gen, epoch uint64
	}
	var replaced *facade.Client
	var refused error // by replaced
	for {
		client, err := find()
		at := g.client // it has the server to wait for
		switch {
		case err == nil && client == replaced: // no other one has replaced it
			return refused
		case err == nil:
			if at, err = client, request(client); err == nil {
				return nil
			}
		}
		var full *lastCopyEnds
		isFull := errors.As(err, &full)
		server, kind := notSent(err)
		isReplaced := kind == mcpvisor.KindClosed && at != g.client
		if g.opts.maxWait <= 0 || !isFull && !isReplaced && !isDown(kind) {
			return withoutWait(err)
		}
		status, again := at.ServerStatus(server)
		if end.IsZero() {
			end = time.Now().Add(g.opts.maxWait)
			if isFull || isReplaced || status.State == supervisor.StateStopping {
				end = end.Add(defaults.DrainTimeout) // its calls in flight may end first
			}
		}
		waiting, cancel := overdue.WithDeadline(ctx, end)
		switch {
		case isReplaced:
			again, replaced, refused = waiting.Err() == nil, client, err
		case isFull:
			select {
			case <-full.ended:
				again = true
			case <-waiting.Done():
			}
		case again:
			again = (status.RetryAt == nil || !status.RetryAt.After(end)) && at.WaitReady(waiting, server) == nil
			last := tried
			status, _ = at.ServerStatus(server)
			tried.client, tried.gen, tried.epoch = at, status.Gen, status.Epoch
			again = again && tried != last // the same: it is ready, and has refused
		}
		cancel()
		if !again {
			return withoutWait(err)
		}
	}
}

// whenUp is gateway.whenUp for the incarnation of a server that this connection uses.
func (c *connection) whenUp(ctx context.Context, server string, request func(*facade.Client) error) error {
	err := c.gateway.whenUp(ctx, func() (*facade.Client, error) { return c.clientOf(server) }, request)
	if errors.Is(err, errNeverReady) && !c.isCopied(server) {
		return request(c.client) // which says why
	}
	return err
}

// notSent returns why a request was not sent, and to which server; empty if it may have been.
func notSent(err error) (server string, kind mcpvisor.ErrorKind) {
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent {
		return e.Server, e.Kind
	}
	return "", ""
}

// isDown reports whether a request was not sent because its server is down.
func isDown(kind mcpvisor.ErrorKind) bool {
	return kind == mcpvisor.KindUnavailable || kind == mcpvisor.KindCrashed || kind == mcpvisor.KindEnded
}
