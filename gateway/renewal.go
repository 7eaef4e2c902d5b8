package gateway

import (
	"context"

	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// renewal makes the subscriptions of a transport again at a registration of a server: the
// client's own belong to the registration and end with it.
type renewal struct {
	gen  uint64        // of the registration
	done chan struct{} // closed when every subscription stands or has failed
}

// renew subscribes again to what the sessions hold of a server that is ready, once for each
// of its registrations, and again if that has failed. It does not wait for the server: the
// channel is closed at the end.
func (s *subscriptions) renew(server string, gen uint64) (done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.renewals[server]; last != nil && last.gen >= gen {
		return last.done
	}
	made := &renewal{gen, make(chan struct{})}
	s.renewals[server] = made
	wanted := map[string]resource.Name{}
	for r := range s.sessions {
		if r.Server == server {
			wanted[r.URI] = r
			s.sessions[r]++ // so that its subscription ends after it was made
		}
	}
	if len(wanted) == 0 {
		close(made.done)
		return made.done
	}
	go func() {
		defer close(made.done)
		if len(s.subscribeAll(context.Background(), wanted)) < len(wanted) {
			s.forget(server, gen)
		}
		for _, r := range wanted {
			s.release(r, func() {})
		}
	}()
	return made.done
}

// forget drops the renewal at a registration, or at those before it.
func (s *subscriptions) forget(server string, gen uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.renewals[server]; last != nil && last.gen <= gen {
		delete(s.renewals, server)
	}
}
