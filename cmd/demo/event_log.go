package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// eventLog prints supervision events as they arrive, and keeps them. It is safe for
// concurrent use.
type eventLog struct {
	p *printer
	// told is the cause that was printed last, by server. A cause is printed once as long as a
	// server does not become ready. Owned by the goroutine that prints.
	told map[string]string

	mu     sync.Mutex
	events []mcpvisor.Event
	next   chan struct{} // closed at the next event
	done   chan struct{} // closed when the watch ends
}

func newEventLog(p *printer, events <-chan mcpvisor.Event) *eventLog {
	l := &eventLog{p: p, told: map[string]string{}, next: make(chan struct{}), done: make(chan struct{})}
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
			l.told[ev.Server] = ev.Cause.Describe()
		}
	case mcpvisor.EventRetry:
		l.p.printFact(yellow, "retry", ev.Server, "%d/%d in %v", ev.Attempt, ev.MaxAttempts, ev.Delay)
	case mcpvisor.EventStartFailed:
		l.p.printFact(red, "failed", ev.Server, "✗ %s", l.why(ev, "the same again"))
	case mcpvisor.EventReady:
		delete(l.told, ev.Server)
		again := ""
		if ev.Epoch > 1 {
			again = fmt.Sprintf(" · incarnation %d · down for %s", ev.Epoch, roundedDuration(ev.Downtime))
		}
		pid := ""
		if ev.PID != 0 {
			pid = fmt.Sprintf(" · pid %d", ev.PID)
		}
		l.p.printFact(green, "ready", ev.Server, "%d tools · protocol %s%s%s", ev.Tools, ev.Protocol, pid, again)
	case mcpvisor.EventEvicted:
		why := l.why(ev, "")
		if why != "" {
			why += " · "
		}
		l.p.printFact(red, "evict", ev.Server, "✗ %sgiven up, according to its policy", why)
	case mcpvisor.EventMissed:
		l.p.printFact(red, "missed", "", "%d events", ev.Missed)
	default:
	}
}

// why describes the cause of an event, or returns same if that was printed last.
func (l *eventLog) why(ev mcpvisor.Event, same string) string {
	text := ev.Cause.Describe()
	if l.told[ev.Server] == text {
		return same
	}
	l.told[ev.Server] = text
	return text
}

// awaitPrinted waits until an event of a server was printed, so that what is printed next comes
// after it. It gives up when ctx or the watch ends.
func (l *eventLog) awaitPrinted(ctx context.Context, server string, kind mcpvisor.EventKind, epoch uint64) {
	for {
		l.mu.Lock()
		found := filterEvents(l.events, server, kind)
		next := l.next
		l.mu.Unlock()
		if slices.ContainsFunc(found, func(ev mcpvisor.Event) bool { return ev.Epoch >= epoch }) {
			return
		}
		select {
		case <-next:
		case <-l.done:
			return
		case <-ctx.Done():
			return
		}
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
