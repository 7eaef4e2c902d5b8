package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/bridge"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
)

const (
	// DrainTimeout bounds how long calls in flight may take before their servers are ended.
	DrainTimeout = 30 * time.Second
	// drainPoll is the pause between two looks at them.
	drainPoll = 20 * time.Millisecond
)

// postHandOver makes a run that ends when it is unused end for another one. It refuses new sessions, and hosts leave the
// open ones as soon as their requests are answered. What is in flight after DrainTimeout is cut off.
func (h *Handler) postHandOver(w http.ResponseWriter, r *http.Request) {
	s := h.sessions
	s.mu.Lock()
	end, again := s.end, s.closed || s.draining.Err() != nil
	if end != nil && !again {
		s.drain()
		s.wg.Go(func() {
			for until := time.Now().Add(DrainTimeout); time.Now().Before(until) && s.inFlight() && backoff.Sleep(s.ctx, drainPoll) == nil; {
			}
			end()
		})
	}
	s.mu.Unlock()
	if end == nil {
		http.Error(w, "this run does not end for another one", http.StatusConflict)
		return
	}
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(struct{}{}) })
}

// inFlight reports whether a session is open, or a call is in flight.
func (s *sessions) inFlight() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || len(s.client.CallsInFlight()) > 0
}

// drainWriter writes the messages of a session, in any number of pieces, and between two of them that it drains.
type drainWriter struct {
	net.Conn
	draining context.Context

	mu     sync.Mutex // locked while bytes are written; guards the fields below
	within bool       // the last byte does not end a message
	told   bool
}

// Write implements io.Writer. Without bytes it writes only the notice, if it is time.
func (w *drainWriter) Write(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b) > 0 {
		n, err = w.Conn.Write(b)
		w.within = b[len(b)-1] != '\n'
	}
	if w.draining.Err() != nil && !w.within && !w.told {
		w.told = true
		_, _ = io.WriteString(w.Conn, `{"jsonrpc":"2.0","method":"`+bridge.DrainMethod+`"}`+"\n") // an error ends the session
	}
	return n, err
}
