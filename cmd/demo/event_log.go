package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
		if ev.Cause.Kind != supervisor.CauseRequested {
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
		more := ""
		if ev.PID != 0 {
			more = fmt.Sprintf(" · pid %d", ev.PID)
		}
		if ev.Epoch > 1 {
			more += fmt.Sprintf(" · incarnation %d · down for %s", ev.Epoch, roundedDuration(ev.Downtime))
		}
		l.p.printFact(green, "ready", ev.Server, "%d tools · protocol %s%s", ev.Tools, ev.Protocol, more)
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

// await waits for an event that matches, and was printed: what is printed next comes after it.
// It fails when ctx or the watch ends.
func (l *eventLog) await(ctx context.Context, matches func(mcpvisor.Event) bool) (mcpvisor.Event, error) {
	for {
		l.mu.Lock()
		events, next := l.events, l.next
		l.mu.Unlock()
		if i := slices.IndexFunc(events, matches); i >= 0 {
			return events[i], nil
		}
		select {
		case <-next:
		case <-l.done:
			return mcpvisor.Event{}, errors.New("the events have ended")
		case <-ctx.Done():
			return mcpvisor.Event{}, context.Cause(ctx)
		}
	}
}

// all returns a copy of the events so far.
func (l *eventLog) all() []mcpvisor.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}
