package mcpvisor

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// JournalLocks are the keys of a [Journal] that are locked or held. A store that embeds them has
// Lock and Hold. The zero value is ready. Safe for concurrent use.
type JournalLocks struct {
	mu     sync.Mutex                   // guards the fields below
	locked map[JournalKey]chan struct{} // closed when the key is unlocked
	held   map[JournalKey]int           // by how many
}

// Lock implements [Journal].
func (l *JournalLocks) Lock(ctx context.Context, key JournalKey) (unlock func(), err error) {
	for {
		l.mu.Lock()
		other := l.locked[key]
		if other == nil {
			own := make(chan struct{})
			if l.locked == nil {
				l.locked = map[JournalKey]chan struct{}{}
			}
			l.locked[key] = own
			l.mu.Unlock()
			return sync.OnceFunc(func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.locked, key)
				close(own)
			}), nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Hold implements [Journal].
func (l *JournalLocks) Hold(key JournalKey) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[JournalKey]int{}
	}
	l.held[key]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[key]--; l.held[key] == 0 {
			delete(l.held, key)
		}
	})
}

// Held reports whether a key is held.
func (l *JournalLocks) Held(key JournalKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key] > 0
}

// Open reports whether a key is locked or held, so that its entry must not expire.
func (l *JournalLocks) Open(key JournalKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locked[key] != nil || l.held[key] > 0
}

// OpenKeys returns the keys that are locked or held.
func (l *JournalLocks) OpenKeys() []JournalKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Collect(maps.Keys(l.held))
	for key := range l.locked {
		if l.held[key] == 0 {
			all = append(all, key)
		}
	}
	return all
}
