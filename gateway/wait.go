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
// server is down, whenUp repeats it once the server is ready, within MaxWait. A request that may have
// reached the server is not repeated.
func (g *gateway) whenUp(ctx context.Context, find func() (*facade.Client, error), request func(*facade.Client) error) error {
	client, err := find()
	if err == nil && client == g.client {
		return g.whenUpAt(ctx, client, request)
	}
	var before *facade.Client
	var refused error
	for end := time.Now().Add(g.opts.maxWait); ; client, err = find() {
		if err == nil && client == before { // this copy has refused, and no other one has replaced it
			return refused
		}
		if err == nil {
			err = g.whenUpAt(ctx, client, request)
			if !isReplaced(err) || time.Now().After(end) {
				return err
			}
			before, refused = client, err
			continue
		}
		if !g.waitForCopy(ctx, err, end) {
			return withoutWait(err)
		}
	}
}

// waitForCopy waits until a copy of a server may start, if err says that it could not start yet. It
// reports false for any other error, and when the time is over.
func (g *gateway) waitForCopy(ctx context.Context, err error, end time.Time) bool {
	waiting, cancel := overdue.WithDeadline(ctx, end)
	defer cancel()
	var full *lastCopyEnds
	if errors.As(err, &full) {
		select {
		case <-full.ended:
			return true
		case <-waiting.Done():
			return false
		}
	}
	server, down := downServer(err)
	if status, ok := g.client.ServerStatus(server); !ok || status.RetryAt != nil && status.RetryAt.After(end) {
		return false
	}
	return down && g.client.WaitReady(waiting, server) == nil
}

// isReplaced reports whether a request was not sent because its copy of the server has ended.
func isReplaced(err error) bool {
	var e *mcpvisor.Error
	return err != nil && errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent && e.Kind == mcpvisor.KindClosed
}

// whenUp is gateway.whenUp for the incarnation of a server that this connection uses.
func (c *connection) whenUp(ctx context.Context, server string, request func(*facade.Client) error) error {
	err := c.gateway.whenUp(ctx, func() (*facade.Client, error) { return c.clientOf(server) }, request)
	if errors.Is(err, errNeverReady) {
		return request(c.client) // which says why
	}
	return err
}

// whenUpAt is whenUp for one client.
func (g *gateway) whenUpAt(ctx context.Context, client *facade.Client, request func(*facade.Client) error) error {
	err := request(client)
	server, down := downServer(err)
	if !down || g.opts.maxWait <= 0 {
		return err
	}
	end := time.Now().Add(g.opts.maxWait)
	if status, _ := client.ServerStatus(server); status.State == supervisor.StateStopping {
		end = end.Add(defaults.DrainTimeout) // it is replaced, and its calls in flight may end first
	}
	waiting, cancel := overdue.WithDeadline(ctx, end)
	defer cancel()
	var tried incarnation
	for down {
		status, ok := client.ServerStatus(server)
		if !ok || status.RetryAt != nil && status.RetryAt.After(end) || client.WaitReady(waiting, server) != nil {
			return err
		}
		status, _ = client.ServerStatus(server)
		next := incarnation{status.Gen, status.Epoch}
		if next == tried { // the server is ready, and has refused
			return err
		}
		tried = next
		err = request(client)
		server, down = downServer(err)
	}
	return err
}

// incarnation identifies one session of a server.
type incarnation struct{ gen, epoch uint64 }

// downServer returns the server that is down, if that is why a request was not sent.
func downServer(err error) (server string, down bool) {
	var e *mcpvisor.Error
	if err == nil || !errors.As(err, &e) {
		return "", false
	}
	return e.Server, e.Outcome == mcpvisor.OutcomeNotSent && (e.Kind == mcpvisor.KindUnavailable || e.Kind == mcpvisor.KindCrashed || e.Kind == mcpvisor.KindEnded)
}
