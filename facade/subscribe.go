package facade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
)

// Refresh reads all lists of a server again and returns when the client's listing shows
// the result. The lists of servers that announce changes are read again automatically,
// with EventChanged; Refresh is for servers that do not. A list that cannot be read
// stays as it was. A server that is asleep is woken, within Timeouts.Call.
//
// Errors: ErrUnknownServer, ErrUnavailable, ErrEvicted, ErrAuthRequired, ErrRPC (the
// server answered every list with an error), ErrProtocol (its answers were unusable),
// ErrTimeout, ErrCanceled, ErrClosed.
func (c *Client) Refresh(ctx context.Context, server string) error {
	return c.withAwake(ctx, server, "refresh "+server, true, func(v *actors.View) error { return c.rt.Refresh(ctx, v) })
}

// Subscribe asks a server to report changes of a resource, which watchers get as
// EventResourceUpdated (MCP, server, resources, subscriptions: resources/subscribe; since
// 2026-07-28 subscriptions/listen).
//
// The subscription belongs to the registration: it is made again for each incarnation before that
// is ready, and it may be made while the server is down; one that is asleep is woken first, within Timeouts.Call. If a ready server rejects it, the
// subscription is dropped: the error is ErrRPC if the server answers with a JSON-RPC error, and
// ErrProtocol if it acknowledges the request without the resource (since 2026-07-28) or has no
// subscriptions. If ctx has ended before, nothing is done. After other errors the subscription
// remains, and the server is asked again later, until Unsubscribe; that works even with a context
// that has ended.
//
// Errors: ErrUnknownServer, ErrInvalid (empty URI), ErrRPC, ErrProtocol, ErrTimeout,
// ErrUnavailable, ErrCanceled, ErrClosed.
func (c *Client) Subscribe(ctx context.Context, server, uri string) error {
	return c.setSubscription(ctx, server, uri, true, "subscribe to "+server+" "+uri)
}

// Unsubscribe ends a subscription; without a subscription it does nothing. Since 2026-07-28
// it returns when the server has been sent the cancellation, which need not be answered: an
// update may still arrive after it. Errors as for [Client.Subscribe].
func (c *Client) Unsubscribe(ctx context.Context, server, uri string) error {
	return c.setSubscription(ctx, server, uri, false, "unsubscribe from "+server+" "+uri)
}

func (c *Client) setSubscription(ctx context.Context, server, uri string, on bool, op string) error {
	if uri == "" {
		return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: errors.New("the URI is empty; name a resource")}
	}
	if err := endedBefore(ctx, server, op); on && err != nil {
		return err
	}
	return c.withAwake(ctx, server, op, on, func(v *actors.View) error { return c.rt.Subscribe(ctx, v, uri, on) })
}

// loggingLevels are the severities of RFC 5424, lowest first.
var loggingLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// SetLoggingLevel asks a server to send log messages of a severity or above: debug, info,
// notice, warning, error, critical, alert or emergency. They go to the client's logger
// and to watchers, as EventLog (MCP, server, utilities, logging: logging/setLevel; since
// 2026-07-28 the level is part of every request).
//
// Like a subscription, the level belongs to the registration and is set again for each
// incarnation. If the server rejects it, the previous level applies. Errors as for
// [Client.Subscribe]; ErrInvalid is for an unknown level.
func (c *Client) SetLoggingLevel(ctx context.Context, server, level string) error {
	op := "set the log level of " + server
	if !slices.Contains(loggingLevels, level) {
		return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("there is no log level %q; use one of %v", level, loggingLevels)}
	}
	if err := endedBefore(ctx, server, op); err != nil {
		return err
	}
	return c.withView(server, op, func(v *actors.View) error { return c.rt.SetLogLevel(ctx, v, level) })
}

// withAwake is withView that first wakes a server at rest, if the operation needs that. It waits for one start, at most
// Timeouts.Call.
func (c *Client) withAwake(ctx context.Context, server, op string, needed bool, run func(*actors.View) error) error {
	return c.withView(server, op, func(v *actors.View) error {
		for {
			if needed && (v.Rests() || v.FellAsleep()) {
				awake, err := c.rt.Wake(ctx, server, wakeTimeout(v, 0))
				if err != nil {
					_ = run(v) // a subscription remains
					return err
				}
				v = awake
			}
			if err := run(v); !needed || !v.FellAsleep() {
				return err
			}
		}
	})
}

// withView runs an operation on the current view of a server.
func (c *Client) withView(server, op string, run func(*actors.View) error) error {
	s := c.rt.Snapshot()
	v := s.Server(server)
	if v == nil {
		return withOp(unknownServer(s, server), op)
	}
	return withOp(run(v), op)
}
