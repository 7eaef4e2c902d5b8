package facade

import (
	"context"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// WithCallGuard has a guard decide about each call of a tool, after all interceptors, with the bytes that will be sent: see
// [mcpvisor.CallGuard] and package rules. A call that it refuses, or at which it panics, fails with mcpvisor.ErrDenied, and
// nothing of it was sent or written to the journal. A call that the journal answers is not sent, so the guard is not asked. No
// timeout of the call ends the wait for the guard: give the context a deadline. Default, and for nil: every call is sent.
func WithCallGuard(guard mcpvisor.CallGuard) Option {
	return func(o *options) { o.callGuard = guard }
}

// guardedCall is what the guard was asked about. The goroutine of the call owns it.
type guardedCall struct {
	params json.RawMessage // with the arguments as the caller has given them, from start to before the last byte
	start  int
	permit mcpvisor.Permit
}

// arguments are those that will be sent: the settings of the tool may add some.
func (g *guardedCall) arguments(v *actors.View, name string) (arguments json.RawMessage, err error) {
	arguments = g.params[g.start : len(g.params)-1]
	if len(v.Spec.ToolSettings) == 0 {
		return arguments, nil
	}
	_, mapped, err := catalog.Settings(v.Spec.ToolSettings).MapCall(name, g.params)
	if err != nil {
		return nil, err
	}
	return arguments, jsonscan.EachMember(mapped, func(member string, value []byte) error {
		if member == "arguments" {
			arguments = value
		}
		return nil
	})
}

// permit asks the guard about a call. What the server lists may have changed while the guard waited for a person, so permit
// returns the present server and tool. If their definition is another one, the guard is asked again.
func (c *Client) permit(ctx context.Context, v *actors.View, name string, o *callOptions) (*actors.View, *mcpvisor.Tool, error) {
	for {
		offered, err := c.checkTool(v, mcpvisor.Qualify(v.Name, name), name)
		if err != nil {
			return nil, nil, err
		}
		g := o.guarded
		call := mcpvisor.GuardedCall{Principal: o.Principal, Server: v.Name, Tool: name, Earlier: g.permit}
		if call.Arguments, err = g.arguments(v, name); err != nil {
			return nil, nil, err
		}
		if offered != nil {
			call.Definition = offered.Definition
		}
		g.permit, err = hostcall.ValueHere("CallGuard", func() (mcpvisor.Permit, error) { return c.opts.callGuard.CheckCall(ctx, call) })
		if ctx.Err() != nil {
			return nil, nil, &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: context.Cause(ctx)}
		}
		if err != nil {
			return nil, nil, &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.KindDenied, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
		}
		now := c.rt.Snapshot().Server(v.Name)
		if now == nil || now == v || now.Gen != v.Gen { // the next attempt to send finds out
			return v, offered, nil
		}
		v = now
		if latest := v.Catalog.FindTool(name); latest == offered {
			return v, offered, nil
		}
	}
}
