// Package guards keeps a guard (package guard) for each life of a node.
package guards

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Guards are the guards of a node, one for each of its lives. Safe for concurrent use.
type Guards struct {
	ticket      func(store.Lease) ([]byte, error) // nil: the node has no guard
	ready, lost func()

	mu       sync.Mutex
	lease    store.Lease // of the present life; 0: none. Guarded by mu, as the fields below
	deadline time.Duration
	guard    *guard.Guard
	starting bool
	err      error // why the node has no guard
	work     sync.WaitGroup
	closed   bool
}

// New makes the guards of a node. ticket makes the ticket that the guard of a life gets; if it is nil, the node has no
// guards. ready is called when there is a guard, after there was none, or when none could be started. lost is called
// when the guard of the present life is gone: the life must end.
func New(ticket func(store.Lease) ([]byte, error), ready, lost func()) *Guards {
	return &Guards{ticket: ticket, ready: ready, lost: lost}
}

// Exist reports whether the node has guards.
func (g *Guards) Exist() bool { return g.ticket != nil }

// SetDeadline says until when the life of a lease is in force.
func (g *Guards) SetDeadline(lease store.Lease, deadline time.Duration) {
	if g.ticket == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if lease == 0 || deadline == 0 { // the life is over; its guard stays until the next one begins
		return
	}
	if lease != g.lease {
		if g.guard != nil {
			g.work.Go(g.guard.Close) // its servers have ended, or the lease would not have been given back
		}
		g.guard, g.lease = nil, lease
	}
	g.deadline = deadline
	if g.guard != nil {
		g.guard.SetDeadline(deadline)
		return
	}
	g.startLocked()
}

func (g *Guards) startLocked() {
	if g.starting || g.closed {
		return
	}
	g.starting = true
	g.work.Go(g.start)
}

// start starts the guard of the present life.
func (g *Guards) start() {
	g.mu.Lock()
	lease, deadline := g.lease, g.deadline
	g.mu.Unlock()
	ticket, err := g.ticket(lease)
	var made *guard.Guard
	if err == nil {
		made, err = guard.Start(context.Background(), guard.Config{Ticket: ticket, Deadline: deadline, OnLost: func(error) { g.Lost(lease) }})
	}
	g.mu.Lock()
	g.starting, g.err = false, err
	switch {
	case err != nil:
	case g.closed || lease != g.lease:
		g.work.Go(made.Close)
		if !g.closed {
			g.startLocked()
		}
		made = nil
	default:
		g.guard = made
		made.SetDeadline(g.deadline)
	}
	g.mu.Unlock()
	if made != nil || err != nil {
		g.ready()
	}
}

// Lost follows the end of a guard that could not be replaced.
func (g *Guards) Lost(lease store.Lease) {
	g.mu.Lock()
	lost := g.lease == lease && g.guard != nil && !g.closed
	if lost {
		g.work.Go(g.guard.Close)
		g.guard = nil
	}
	g.mu.Unlock()
	if lost {
		g.lost()
	}
}

// Current returns the guard of the present life. nil, nil: it is being started.
func (g *Guards) Current() (*guard.Guard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.guard == nil && g.err != nil {
		return nil, fmt.Errorf("the guard cannot be started: %w", g.err)
	}
	return g.guard, nil
}

// Close ends the guard when the node has ended its servers. If it has not, the guard stays: it ends them
// when the deadline has come or this process ends, and then gives the lease back.
func (g *Guards) Close(ended bool) {
	g.mu.Lock()
	g.closed = true
	if g.guard != nil && ended {
		g.work.Go(g.guard.Close)
		g.guard = nil
	}
	g.mu.Unlock()
	g.work.Wait()
}
