package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
	params json.RawMessage // with the arguments as the caller has given them, from start to before the last byte, which others change
	start  int
	// principal makes the call, with a client that says the name client.
	principal, client string
	responses         json.RawMessage // of a further round; nil in the first one

	permit mcpvisor.Permit
	gen    uint64 // of the registration that permit is for
}

// arguments are those that will be sent: the settings of the tool may add some.
func (g *guardedCall) arguments(v *actors.View, name string) (arguments json.RawMessage, err error) {
	last := len(g.params) - 1
	arguments = g.params[g.start:last]
	if len(v.Spec.ToolSettings) == 0 {
		return arguments, nil
	}
	_, mapped, err := catalog.Settings(v.Spec.ToolSettings).MapCall(name, append(bytes.Clone(g.params[:last]), '}'))
	if err != nil {
		return nil, err
	}
	return jsonscan.Member(mapped, "arguments"), nil // MapCall has set them
}

// guardCall asks the guard about a call whose arguments begin at start of its params. It returns the options of the call with
// what the guard was asked about, and the present server and tool.
func (c *Client) guardCall(ctx context.Context, v *actors.View, name string, o *callOptions, params []byte, start int) (*callOptions, *actors.View, *mcpvisor.Tool, error) {
	if v.State != supervisor.StateReady { // the guard may ask a person, for a call that cannot be sent
		return nil, nil, nil, v.Unavailable()
	}
	own := *o
	own.guarded = &guardedCall{params: params, start: start, principal: o.Principal, client: o.ClientName, responses: o.Continuation.InputResponses}
	if own.guarded.responses == nil && !isFirst(&o.Continuation) {
		own.guarded.responses = json.RawMessage("{}")
	}
	v, offered, err := c.permit(ctx, v, name, own.guarded)
	return &own, v, offered, err
}

// permit asks the guard about a call. What the server lists may have changed while the guard waited for a person, so permit
// returns the present server and tool. If their definition is another one, the guard is asked again.
func (c *Client) permit(ctx context.Context, v *actors.View, name string, g *guardedCall) (*actors.View, *mcpvisor.Tool, error) {
	for {
		offered, err := c.askGuard(ctx, v, name, g)
		if ctx.Err() != nil {
			return nil, nil, canceledBeforeSent(ctx, v)
		}
		if err != nil {
			return nil, nil, err
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

// askGuard asks the guard about a call once.
func (c *Client) askGuard(ctx context.Context, v *actors.View, name string, g *guardedCall) (*mcpvisor.Tool, error) {
	offered, err := c.checkTool(v, mcpvisor.Qualify(v.Name, name), name)
	if err != nil {
		return nil, err
	}
	if g.gen != v.Gen { // another server, of the same name
		g.gen, g.permit = v.Gen, mcpvisor.Permit{}
	}
	call := mcpvisor.GuardedCall{Principal: g.principal, Client: g.client, Server: v.Name, Tool: name, InputResponses: g.responses, Earlier: g.permit}
	if call.Arguments, err = g.arguments(v, name); err != nil {
		return nil, &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	if offered != nil {
		call.Definition = offered.Definition
	}
	permit, err := hostcall.ValueHere("CallGuard", func() (mcpvisor.Permit, error) { return c.opts.callGuard.CheckCall(ctx, call) })
	if err == nil {
		g.permit = permit
		return offered, nil
	}
	e := &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrDenied, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	if later := (*mcpvisor.Error)(nil); errors.As(err, &later) && later.Kind == mcpvisor.ErrOverloaded {
		e.Kind, e.RetryAfter, e.Cause = later.Kind, later.RetryAfter, later.Cause
	}
	return nil, e
}

func canceledBeforeSent(ctx context.Context, v *actors.View) error {
	return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: context.Cause(ctx)}
}

// errAskAgain is the cause of a call that was not sent because the guard needs time to decide about it again.
var errAskAgain = errors.New("the guard of calls has to decide again")

// endedContext is that of a guard that has to decide at once.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// recheck decides about a request that has waited for its turn, in which it is in the way of others: what the guard cannot say at
// once is errAskAgain. What was listed and permitted before the wait may be so no longer.
func (c *Client) recheck(v *actors.View, method, target string, params json.RawMessage, g *guardedCall) error {
	now := c.rt.Snapshot().Server(v.Name)
	if now == nil || now.Gen != v.Gen { // its session ends
		return nil
	}
	if err := c.checkListed(now, method, target, params); err != nil || g == nil {
		return err
	}
	_, err := c.askGuard(endedContext, now, target, g)
	if errors.Is(err, context.Canceled) {
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: errAskAgain}
	}
	return err
}
