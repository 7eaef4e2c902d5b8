package stdio

import (
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// progressed takes a progress notification about a request of the call lane.
func (w *wire) progressed(params []byte) {
	token, report, ok := jsonrpc.ReadProgress(params, w.notices)
	if !ok {
		w.noise.Malformed.Add(1)
		return
	}
	w.mu.Lock()
	p := w.pending[token]
	if p == nil || p.state == queued {
		w.mu.Unlock()
		w.noise.Unmatched.Add(1)
		return
	}
	if !p.deadline.IsZero() {
		p.deadline = p.clocks.Progressed(time.Now())
	}
	to := p.news
	w.mu.Unlock()
	if to != nil && !to.Push(report) {
		w.noise.Dropped.Add(1)
	}
}
