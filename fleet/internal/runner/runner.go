// Package runner carries out the protocol of a node with a store, in real time: it asks the store
// what the protocol wants to know, waits, and tells the servers what to do. It decides nothing.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Servers are the servers of this node, with their guard. Its methods are called by one goroutine,
// one after the other, and must not wait for the runner.
type Servers interface {
	// Deadline says until when the life of a lease is in force, by package boottime; 0: it is over. Exclusive
	// servers must have ended soon after, whatever happens to this process.
	Deadline(lease store.Lease, at time.Duration)
	// Spec says that a server of the fleet has a specification, which it had not or which has
	// changed; nil: it no longer has one. It comes before a Start by it. The record must not be
	// changed.
	Spec(name string, spec *records.Spec)
	// Gateway says that the gateways of the fleet have a definition, which they had not or which has
	// changed; nil: they no longer have one. It comes before each Spec that was applied with it, or
	// later.
	Gateway(definition json.RawMessage)
	// Place says where a name is, when that has changed: the place has, or the life of its owner
	// has begun, has another address, or has ended. owner is the record of that node; nil: its
	// lease does not live. It says nothing of names that were never placed, and nothing when the
	// own life is over (Deadline).
	Place(name string, place placement.Place, owner *placement.Node)
	// Start starts a server. An exclusive one must not start when the deadline has passed.
	// What cannot be started has ended.
	Start(name string, epoch uint64, spec placement.Spec)
	// Adopt gives a server that runs a new epoch.
	Adopt(name string, epoch uint64)
	// End ends a server, in a bounded time, and calls [Runner.Ended] when nothing of it is left.
	// It may be called again with now.
	End(name string, epoch uint64, now bool)
}

// Runner is a node that takes part in a fleet until it leaves or its context ends.
type Runner struct {
	store   store.Store
	servers Servers
	node    *protocol.Node
	timeout time.Duration        // of a request
	now     func() time.Duration // boottime.Now; tests have a clock of their own

	mu     sync.Mutex
	inputs []protocol.Input
	asks   []chan protocol.Snapshot
	// wake has room for one, and is filled when inputs are there.
	wake chan struct{}

	work      sync.WaitGroup
	stopWatch func()
	drained   chan struct{}
	once      sync.Once
	ended     chan struct{} // closed when Run returns
}

const (
	// requestTimeout ends each request to the store, except that which reads everything: it may have
	// 64 MiB of definitions.
	requestTimeout = 2 * time.Second
	readTimeout    = 10 * time.Second
)

// New makes a node that does nothing before [Runner.Run].
func New(c protocol.Config, s store.Store, servers Servers) *Runner {
	return &Runner{
		store: s, servers: servers, node: protocol.New(c), timeout: requestTimeout, now: boottime.Now,
		wake: make(chan struct{}, 1), stopWatch: func() {}, drained: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Ended says that nothing is left of a server.
func (r *Runner) Ended(name string, epoch uint64) {
	r.put(protocol.Input{Kind: protocol.InputEnded, Name: name, Epoch: epoch})
}

// Refuse says that this node cannot run a server, or that it can again. One that it has is handed over.
// Methods of Servers may call it.
func (r *Runner) Refuse(name string, refuses bool) {
	r.put(protocol.Input{Kind: protocol.InputRefuse, Name: name, Refuses: refuses})
}

// Fence ends the life now, as its deadline does: there is no guard, and no other within a second.
// The next life begins when exclusive servers have ended.
func (r *Runner) Fence() { r.put(protocol.Input{Kind: protocol.InputFence}) }

// Drain hands all servers over. Drained is closed when it has none for the first time.
func (r *Runner) Drain() { r.put(protocol.Input{Kind: protocol.InputDrain}) }

// Drained is closed when the node has handed over all its servers.
func (r *Runner) Drained() <-chan struct{} { return r.drained }

// Leave drains, gives the lease back, and lets Run return.
func (r *Runner) Leave() { r.put(protocol.Input{Kind: protocol.InputLeave}) }

// Done is closed when Run returns.
func (r *Runner) Done() <-chan struct{} { return r.ended }

// Snapshot returns what the node knows, or knew when Run returned. It waits for the goroutine of
// Run, which is never long, and must not be called by a method of Servers.
func (r *Runner) Snapshot(ctx context.Context) (protocol.Snapshot, error) {
	answer := make(chan protocol.Snapshot, 1)
	r.mu.Lock()
	r.asks = append(r.asks, answer)
	r.mu.Unlock()
	r.signal()
	select {
	case s := <-answer:
		return s, nil
	case <-r.ended:
		return r.node.Snapshot(), nil // it changes no longer
	case <-ctx.Done():
		return protocol.Snapshot{}, context.Cause(ctx)
	}
}

func (r *Runner) put(in protocol.Input) {
	r.mu.Lock()
	r.inputs = append(r.inputs, in)
	r.mu.Unlock()
	r.signal()
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Runner) take() ([]protocol.Input, []chan protocol.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inputs, asks := r.inputs, r.asks
	r.inputs, r.asks = nil, nil
	return inputs, asks
}

// Run takes part in the fleet. It returns nil when the node has left, and otherwise the cause of
// the context's end. Then it has told the servers that the life is over, and the lease runs out;
// the process that ends the servers may give it back.
func (r *Runner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer close(r.ended)
	defer r.work.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	left := r.step(ctx, protocol.Input{})
	for !left {
		timer.Reset(max(r.node.Due()-r.now(), 0))
		select {
		case <-ctx.Done():
			r.servers.Deadline(0, 0)
			return context.Cause(ctx)
		case <-timer.C:
			left = r.step(ctx, protocol.Input{})
		case <-r.wake:
			inputs, asks := r.take()
			for _, in := range inputs {
				left = left || r.step(ctx, in)
			}
			for _, answer := range asks {
				answer <- r.node.Snapshot()
			}
		}
	}
	return nil
}

// step reports whether the node has left.
func (r *Runner) step(ctx context.Context, in protocol.Input) (left bool) {
	for _, e := range r.node.Step(r.now(), in) {
		switch e.Kind {
		case protocol.EffectGrant, protocol.EffectRenew, protocol.EffectRead, protocol.EffectCommit:
			r.work.Go(func() { r.put(r.ask(ctx, e)) })
		case protocol.EffectRevoke:
			r.work.Go(func() { r.revoke(ctx, e.Lease) })
		case protocol.EffectWatch:
			r.watch(ctx, e)
		case protocol.EffectDeadline:
			r.servers.Deadline(e.Lease, e.At)
		case protocol.EffectSpec:
			r.servers.Spec(e.Name, e.Record)
		case protocol.EffectGateway:
			r.servers.Gateway(e.Gateway)
		case protocol.EffectPlace:
			r.servers.Place(e.Name, e.Place, e.Owner)
		case protocol.EffectStart:
			r.servers.Start(e.Name, e.Epoch, e.Spec)
		case protocol.EffectAdopt:
			r.servers.Adopt(e.Name, e.Epoch)
		case protocol.EffectEnd:
			r.servers.End(e.Name, e.Epoch, e.Now)
		case protocol.EffectDrained:
			r.once.Do(func() { close(r.drained) })
		case protocol.EffectLeft:
			left = true
		}
	}
	return left
}

// ask does one request, and returns the input that answers it.
func (r *Runner) ask(ctx context.Context, e protocol.Effect) (in protocol.Input) {
	timeout := r.timeout
	if e.Kind == protocol.EffectRead {
		timeout = max(timeout, readTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in.Request = e.Request
	var err error
	switch e.Kind {
	case protocol.EffectGrant:
		in.Kind = protocol.InputGranted
		in.Lease, err = r.store.Grant(ctx, e.TTL)
	case protocol.EffectRenew:
		in.Kind = protocol.InputRenewed
		err = r.store.Renew(ctx, e.Lease)
	case protocol.EffectRead:
		in.Kind = protocol.InputRead
		in.Snapshot, err = r.store.Read(ctx, "")
	default:
		in.Kind = protocol.InputCommitted
		in.Result, err = r.store.Commit(ctx, e.Txn)
	}
	switch {
	case errors.Is(err, store.ErrLeaseGone):
		in.Kind = protocol.InputLeaseGone
	case err != nil:
		in.Kind = protocol.InputFailed
	}
	return in
}

// revoke gives a lease back, however long the store is away: it lets leases live for another TTL when
// it returns. When the node ends, it tries for a little longer.
func (r *Runner) revoke(ctx context.Context, lease store.Lease) {
	until, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.timeout, cancel) })()
	for until.Err() == nil {
		attempt, done := context.WithTimeout(until, r.timeout)
		err := r.store.Revoke(attempt, lease)
		done()
		if err == nil || errors.Is(err, store.ErrClosed) {
			return
		}
		select {
		case <-until.Done():
		case <-time.After(revokeAgain):
		}
	}
}

const revokeAgain = 100 * time.Millisecond

// watch replaces the watch by another.
func (r *Runner) watch(ctx context.Context, e protocol.Effect) {
	r.stopWatch()
	ctx, r.stopWatch = context.WithCancel(ctx)
	r.work.Go(func() {
		w := r.store.Watch(ctx, "", e.After)
		defer w.Close()
		for {
			batch, err := w.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				r.put(protocol.Input{Kind: protocol.InputWatchEnded, Watch: e.Watch, Compacted: errors.Is(err, store.ErrCompacted)})
				return
			}
			r.put(protocol.Input{Kind: protocol.InputBatch, Watch: e.Watch, Batch: batch})
		}
	})
}
