package actors

import (
	"context"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Refresh reads the lists of a server again, and returns when the result is published.
func (rt *Runtime) Refresh(ctx context.Context, v *View) error {
	return rt.requestPort(ctx, v, func(reply chan<- error) messages.Message { return &refreshNow{reply: reply} })
}

// Subscribe asks a server to announce updates of a resource (on), or to stop that: this
// incarnation, and each one after it. A server that is not ready receives the request
// when it is. A subscription that the server rejects is removed from the desired state.
func (rt *Runtime) Subscribe(ctx context.Context, v *View, uri string, on bool) error {
	rt.desiredOf(v.Gen).SetResource(uri, on)
	return rt.requestReconcile(ctx, v, subscription.Request{URI: uri, On: on})
}

// SetLogLevel asks a server for log messages of that severity or above. If the server
// rejects the level, the one before stays in force.
func (rt *Runtime) SetLogLevel(ctx context.Context, v *View, level string) error {
	rt.desiredOf(v.Gen).SetLevel(level)
	return rt.requestReconcile(ctx, v, subscription.Request{Level: level})
}

// requestReconcile applies a change that was just made to the desired state, and waits
// for the answer of the server in service. An incarnation that becomes ready
// later applies the change by itself; see notifyPorts.
func (rt *Runtime) requestReconcile(ctx context.Context, v *View, request subscription.Request) error {
	if now := rt.Snapshot().Server(v.Name); now != nil && now.Gen == v.Gen {
		v = now
	}
	if v.State != supervisor.StateReady {
		return nil
	}
	if v.standby != nil {
		rt.send(v.standby.port, &reconcileSubscriptions{})
	}
	err := rt.requestPort(ctx, v, func(reply chan<- error) messages.Message {
		request.Reply = reply
		return &reconcileSubscriptions{request: request}
	})
	if e := (*mcpvisor.Error)(nil); err != nil && v.current.session.Cause() != nil && errors.As(err, &e) && e.Kind != mcpvisor.KindCanceled {
		return nil // the next incarnation applies it
	}
	return err
}

// notifyPorts lets the incarnations of a view compare the desired state with what they
// have applied. The view is published by then: a later change of the desired state sees
// it, and notifies them itself. So no change is missed in between.
func (rt *Runtime) notifyPorts(v *View) {
	if v.State != supervisor.StateReady {
		return
	}
	for _, inc := range []*incarnation{v.current, v.standby} {
		if inc != nil && inc.port != nil {
			rt.send(inc.port, &reconcileSubscriptions{})
		}
	}
}

// requestPort sends a message to the port of a server that is ready, and waits for the
// reply, the end of the session, or the end of ctx.
func (rt *Runtime) requestPort(ctx context.Context, v *View, message func(reply chan<- error) messages.Message) error {
	if v.State != supervisor.StateReady || v.current.port == nil {
		return v.unavailable()
	}
	reply := make(chan error, 1)
	rt.send(v.current.port, message(reply))
	select {
	case err := <-reply:
		if shared := (*mcpvisor.Error)(nil); errors.As(err, &shared) {
			e := *shared // each caller adds the operation to its own copy
			e.Server, e.Gen, e.Epoch = v.Name, v.Gen, v.current.epoch
			return &e
		}
		return err
	case <-v.current.session.Dead():
		e := v.current.unavailable()
		e.Server, e.Gen, e.Epoch = v.Name, v.Gen, v.current.epoch
		return e
	case <-ctx.Done():
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.current.epoch, Kind: mcpvisor.KindCanceled,
			Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}
}
