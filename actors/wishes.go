package actors

import (
	"maps"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor/messages"
)

// wishes is what the host wants of one server for as long as it is registered:
// the resources that it subscribes to, and the least severity of what is logged.
// Every incarnation is told anew, before it is ready.
type wishes struct {
	mu    sync.Mutex
	level string
	uris  map[string]bool
}

// wishes finds those of one registration. The manager makes them; when that is
// gone, what is wished is of no consequence.
func (rt *Runtime) wishes(gen uint64) *wishes {
	if w, ok := rt.wished.Load(gen); ok {
		return w.(*wishes)
	}
	return newWishes()
}

func newWishes() *wishes { return &wishes{uris: map[string]bool{}} }

// subscribe adds a resource, or takes it away. It reports whether that is new.
func (w *wishes) subscribe(uri string, on bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris[uri] == on {
		return false
	}
	if on {
		w.uris[uri] = true
	} else {
		delete(w.uris, uri)
	}
	return true
}

func (w *wishes) setLevel(level string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level = level
}

// now is what is wished at the moment, in order.
func (w *wishes) now() (level string, uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.level, slices.Sorted(maps.Keys(w.uris))
}

// logLevel is what a request to a modern server carries. It is read at every
// call, so it takes no lock where nothing was ever wished.
func (i *incarnation) logLevel() string {
	if level := i.level.Load(); level != nil {
		return *level
	}
	return ""
}

// wish tells a port that the wishes have changed. The reply is nil when the
// server has accepted them.
type wish struct {
	messages.Letter
	reply chan<- error
}
