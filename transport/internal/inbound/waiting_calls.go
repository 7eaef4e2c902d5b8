package inbound

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/transport"
)

// WaitingCalls are the calls of a session between two round trips: their handlers get the
// input that the server requires, and no request table has them. The zero value is empty.
// Safe for concurrent use.
type WaitingCalls struct {
	mu    sync.Mutex
	calls map[*transport.InFlight]struct{} // guarded by mu; what they point to does not change
}

func (w *WaitingCalls) add(call *transport.InFlight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*transport.InFlight]struct{}{}
	}
	w.calls[call] = struct{}{}
}

func (w *WaitingCalls) remove(call *transport.InFlight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, call)
}

// AppendTo appends the calls to all, in no order.
func (w *WaitingCalls) AppendTo(all []transport.InFlight) []transport.InFlight {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call := range w.calls {
		all = append(all, *call)
	}
	return all
}
