package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// eventLog is every supervision event so far. It prints them as they come.
type eventLog struct {
	p *printer

	mu     sync.Mutex
	events []mcpvisor.Event
	next   chan struct{} // closed at the next event
	done   chan struct{}
}

func newEventLog(p *printer, events <-chan mcpvisor.Event) *eventLog {
	c := &eventLog{p: p, next: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for ev := range events {
			c.print(ev)
			c.mu.Lock()
			c.events = append(c.events, ev)
			close(c.next)
			c.next = make(chan struct{})
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *eventLog) print(ev mcpvisor.Event) {
	switch ev.Kind {
	case mcpvisor.EventDown:
		if ev.Cause.Kind != "requested" {
			failed := ""
			if ev.FailedCalls > 0 {
				failed = fmt.Sprintf("%d in flight failed at once · ", ev.FailedCalls)
			}
			c.p.printFact(red, "down", ev.Server, "%s · %stools withdrawn", ev.Cause, failed)
		}
	case mcpvisor.EventRetry:
		c.p.printFact(yellow, "retry", ev.Server, "%d/%d in %v", ev.Attempt, ev.MaxAttempts, ev.Delay)
	case mcpvisor.EventStartFailed:
		c.p.printFact(red, "failed", ev.Server, "✗ %s", ev.Cause.Describe())
	case mcpvisor.EventReady:
		again := ""
		if ev.Epoch > 1 {
			again = fmt.Sprintf(" · incarnation %d · down for %s", ev.Epoch, roundedDuration(ev.Downtime))
		}
		c.p.printFact(green, "ready", ev.Server, "%d tools · protocol %s · pid %d%s", ev.Tools, ev.Protocol, ev.PID, again)
	case mcpvisor.EventEvicted:
		c.p.printFact(red, "evict", ev.Server, "✗ %s · given up, as its policy says", ev.Cause)
	case mcpvisor.EventMissed:
		c.p.printFact(red, "missed", "", "%d events", ev.Missed)
	}
}

// await waits for an event of that kind about an incarnation of a server. It
// gives up if the server is evicted before.
func (c *eventLog) await(ctx context.Context, server string, kind mcpvisor.EventKind, epoch uint64) (mcpvisor.Event, error) {
	for {
		c.mu.Lock()
		found, evicted := filterEvents(c.events, server, kind), filterEvents(c.events, server, mcpvisor.EventEvicted)
		next := c.next
		c.mu.Unlock()
		for _, ev := range found {
			if ev.Epoch == epoch {
				return ev, nil
			}
		}
		if len(evicted) > 0 {
			return mcpvisor.Event{}, fmt.Errorf("%s was evicted before incarnation %d was %s: %w", server, epoch, kind, evicted[0].Cause)
		}
		select {
		case <-next:
		case <-c.done:
			return mcpvisor.Event{}, fmt.Errorf("the events ended before incarnation %d of %s was %s", epoch, server, kind)
		case <-ctx.Done():
			return mcpvisor.Event{}, fmt.Errorf("waiting for incarnation %d of %s to be %s: %w", epoch, server, kind, context.Cause(ctx))
		}
	}
}

// all is a copy of what has happened.
func (c *eventLog) all() []mcpvisor.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]mcpvisor.Event(nil), c.events...)
}

func (c *eventLog) count(server string, kind mcpvisor.EventKind) int {
	return len(filterEvents(c.all(), server, kind))
}

func filterEvents(events []mcpvisor.Event, server string, kind mcpvisor.EventKind) (found []mcpvisor.Event) {
	for _, ev := range events {
		if ev.Server == server && ev.Kind == kind {
			found = append(found, ev)
		}
	}
	return found
}
