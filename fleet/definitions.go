package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// definition is one server of the fleet.
type definition struct {
	name   string
	record records.Spec
	// The rest is guarded by Node.mu.
	resolving  bool // it has begun
	resolved   bool
	spec       mcpvisor.ServerSpec // with the real transport
	shown      mcpvisor.ServerSpec // as it is registered
	err        error               // why this node cannot run it
	registered bool                // with this definition
	gaveUp     error               // why this node has given it up; nil: it has not
}

// followSpecs keeps the registered servers those of the fleet, until ctx ends.
func (n *Node) followSpecs(ctx context.Context) {
	for {
		select {
		case <-n.dirty:
		case <-ctx.Done():
			return
		}
		n.resolve()
		n.mu.Lock()
		wanted := make(map[string]*definition, len(n.specs))
		specs := make([]mcpvisor.ServerSpec, 0, len(n.specs))
		for name, d := range n.specs {
			if d.resolved {
				wanted[name] = d
				specs = append(specs, d.shown)
				n.ours[name] = true
			}
		}
		var removed []string
		for name := range n.ours {
			if n.specs[name] == nil {
				removed = append(removed, name)
			}
		}
		n.mu.Unlock()
		n.tellConfigured()
		var ended sync.WaitGroup
		ended.Go(func() { n.unregister(ctx, removed) })
		err := n.Client.Apply(ctx, specs, facade.KeepOthers)
		ended.Wait()
		if err != nil && ctx.Err() == nil {
			n.log.Error().Err(err).Msg("not all servers of the fleet could be registered; they are tried again")
			time.AfterFunc(registerAgain, n.register)
		}
		n.mu.Lock()
		for name, d := range wanted {
			_, has := n.Client.ServerStatus(name)
			d.registered = has && (d.registered || err == nil)
			n.leaveToOthersLocked(name)
		}
		for _, name := range removed {
			if _, has := n.Client.ServerStatus(name); !has && n.specs[name] == nil {
				delete(n.ours, name)
			}
		}
		close(n.changed)
		n.changed = make(chan struct{})
		n.mu.Unlock()
	}
}

// tellConfigured tells the program what was applied, if that has changed.
func (n *Node) tellConfigured() {
	if n.config.Configured == nil {
		return
	}
	n.telling.Lock()
	defer n.telling.Unlock()
	n.mu.Lock()
	changed, gateway := n.untold, n.gateway
	n.untold = false
	var all []Server
	if changed {
		all = make([]Server, 0, len(n.specs))
		for _, name := range slices.Sorted(maps.Keys(n.specs)) {
			record := n.specs[name].record
			all = append(all, Server{Name: name, Exclusive: record.Exclusive, Labels: record.Labels, Definition: record.Definition})
		}
	}
	n.mu.Unlock()
	if changed {
		n.config.Configured(gateway, all)
	}
}

// unregister ends servers that were removed from the fleet, all at once, when the calls in flight of this node and of others
// have ended, within Timeouts.Drain.
func (n *Node) unregister(ctx context.Context, names []string) {
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			if err := n.Client.Unregister(ctx, name, facade.WithDrain()); err != nil && !errors.Is(err, mcpvisor.ErrUnknownServer) && ctx.Err() == nil {
				n.log.Error().Err(err).Str("server", name).Msg("a server that was removed from the fleet could not be ended as a whole")
			}
		})
	}
	all.Wait()
}

// resolve makes the specifications of servers whose definitions are new. That may read files, which
// may hang: so it is not done by the goroutine that keeps the lease, and who takes longer than
// resolveWait is registered later.
func (n *Node) resolve() {
	n.mu.Lock()
	var fresh []*definition
	for _, d := range n.specs {
		if !d.resolved && !d.resolving {
			d.resolving = true
			fresh = append(fresh, d)
		}
	}
	n.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	var left atomic.Int64
	left.Store(int64(len(fresh)))
	done := make(chan struct{})
	for _, d := range fresh {
		n.work.Go(func() {
			n.resolving <- struct{}{}
			n.resolveOne(d)
			<-n.resolving
			if left.Add(-1) == 0 {
				close(done)
			}
		})
	}
	timer := time.NewTimer(resolveWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-n.ctx.Done():
	}
}

func (n *Node) resolveOne(d *definition) {
	spec, err := n.specOf(d.name, d.record.Definition)
	if err != nil {
		spec = mcpvisor.ServerSpec{}
		n.log.Warn().Err(err).Str("server", d.name).Msg("this node cannot run the server")
	}
	spec.Name, spec.Exclusive = d.name, d.record.Exclusive
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.specs[d.name] != d { // there is another definition, or none
		return
	}
	d.spec, d.shown, d.err, d.resolved = spec, shown(spec), err, true
	n.runner.Refuse(d.name, err != nil) // in the order of what is known
	n.register()
}

// followEvictions leaves servers to other nodes that this one has given up: a further attempt here would
// not help, because a program is missing, or there is no guard.
func (n *Node) followEvictions(ctx context.Context) {
	for e := range n.Client.Watch(ctx, mcpvisor.EventEvicted, mcpvisor.EventMissed) {
		n.mu.Lock()
		if e.Kind == mcpvisor.EventEvicted {
			n.leaveToOthersLocked(e.Server)
		} else {
			for name := range n.specs {
				n.leaveToOthersLocked(name)
			}
		}
		n.mu.Unlock()
	}
}

// leaveToOthersLocked refuses a server that is placed here and was given up by its present definition,
// until that changes or the process ends.
func (n *Node) leaveToOthersLocked(name string) {
	d := n.specs[name]
	status, _ := n.Client.ServerStatus(name)
	if d == nil || !d.registered || d.gaveUp != nil || status.State != supervisor.StateEvicted || status.LastCause == nil || n.routes.localOf(name) == nil {
		return
	}
	d.gaveUp = status.LastCause
	n.log.Warn().Err(d.gaveUp).Str("server", name).Msg("this node cannot run the server, and leaves it to others")
	n.runner.Refuse(name, true)
}

// unable returns why this node cannot run a server; nil: it could.
func (n *Node) unable(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if d := n.specs[name]; d != nil {
		return errors.Join(d.err, d.gaveUp)
	}
	return nil
}

// register has the registered servers follow the specifications.
func (n *Node) register() {
	select {
	case n.dirty <- struct{}{}:
	default:
	}
}

// resolveWait is how long the registration of servers waits for those whose definitions are being
// resolved, so that many that come together are registered together.
const resolveWait = 500 * time.Millisecond

// registerAgain is when servers that could not be registered are tried again.
const registerAgain = time.Second

// resolveAtOnce is how many definitions are resolved at a time.
const resolveAtOnce = 16
