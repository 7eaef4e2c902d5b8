package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// dialer chooses at each start of a server whether it is here, on another node, or nowhere.
type dialer struct {
	node *Node
	spec mcpvisor.ServerSpec // with its real transport
	err  error               // why this node cannot run it
	opts transport.Options
	host *transport.CallHandlers
	// buffer bounds the large results that have come from the owner.
	buffer *budget.Budget

	mu    sync.Mutex
	here  *local       // that inner was made for; guarded by mu, as the fields below
	guard *guard.Guard // the same
	inner transport.Dialer
}

var _ transport.Dialer = (*dialer)(nil)

// NewSession implements [transport.Dialer].
func (d *dialer) NewSession() transport.Session {
	s := d.newSession(d.node.routes.take(d.spec.Name))
	d.node.routes.made(d.spec.Name, func() bool { return s.Cause() != nil })
	return s
}

func (d *dialer) newSession(to way) transport.Session {
	switch {
	case to.local != nil:
		return d.localSession(to.local)
	case to.remote != remote{}:
		return newRemoteSession(d, to.remote)
	}
	return &nowhere{ending: newEnding(), name: d.spec.Name, unable: d.node.unable(d.spec.Name)}
}

func (d *dialer) localSession(here *local) transport.Session {
	inner, err := d.dialerFor(here)
	if err != nil {
		return &nowhere{ending: newEnding(), name: d.spec.Name, err: err}
	}
	return &localSession{Session: inner.NewSession(), of: here, admit: func(ctx context.Context) (func(), error) {
		return d.node.admit(ctx, here, d.spec.Stdio != nil)
	}}
}

// dialerFor returns the dialer of the transport. It is made again for each placement and each guard,
// which the environment of an exclusive server names.
func (d *dialer) dialerFor(here *local) (transport.Dialer, error) {
	if d.err != nil {
		return nil, permanent(d.err)
	}
	spec := d.spec
	var g *guard.Guard
	if here.exclusive {
		var err error
		switch g, err = d.node.guards.Current(); {
		case d.node.config.AllowUnguarded && !d.node.guards.Exist():
		case !d.node.guards.Exist():
			return nil, permanent(errNoGuard)
		case err != nil:
			return nil, err
		case g == nil:
			return nil, errGuardStarts
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.here == here && d.guard == g {
		return d.inner, nil
	}
	if g != nil && spec.Stdio != nil {
		stdio := *spec.Stdio
		stdio.Env = maps.Clone(stdio.Env)
		if stdio.Env == nil {
			stdio.Env = map[string]string{}
		}
		name, value := g.Env()
		stdio.Env[name] = value
		spec.Stdio = &stdio
	}
	inner, err := dial.New(spec, d.opts)
	if err != nil {
		return nil, err
	}
	d.here, d.guard, d.inner = here, g, inner
	return inner, nil
}

// errNoGuard: exclusive servers need a guard.
var errNoGuard = errors.New("exclusive servers need a guard, which ends them when this node hangs: set Config.GuardTicket and call guard.Main first in main, or set Config.AllowUnguarded")

// permanent is the cause of a server that this node cannot run, however often it is tried.
func permanent(err error) *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: err.Error(), Err: err}
}

// Authorizer returns the authorizer of a server that is reached from here; see
// [transport.Authorization].
func (d *dialer) Authorizer() mcpvisor.Authorizer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		return nil
	}
	return transport.Authorization(d.inner)
}

// nowhere is a session of a server that no node runs at present, or that cannot be started here. It
// waits until it is ended, which a change of the route does, unless there is something to say.
type nowhere struct {
	transport.Base
	*ending
	name string
	err  error // why it cannot be started; nil: it waits
	// unable is why this node cannot run it either; nil: it could.
	unable error
}

var errNowhere = errors.New("no node runs the server at present")

// Open implements [transport.Session].
func (s *nowhere) Open(ctx context.Context) error {
	cause := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: errNowhere.Error(), Err: errNowhere}
	if known := (*supervisor.Cause)(nil); errors.As(s.err, &known) {
		cause = known
	} else if s.err != nil {
		cause.Message, cause.Err = s.err.Error(), s.err
	} else {
		if s.unable != nil { // those who wait for the server see why
			cause.Message += ", and this one cannot: " + s.unable.Error()
		} else {
			select {
			case <-ctx.Done():
			case <-s.Dead():
				return s.Cause()
			}
		}
	}
	s.Abort(cause)
	return s.Cause()
}

// Abort implements [transport.Session].
func (s *nowhere) Abort(cause *supervisor.Cause) {
	if s.end(cause) {
		s.release()
	}
}

// Request implements [transport.Session].
func (s *nowhere) Request(context.Context, transport.Request) (json.RawMessage, error) {
	return nil, moving(s.name, errNowhere)
}

// The rest of [transport.Session].
func (s *nowhere) OnNotice(func(transport.Notice)) {}
func (s *nowhere) Kill(cause *supervisor.Cause)    { s.Abort(cause) }
func (s *nowhere) Info() mcpvisor.SessionInfo      { return mcpvisor.SessionInfo{} }
func (s *nowhere) LastReceived() time.Time         { return time.Time{} }

// shown is how the spec of a server is registered: as a transport of the host, so that a server that
// is elsewhere takes no turn among the processes that start.
func shown(spec mcpvisor.ServerSpec) mcpvisor.ServerSpec {
	actual := spec
	spec.Transport = &mcpvisor.Transport{Kind: actual.TransportKind(), Target: actual.Target(), New: noTransport}
	spec.Stdio, spec.HTTP, spec.InMemory = nil, nil, nil
	spec.StartSupervised, spec.Standby = true, false
	spec.Policy.MaxAttempts = supervisor.Unlimited
	if spec.Policy.Base <= 0 {
		spec.Policy.Base = defaultBase
	}
	if spec.Policy.Max <= 0 {
		spec.Policy.Max = max(defaultMax, spec.Policy.Base)
	}
	spec.Policy.ParkEvery, spec.Policy.Intensity = 0, supervisor.Intensity{}
	return spec
}

// noTransport is never called: the dialer of the fleet reaches the server.
func noTransport(context.Context) (mcp.Transport, error) {
	return nil, fmt.Errorf("a server of a fleet is reached by the dialer of the fleet")
}

const (
	defaultBase = 500 * time.Millisecond
	defaultMax  = 30 * time.Second
)
