package events

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

const (
	// maxEvents is how many events wait for one watcher. Beyond it the oldest are
	// dropped, and the watcher receives their number.
	maxEvents = 1024
	// maxBytes is how much memory the events that wait for one watcher may take.
	maxBytes = 8 << 20
	// maxServerEvents is how many of the waiting events may come from servers: a server
	// that sends too many must not displace the supervision events of another.
	maxServerEvents = maxEvents / 2
)

// watcher is the queue of one watch. mu guards all fields but wake and kinds.
type watcher struct {
	mu sync.Mutex
	// supervisionEvents are about the life of servers. serverEvents were sent by
	// servers (log lines, resource updates); they wait apart, and are dropped first.
	supervisionEvents, serverEvents eventQueue
	missed                          uint64 // dropped since the watcher last received their number
	slow                            uint64 // dropped because the watcher was slow, all together
	ended                           bool
	wake                            chan struct{} // buffered: one signal may wait
	// kinds are what the watcher receives; an empty list means all. It does not change.
	kinds []mcpvisor.EventKind
}

func newWatcher(kinds ...mcpvisor.EventKind) *watcher {
	return &watcher{wake: make(chan struct{}, 1), kinds: slices.Clone(kinds)}
}

// enqueue adds an event, and drops older ones if there is no room. An event of a kind
// that the watcher did not ask for takes no room and displaces no other.
func (w *watcher) enqueue(e mcpvisor.Event) {
	if len(w.kinds) > 0 && !slices.Contains(w.kinds, e.Kind) {
		return
	}
	defer w.signal()
	w.mu.Lock()
	defer w.mu.Unlock()
	supervision, server := &w.supervisionEvents, &w.serverEvents
	queue, limit := supervision, maxEvents
	if e.Kind.FromServer() {
		queue, limit = server, maxServerEvents
	}
	size := bytesOf(&e)
	for supervision.bytes+server.bytes+size > maxBytes && len(supervision.events)+len(server.events) > 0 {
		if len(server.events) > 0 {
			w.drop(server)
		} else {
			w.drop(supervision)
		}
	}
	full := len(supervision.events)+len(server.events) >= maxEvents
	switch {
	case full && len(server.events) > 0:
		w.drop(server)
	case len(queue.events) >= limit:
		w.drop(queue)
	case full: // of supervision events, and this is a server event
		w.missed++
		w.slow++
		return
	}
	queue.push(e, size)
}

// eventSize and stringHeader are the bytes of an event, and of a string without its text.
var (
	eventSize    = int(reflect.TypeFor[mcpvisor.Event]().Size())
	stringHeader = int(reflect.TypeFor[string]().Size())
)

// bytesOf estimates the memory of an event and of what it points to. Parts that
// several events share count for each of them.
func bytesOf(e *mcpvisor.Event) int {
	n := eventSize + len(e.URI) + changeSize(e.Change)
	if e.Log != nil {
		n += len(e.Log.Logger) + len(e.Log.Text)
	}
	if e.Cause != nil {
		n += len(e.Cause.Message)
		if err := e.Cause.Err; err != nil {
			n += len(err.Error()) + errorData
		}
		for _, line := range e.Cause.Stderr {
			n += len(line) + stringHeader
		}
	}
	return n
}

// errorData is how many bytes of data the error of a cause may hold beside its text; see
// transport.KeptError.
const errorData = 1 << 10

// drop makes room: it removes the oldest event of a queue and counts it.
func (w *watcher) drop(queue *eventQueue) {
	queue.pop()
	w.missed++
	w.slow++
}

// totalMissed is how many events the watcher has lost because it was slow.
func (w *watcher) totalMissed() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end lets the watch end after what waits has been delivered.
func (w *watcher) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.signal()
}

// next returns the oldest event that waits, but first the number of dropped ones. ok
// is false when nothing waits; ended is true when nothing will.
func (w *watcher) next() (e mcpvisor.Event, ok, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch supervision, server := w.supervisionEvents.events, w.serverEvents.events; {
	case w.missed > 0:
		e = mcpvisor.Event{Kind: mcpvisor.EventMissed, Time: time.Now(), Missed: w.missed}
		w.missed = 0
	case len(supervision) > 0 && (len(server) == 0 || supervision[0].Seq <= server[0].Seq): // in the order of publication
		e = w.supervisionEvents.pop()
	case len(server) > 0:
		e = w.serverEvents.pop()
	default:
		w.supervisionEvents, w.serverEvents = eventQueue{}, eventQueue{}
		return e, false, w.ended
	}
	return e, true, false
}

// deliver sends events until ctx ends, or until the watcher has ended and its queues
// are empty.
func (w *watcher) deliver(ctx context.Context, out chan<- mcpvisor.Event) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		for {
			e, ok, ended := w.next()
			if ended {
				return
			}
			if !ok {
				break
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}

// changeSize is the approximate memory, in bytes, that the names of a change take.
func changeSize(c *mcpvisor.Change) (n int) {
	if c == nil {
		return 0
	}
	for _, d := range []*mcpvisor.Delta{&c.Tools, &c.Resources, &c.Templates, &c.Prompts} {
		for _, names := range [][]string{d.Added, d.Removed, d.Changed} {
			for _, name := range names {
				n += len(name) + stringHeader
			}
		}
	}
	return n
}
