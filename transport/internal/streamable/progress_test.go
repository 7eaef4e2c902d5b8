package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestProgress: in the stream of the answer, or in the standalone one.
func TestProgress(t *testing.T) {
	const steps = 50
	note := func(token json.RawMessage, step int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, step)
	}
	token := func(id json.RawMessage) json.RawMessage { return id } // it is the id
	hear := func(t *testing.T, s *httpServer) []mcpvisor.Progress {
		session := openSession(t, specFor(s.URL))
		var heard []mcpvisor.Progress
		raw, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(r mcpvisor.Progress) { heard = append(heard, r) }})
		require.NoError(t, err)
		require.JSONEq(t, `{"done":true}`, string(raw))
		return heard
	}
	t.Run("beside the answer", func(t *testing.T) {
		s := newHTTPServer(t)
		s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := range steps {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", note(token(id), step))
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"done\":true}}\n\n", id)
		})
		heard := hear(t, s)
		require.Len(t, heard, steps)
		for step, r := range heard {
			require.InDelta(t, step, r.Progress, 0)
		}
	})
	t.Run("in the standalone stream", func(t *testing.T) {
		s := newHTTPServer(t)
		notes, told := make(chan string, steps), make(chan struct{})
		s.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for range steps {
				select {
				case text := <-notes:
					_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
				case <-r.Context().Done():
					return
				}
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			for step := range steps {
				notes <- note(token(id), step)
			}
			select {
			case <-told:
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"done":true}}`, id)
		})
		session := openSession(t, specFor(s.URL))
		heard := 0
		_, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(mcpvisor.Progress) {
				if heard++; heard == steps {
					close(told) // only then the server answers
				}
			}})
		require.NoError(t, err)
	})
	t.Run("keeps a call alive", func(t *testing.T) {
		s := newHTTPServer(t)
		s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := 0; ; step++ { // for ever, and never an answer
				if _, err := fmt.Fprintf(w, "data: %s\n\n", note(token(id), step)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		})
		session := openSession(t, specFor(s.URL))
		start := time.Now()
		_, err := session.Request(context.Background(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: 300 * time.Millisecond, TotalTimeout: 900 * time.Millisecond})
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.KindTimeout, e.Kind)
		require.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond)
	})
}
