package facade

import (
	"context"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// authorizers holds the authorizer of each server with OAuth, including servers whose
// Register failed because they need one. The dialers of registrations record them; the
// methods of Client look them up.
type authorizers struct {
	mu     sync.Mutex // guards all fields
	byName map[string]registeredAuthorizer
	// changed is closed and replaced at each change of byName; nil while nothing waits
	// for it.
	changed chan struct{}
	// cancels end the authorizations in progress. The pointers are the keys by which
	// each removes its own.
	cancels map[*context.CancelCauseFunc]struct{}
	closed  bool
}

// registeredAuthorizer is the authorizer of one registration, which is identified by
// its own copy of the spec. Authorizer is nil if it could not be made.
type registeredAuthorizer struct {
	transport.Authorizer
	spec *mcpvisor.HTTP
}

// changeSignal returns a channel that is closed at the next change.
func (s *authorizers) changeSignal() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// bindContext returns a context that also ends when the client is closed.
func (s *authorizers) bindContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		cancel(errClientClosed)
	}
	if s.cancels == nil {
		s.cancels = map[*context.CancelCauseFunc]struct{}{}
	}
	s.cancels[&cancel] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(s.cancels, &cancel)
		s.mu.Unlock()
		cancel(nil)
	}
}

// close ends the authorizations in progress and those that begin later.
func (s *authorizers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for cancel := range s.cancels {
		(*cancel)(errClientClosed)
	}
}

// maxAuthorizers is the number of authorizers above which those of servers that are no
// longer registered are dropped.
const maxAuthorizers = 256

// record stores the authorizer of a registration's dialer; d is nil if the dialer could
// not be made. isRegistered says whether a name is registered.
func (s *authorizers) record(spec mcpvisor.ServerSpec, d transport.Dialer, isRegistered func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]registeredAuthorizer{}
	}
	if len(s.byName) >= maxAuthorizers {
		for name := range s.byName {
			if !isRegistered(name) {
				delete(s.byName, name)
			}
		}
	}
	if spec.HTTP != nil && spec.HTTP.Auth != nil {
		a := transport.Authorization(d)
		transport.Inherit(a, s.byName[spec.Name].Authorizer) // an authorization URL that was handed out stays valid
		s.byName[spec.Name] = registeredAuthorizer{a, spec.HTTP}
	} else {
		delete(s.byName, spec.Name)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// lookup returns the authorizer that was recorded last for a name, and the spec of its
// registration.
func (s *authorizers) lookup(name string) (transport.Authorizer, *mcpvisor.HTTP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byName[name]
	return r.Authorizer, r.spec
}
