package oauth

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// memoryStore keeps authorizations for as long as the process lives.
type memoryStore struct {
	mu    sync.Mutex
	held  map[mcpvisor.TokenKey]*mcpvisor.Authorization
	locks map[mcpvisor.TokenKey]chan struct{}
}

// NewMemoryStore returns a store that forgets at the end of the process.
func NewMemoryStore() mcpvisor.TokenStore {
	return &memoryStore{held: map[mcpvisor.TokenKey]*mcpvisor.Authorization{}, locks: map[mcpvisor.TokenKey]chan struct{}{}}
}

// Load implements mcpvisor.TokenStore.
func (s *memoryStore) Load(_ context.Context, key mcpvisor.TokenKey) (*mcpvisor.Authorization, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key].Clone(), nil
}

// Save implements mcpvisor.TokenStore.
func (s *memoryStore) Save(_ context.Context, key mcpvisor.TokenKey, a *mcpvisor.Authorization) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key] = a.Clone()
	return nil
}

// Delete implements mcpvisor.TokenStore.
func (s *memoryStore) Delete(_ context.Context, key mcpvisor.TokenKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key)
	return nil
}

// Lock implements mcpvisor.TokenLocker, for registrations that share a store.
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
