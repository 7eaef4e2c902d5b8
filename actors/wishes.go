package actors

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// desiredSubscriptions is what the host wants of one server for as long as it is registered:
// the resources that it subscribes to, and the least severity of what is logged.
// Every incarnation compares the version with the one that it was told of.
type desiredSubscriptions struct {
	level atomic.Pointer[string] // read at every call; nil: none

	mu      sync.Mutex
	version uint64
	uris    map[string]bool
}

// desiredSubscriptions finds those of one registration. The manager makes them; when that is
// gone, what is wished is of no consequence.
func (rt *Runtime) desiredSubscriptions(gen uint64) *desiredSubscriptions {
	if w, ok := rt.desired.Load(gen); ok {
		return w.(*desiredSubscriptions)
	}
	return newDesiredSubscriptions()
}

func newDesiredSubscriptions() *desiredSubscriptions {
	return &desiredSubscriptions{uris: map[string]bool{}}
}

// set adds a resource, or takes it away.
func (w *desiredSubscriptions) set(uri string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris[uri] == on {
		return
	}
	w.version++
	if on {
		w.uris[uri] = true
	} else {
		delete(w.uris, uri)
	}
}

func (w *desiredSubscriptions) setLevel(level string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.level.Store(&level)
}

// revertLevel puts a level that was refused back to the one that was accepted
// last, unless somebody wishes for another meanwhile.
func (w *desiredSubscriptions) revertLevel(refused, accepted string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logLevel() == refused {
		w.version++
		w.level.Store(&accepted)
	}
}

func (w *desiredSubscriptions) contains(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uris[uri]
}

// snapshot is what is wished at the moment, in order.
func (w *desiredSubscriptions) snapshot() (level string, uris []string, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logLevel(), slices.Sorted(maps.Keys(w.uris)), w.version
}

// changedSince reports whether there is something to tell.
func (w *desiredSubscriptions) changedSince(version uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version != version
}

// logLevel is what a request to a modern server carries. It is read at every
// call, so it takes no lock.
func (w *desiredSubscriptions) logLevel() string {
	if level := w.level.Load(); level != nil {
		return *level
	}
	return ""
}
