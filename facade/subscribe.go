package facade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
)

// Refresh reads everything that a server offers anew, and returns when the
// listing shows it. Servers that announce their changes are read by themselves
// (see [EventChanged]); this is for the others. A list that cannot be read stays
// as it is. Errors: ErrUnknownServer, ErrUnavailable, ErrEvicted, ErrProtocol (the
// server answered, and badly), ErrTimeout, ErrCanceled.
func (c *Client) Refresh(ctx context.Context, server string) error {
	return c.telling(server, "refresh "+server, func(v *actors.View) error { return c.rt.Refresh(ctx, v) })
}

// Subscribe asks a server to tell when a resource changes ([EventResourceUpdated]).
// The subscription belongs to the registration: each new incarnation is asked
// before it is ready, and a server that is down when Subscribe is called is
// asked when it is back. If the server is ready and refuses, the error says so
// (ErrProtocol) and nothing is remembered. After any other error the subscription
// stands, and the server is asked again; Unsubscribe takes it back. Errors:
// ErrUnknownServer, ErrInvalid, ErrProtocol, ErrTimeout, ErrUnavailable,
// ErrCanceled.
//
// MCP, resources, subscriptions; since 2026-07-28 subscriptions/listen.
func (c *Client) Subscribe(ctx context.Context, server, uri string) error {
	return c.subscribe(ctx, server, uri, true, "subscribe to "+server+" "+uri)
}

// Unsubscribe takes a subscription back. Taking back what was never subscribed
// is no error. Errors as for [Client.Subscribe].
func (c *Client) Unsubscribe(ctx context.Context, server, uri string) error {
	return c.subscribe(ctx, server, uri, false, "unsubscribe from "+server+" "+uri)
}

func (c *Client) subscribe(ctx context.Context, server, uri string, on bool, op string) error {
	if uri == "" {
		return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("the URI is empty; name a resource")}
	}
	return c.telling(server, op, func(v *actors.View) error { return c.rt.Subscribe(ctx, v, uri, on) })
}

// logLevels are the severities of RFC 5424, least first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// SetLoggingLevel asks a server to log what is of that severity or above: debug,
// info, notice, warning, error, critical, alert or emergency. What it logs goes
// to the client's logger and to watchers ([EventLog]). Like a subscription, the
// level is set anew for each incarnation; a level that is refused gives way to the
// one before. Errors as for [Client.Subscribe].
//
// MCP, utilities, logging; since 2026-07-28 the level goes with every request.
func (c *Client) SetLoggingLevel(ctx context.Context, server, level string) error {
	op := "set the log level of " + server
	if !slices.Contains(logLevels, level) {
		return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("there is no log level %q; use one of %v", level, logLevels)}
	}
	return c.telling(server, op, func(v *actors.View) error { return c.rt.SetLogLevel(ctx, v, level) })
}

func (c *Client) telling(server, op string, tell func(*actors.View) error) error {
	s := c.rt.Snapshot()
	v := s.Server(server)
	if v == nil {
		return withOp(unknownServer(s, server), op)
	}
	return withOp(tell(v), op)
}
