package events

import (
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// maxHistoryBytes is how much memory the kept events may take: those about the life of
// servers, and again those that servers sent.
const maxHistoryBytes = 4 << 20

// history keeps the latest events. What servers sent is kept apart, so that a server that
// sends much does not displace the restarts of another. The mutex of the hub guards it.
type history struct {
	supervisionEvents, serverEvents ring
}

// add keeps a numbered event.
func (h *history) add(e mcpvisor.Event) {
	if e.Kind.FromServer() {
		h.serverEvents.add(e)
	} else {
		h.supervisionEvents.add(e)
	}
}

// after returns the events with a higher Seq than seq, in order.
func (h *history) after(seq uint64) []mcpvisor.Event {
	events := append(h.supervisionEvents.after(seq), h.serverEvents.after(seq)...)
	slices.SortFunc(events, func(a, b mcpvisor.Event) int { return int(int64(a.Seq - b.Seq)) })
	return events
}

// ring holds the latest events of one sort: at most 1000, and
// maxHistoryBytes unless one event alone is larger.
type ring struct {
	events []queuedEvent // grows to its limit, and is overwritten then
	first  int           // index of the oldest event
	count  int
	bytes  int
}

func (r *ring) add(e mcpvisor.Event) {
	size := bytesOf(&e)
	for r.count > 0 && r.bytes+size > maxHistoryBytes {
		r.dropOldest()
	}
	if r.count == len(r.events) {
		if r.count < retention.Events {
			r.grow()
		} else {
			r.dropOldest()
		}
	}
	*r.at(r.count) = queuedEvent{e, size}
	r.count++
	r.bytes += size
}

// at returns the place of event number i, from the oldest.
func (r *ring) at(i int) *queuedEvent { return &r.events[(r.first+i)%len(r.events)] }

func (r *ring) dropOldest() {
	oldest := r.at(0)
	r.bytes -= oldest.bytes
	*oldest = queuedEvent{}
	r.first = (r.first + 1) % len(r.events)
	r.count--
}

// grow makes room for more events. It moves the oldest to the front.
func (r *ring) grow() {
	larger := make([]queuedEvent, min(max(2*len(r.events), 8), retention.Events))
	for i := range r.count {
		larger[i] = *r.at(i)
	}
	r.events, r.first = larger, 0
}

// after returns the events with a higher Seq than seq, in order.
func (r *ring) after(seq uint64) (events []mcpvisor.Event) {
	for i := range r.count {
		if e := r.at(i); e.Seq > seq {
			events = append(events, e.Event)
		}
	}
	return events
}
