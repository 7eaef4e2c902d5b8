package events

import (
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// maxHistoryBytes is how much memory the kept events may take: those about the life of
// servers, and again those that servers sent.
const maxHistoryBytes = 4 << 20

// history keeps the latest events: of each sort at most 1000, and maxHistoryBytes unless one
// event alone is larger. What servers sent is kept apart, so that a server that
// sends much does not displace the restarts of another. The mutex of the hub guards it.
type history struct {
	supervisionEvents, serverEvents eventQueue
}

// add keeps a numbered event.
func (h *history) add(e mcpvisor.Event) {
	q, size := &h.supervisionEvents, bytesOf(&e)
	if e.Kind.FromServer() {
		q = &h.serverEvents
	}
	for len(q.events) == retention.Events || len(q.events) > 0 && q.bytes+size > maxHistoryBytes {
		q.pop()
	}
	q.push(e, size)
}

// after returns the events with a higher Seq than seq, in order.
func (h *history) after(seq uint64) (events []mcpvisor.Event) {
	for _, q := range []*eventQueue{&h.supervisionEvents, &h.serverEvents} {
		for i := range q.events {
			if q.events[i].Seq > seq {
				events = append(events, q.events[i].Event)
			}
		}
	}
	slices.SortFunc(events, func(a, b mcpvisor.Event) int { return int(int64(a.Seq - b.Seq)) })
	return events
}

// eventQueue holds events, the oldest first.
type eventQueue struct {
	events []queuedEvent
	bytes  int
}

// queuedEvent is an event that waits or is kept, with its size at the time of publication: other
// watchers hold the same event, and may change what it points to.
type queuedEvent struct {
	mcpvisor.Event
	bytes int
}

func (q *eventQueue) push(e mcpvisor.Event, bytes int) {
	q.events = append(q.events, queuedEvent{e, bytes})
	q.bytes += bytes
}

// pop removes the oldest event.
func (q *eventQueue) pop() mcpvisor.Event {
	first := q.events[0]
	q.events[0] = queuedEvent{} // the array stays until the queue grows
	q.events = q.events[1:]
	q.bytes -= first.bytes
	return first.Event
}
