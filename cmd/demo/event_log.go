package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// eventLog prints supervision events as they arrive, and keeps them. It is safe for
// concurrent use.
type eventLog struct {
	p      *printer
	failed string // why the last start has failed that was printed; owned by the goroutine that prints

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
		if !ev.Cause.Asked() {
			failed := ""
			if ev.FailedCalls > 0 {
				failed = fmt.Sprintf("%d in flight failed at once · ", ev.FailedCalls)
			}
			l.p.printFact(red, "down", ev.Server, "%s · %stools withdrawn", ev.Cause, failed)
		}
	case mcpvisor.EventRetry:
		l.p.printFact(yellow, "retry", ev.Server, "%d/%d in %v", ev.Attempt, ev.MaxAttempts, ev.Delay)
	case mcpvisor.EventStartFailed:
		text := ev.Cause.Describe()
		if text == l.failed {
			text = "the same again"
		}
		l.failed = ev.Cause.Describe()
		l.p.printFact(red, "failed", ev.Server, "✗ %s", text)
	case mcpvisor.EventReady:
		more := ""
		if ev.PID != 0 {
			more = fmt.Sprintf(" · pid %d", ev.PID)
		}
		if ev.Epoch > 1 {
			more += fmt.Sprintf(" · incarnation %d · down for %s", ev.Epoch, roundedDuration(ev.Downtime))
		}
		l.p.printFact(green, "ready", ev.Server, "%d tools · protocol %s%s", ev.Tools, ev.Protocol, more)
	case mcpvisor.EventEvicted:
		l.p.printFact(red, "evict", ev.Server, "✗ given up, according to its policy")
	default:
	}
}

// await waits until an event of a server was printed: one of a kind, about an incarnation. What is printed next comes
// after it. It fails if the server is evicted before, and when ctx or the watch ends.
func (l *eventLog) await(ctx context.Context, server string, kind mcpvisor.EventKind, epoch uint64) error {
	for {
		l.mu.Lock()
		events, next := l.events, l.next
		l.mu.Unlock()
		for _, ev := range events {
			switch {
			case ev.Server != server:
			case ev.Kind == kind && ev.Epoch == epoch:
				return nil
			case ev.Kind == mcpvisor.EventEvicted:
				return fmt.Errorf("%s was evicted before incarnation %d was %s: %w", server, epoch, kind, ev.Cause)
			}
		}
		select {
		case <-next:
		case <-l.done:
			return errors.New("the events have ended")
		case <-ctx.Done():
			return fmt.Errorf("waiting for incarnation %d of %s to be %s: %w", epoch, server, kind, context.Cause(ctx))
		}
	}
}

// all returns a copy of the events so far.
func (l *eventLog) all() []mcpvisor.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}
