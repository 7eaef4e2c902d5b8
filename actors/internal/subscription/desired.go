package subscription

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Desired is what the host wants to receive from one server for as long as that is
// registered: the resources it subscribes to, and the log level. Each change
// increments the version; a session compares it with the version that it has
// applied. Safe for concurrent use.
type Desired struct {
	level atomic.Pointer[string] // read by every call, without the lock; nil: not set

	mu      sync.Mutex
	version uint64
	uris    map[string]bool
}

// NewDesired returns a state in which nothing is desired.
func NewDesired() *Desired { return &Desired{uris: map[string]bool{}} }

// SetResource adds a resource (on) or removes it.
func (d *Desired) SetResource(uri string, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uris[uri] == on {
		return
	}
	d.version++
	if on {
		d.uris[uri] = true
	} else {
		delete(d.uris, uri)
	}
}

// SetLevel sets the least severity of the log messages to receive.
func (d *Desired) SetLevel(level string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version++
	d.level.Store(&level)
}

// revertLevel replaces a rejected level by the one that was accepted last, unless
// another level has been set meanwhile.
func (d *Desired) revertLevel(rejected, accepted string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.LogLevel() == rejected {
		d.version++
		d.level.Store(&accepted)
	}
}

// contains reports whether a resource is desired.
func (d *Desired) contains(uri string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uris[uri]
}

// Snapshot returns the desired state at this moment; the URIs are sorted.
func (d *Desired) Snapshot() (level string, uris []string, version uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.LogLevel(), slices.Sorted(maps.Keys(d.uris)), d.version
}

// ChangedSince reports whether the version differs from the given one.
func (d *Desired) ChangedSince(version uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version != version
}

// LogLevel is the desired log level, or empty. Requests to servers of 2026-07-28
// carry it, so it takes no lock.
func (d *Desired) LogLevel() string {
	if level := d.level.Load(); level != nil {
		return *level
	}
	return ""
}
