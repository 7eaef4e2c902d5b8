package facade

import (
	"context"
	"errors"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// ToolStats returns the statistics of the tools of a server that were called since it was
// registered, sorted by name: outcomes and durations. It is nil if no server of that name
// is registered. The slice is the caller's.
func (c *Client) ToolStats(server string) []monitor.ToolStats {
	if v := c.rt.Snapshot().Server(server); v != nil {
		return v.ToolStats()
	}
	return nil
}

// Inspect shows how the supervision of a server came to where it is: the last 64 inputs of its lifecycle with time, state
// and effects, and the actors of the client. ok is false if no server of that name is registered.
func (c *Client) Inspect(server string) (found monitor.Inspection, ok bool) {
	return c.rt.Inspect(server)
}

// CallsInFlight returns the requests of all servers that have not ended, the oldest first,
// those in the queue and at copies included. It looks at each request table for a moment; calls pay
// nothing for it. A call that waits with [WithWaitReady] is in no table. The slice is the
// caller's.
func (c *Client) CallsInFlight() []monitor.CallInFlight {
	calls := c.rt.Snapshot().CallsInFlight()
	for _, copied := range c.copies.all() {
		calls = append(calls, copied.rt.Snapshot().CallsInFlight()...)
	}
	slices.SortStableFunc(calls, func(a, b monitor.CallInFlight) int { return a.Began.Compare(b.Began) })
	return calls
}

// CancelCall is relay.Methods.CancelCall.
func (c relayed) CancelCall(call monitor.CallInFlight) error {
	canceled := c.rt.Snapshot().CancelCall(call)
	for _, copied := range c.copies.all() {
		canceled = canceled || copied.rt.Snapshot().CancelCall(call)
	}
	if canceled {
		return nil
	}
	return &mcpvisor.Error{Server: call.Server, Op: "cancel " + mcpvisor.Qualify(call.Server, call.Target), Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errNotInFlight}
}

// errNotInFlight is the cause of a call that an operator cannot cancel.
var errNotInFlight = errors.New("the call has ended, or cannot be canceled here; look at the calls in flight again")

// History returns a view of what has happened so far, which the client keeps within bounds. It copies nothing, stays
// current, and works after Close.
func (c *Client) History() History { return History{c.rt} }

// History is what a [Client] keeps of the past. Its readers can follow: pass 0 first, and then the number up to which
// you have seen everything. A number beyond the last one counts as 0. The slices are the caller's; what events point to
// is shared and must not be changed.
type History struct{ rt *actors.Runtime }

// Calls returns the ended calls whose Seq is greater than after, oldest first. The client keeps the last 500;
// missed counts the calls after that Seq that are no longer kept.
func (h History) Calls(after uint64) (calls []monitor.CallRecord, missed uint64) {
	return h.rt.RecentCalls(after)
}

// UnknownCalls returns the last calls that failed with OutcomeUnknown, oldest first, at most 100. Calls that succeed
// do not displace them.
func (h History) UnknownCalls() []monitor.CallRecord { return h.rt.UnknownCalls() }

// Events returns the kept events with a higher Seq than after, in order. The client keeps the last 1000 about the life
// of servers, and as many that servers sent (EventLog, EventResourceUpdated), each up to 4 MiB; missed counts the
// events after that Seq that are no longer kept.
func (h History) Events(after uint64) (events []mcpvisor.Event, missed uint64) {
	return h.rt.Events().After(after)
}

// Summaries returns what has happened to the servers in short, in the order of the last events: similar events of one
// server are one summary, so that a crash loop takes one place. The client keeps 2000, up to 4 MiB, and at most 20 of one
// kind for each server; dropped counts those that made room. after selects those that have changed since the event with
// that Seq: the number to pass next is the greatest Updated that you have seen.
func (h History) Summaries(after uint64) (all []monitor.EventSummary, dropped uint64) {
	return h.rt.Events().Summaries(after)
}

// WatchFrom implements relay.Methods.
func (c relayed) WatchFrom(ctx context.Context, after uint64, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	_ = ctx.Err() // a nil ctx panics here, and not in a goroutine
	return c.rt.Events().WatchFrom(ctx, after, kinds...)
}

// Stderr returns what the latest incarnation of a server has written to stderr, dead or
// alive. It is empty for servers without a stderr, which are those over HTTP. ok is false
// if no server of that name is registered. The slices are the caller's.
func (c *Client) Stderr(server string) (stderr monitor.ServerStderr, ok bool) {
	v := c.rt.Snapshot().Server(server)
	if v == nil {
		return monitor.ServerStderr{}, false
	}
	return v.Stderr(), true
}

// Stats returns the facts about the client as a whole. They remain after Close.
func (c *Client) Stats() monitor.ClientStats { return c.rt.Stats() }

// WithEndedCalls calls f with each request of a caller that has ended, those that were refused included, in the goroutine of
// the caller: what f waits for delays the caller. f must be safe for concurrent use; a panic in it is that of the caller.
// arguments says that f gets the arguments of tool calls, which costs a copy of them. The end of a task is reported, too; see
// [monitor.EndedCall].Task. Calls that the journal answers, and
// those of servers that are not registered, are left out. Package records keeps the calls in files. Default, and for nil:
// none, which costs nothing.
func WithEndedCalls(f func(monitor.EndedCall), arguments bool) Option {
	return func(o *options) { o.ended, o.endedArguments = f, arguments && f != nil }
}
