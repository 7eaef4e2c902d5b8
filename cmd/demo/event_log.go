package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// eventLog prints supervision events as they arrive, and keeps them. It is safe for
// concurrent use.
type eventLog struct {
	p *printer

	mu     sync.Mutex
	events []mcpvisor.Event
	next   chan struct{} // closed at the next event
	done   chan struct{} // closed when the watch ends
}

func newEventLog(p *printer, events <-chan mcpvisor.Event) *eventLog {
	l := &eventLog{p: p, next: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for ev := range events {
			l.print(ev)
			l.mu.Lock()
			l.events = append(l.events, ev)
			close(l.next)
			l.next = make(chan struct{})
			l.mu.Unlock()
		}
	}()
	return l
}

func (l *eventLog) print(ev mcpvisor.Event) {
	switch ev.Kind {
	case mcpvisor.EventDown:
		if ev.Cause.Kind != "requested" {
			failed := ""
			if ev.FailedCalls > 0 {
				failed = fmt.Sprintf("%d in flight failed at once · ", ev.FailedCalls)
			}
			l.p.printFact(red, "down", ev.Server, "%s · %stools withdrawn", ev.Cause, failed)
		}
	case mcpvisor.EventRetry:
		l.p.printFact(yellow, "retry", ev.Server, "%d/%d in %v", ev.Attempt, ev.MaxAttempts, ev.Delay)
	case mcpvisor.EventStartFailed:
		l.p.printFact(red, "failed", ev.Server, "✗ %s", ev.Cause.Describe())
	case mcpvisor.EventReady:
		again := ""
		if ev.Epoch > 1 {
			again = fmt.Sprintf(" · incarnation %d · down for %s", ev.Epoch, roundedDuration(ev.Downtime))
		}
		l.p.printFact(green, "ready", ev.Server, "%d tools · protocol %s · pid %d%s", ev.Tools, ev.Protocol, ev.PID, again)
	case mcpvisor.EventEvicted:
		l.p.printFact(red, "evict", ev.Server, "✗ %s · given up, according to its policy", ev.Cause)
	case mcpvisor.EventMissed:
		l.p.printFact(red, "missed", "", "%d events", ev.Missed)
	}
}

// await waits for an event of a kind about one incarnation of a server. It fails if
// the server is evicted before.
func (l *eventLog) await(ctx context.Context, server string, kind mcpvisor.EventKind, epoch uint64) (mcpvisor.Event, error) {
	for {
		l.mu.Lock()
		found, evicted := filterEvents(l.events, server, kind), filterEvents(l.events, server, mcpvisor.EventEvicted)
		next := l.next
		l.mu.Unlock()
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
		case <-l.done:
			return mcpvisor.Event{}, fmt.Errorf("the events ended before incarnation %d of %s was %s", epoch, server, kind)
		case <-ctx.Done():
			return mcpvisor.Event{}, fmt.Errorf("waiting for incarnation %d of %s to be %s: %w", epoch, server, kind, context.Cause(ctx))
		}
	}
}

// all returns a copy of the events so far.
func (l *eventLog) all() []mcpvisor.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]mcpvisor.Event(nil), l.events...)
}

func (l *eventLog) count(server string, kind mcpvisor.EventKind) int {
	return len(filterEvents(l.all(), server, kind))
}

func filterEvents(events []mcpvisor.Event, server string, kind mcpvisor.EventKind) (found []mcpvisor.Event) {
	for _, ev := range events {
		if ev.Server == server && ev.Kind == kind {
			found = append(found, ev)
		}
	}
	return found
}
