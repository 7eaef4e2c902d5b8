package tokenstore

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// memoryStore keeps authorizations until the process ends.
type memoryStore struct {
	mu      sync.Mutex
	entries map[mcpvisor.TokenKey]*mcpvisor.Authorization // guarded by mu
	locks   map[mcpvisor.TokenKey]chan struct{}           // guarded by mu; each is a mutex as a channel
}

// NewMemory returns a store that loses its entries when the process ends.
func NewMemory() mcpvisor.TokenStore {
	return &memoryStore{entries: map[mcpvisor.TokenKey]*mcpvisor.Authorization{}, locks: map[mcpvisor.TokenKey]chan struct{}{}}
}

// Load implements mcpvisor.TokenStore.
func (s *memoryStore) Load(_ context.Context, key mcpvisor.TokenKey) (*mcpvisor.Authorization, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key].Clone(), nil
}

// Save implements mcpvisor.TokenStore.
func (s *memoryStore) Save(_ context.Context, key mcpvisor.TokenKey, a *mcpvisor.Authorization) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = a.Clone()
	return nil
}

// Delete implements mcpvisor.TokenStore.
func (s *memoryStore) Delete(_ context.Context, key mcpvisor.TokenKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	return nil
}

// Lock implements mcpvisor.TokenLocker, for registrations that share one store.
func (s *memoryStore) Lock(ctx context.Context, key mcpvisor.TokenKey) (unlock func(), err error) {
	s.mu.Lock()
	lock := s.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		s.locks[key] = lock
	}
	s.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
