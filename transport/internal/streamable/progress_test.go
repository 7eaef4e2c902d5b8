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

// Progress arrives on the event stream of the answer or on the standalone stream, in order,
// and restarts the timeout of the call.
func TestProgress(t *testing.T) {
	const steps = 50
	note := func(token json.RawMessage, step int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, step)
	}
	token := func(id json.RawMessage) json.RawMessage { return id } // the progress token is the id
	callForReports := func(t *testing.T, s *httpServer) []mcpvisor.Progress {
		session := openSession(t, specFor(s.URL))
		var reports []mcpvisor.Progress
		raw, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(r mcpvisor.Progress) { reports = append(reports, r) }})
		require.NoError(t, err)
		require.JSONEq(t, `{"done":true}`, string(raw))
		return reports
	}
	t.Run("on the stream of the answer", func(t *testing.T) {
		s := newHTTPServer(t)
		s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := range steps {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", note(token(id), step))
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"done\":true}}\n\n", id)
		})
		reports := callForReports(t, s)
		require.Len(t, reports, steps)
		for step, r := range reports {
			require.InDelta(t, step, r.Progress, 0)
		}
	})
	t.Run("on the standalone stream", func(t *testing.T) {
		s := newHTTPServer(t)
		notes, delivered := make(chan string, steps), make(chan struct{})
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
			case <-delivered:
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"done":true}}`, id)
		})
		session := openSession(t, specFor(s.URL))
		reports := 0
		_, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(mcpvisor.Progress) {
				if reports++; reports == steps {
					close(delivered) // the server answers after this
				}
			}})
		require.NoError(t, err)
	})
	t.Run("keeps a call alive", func(t *testing.T) {
		s := newHTTPServer(t)
		s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := 0; ; step++ { // the server never answers
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

// If the Progress function of the caller panics, the panic reaches the caller, the request
// is canceled, and the exchange is removed from the table.
func TestProgress_callbackPanics(t *testing.T) {
	web := newHTTPServer(t)
	canceled := make(chan struct{})
	web.handle("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		close(canceled)
	})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", id)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	r := transporttest.ToolCall
	r.Track, r.Progress = true, func(mcpvisor.Progress) { panic("panic of the host") }
	require.PanicsWithValue(t, "panic of the host", func() { _, _ = s.Request(t.Context(), r) })
	transporttest.RequireClosed(t, canceled, "the server got no cancellation")
	require.Eventually(t, func() bool {
		s.exchanger.table.requests.Mu.Lock()
		defer s.exchanger.table.requests.Mu.Unlock()
		for e := range s.exchanger.table.requests.Open.All() {
			if e.ID > 0 {
				return false
			}
		}
		return true
	}, transporttest.Patience, transporttest.TimeStep)
}

// Control characters and secrets are removed from the message of a progress report.
func TestProgress_text(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		text, _ := json.Marshal(transporttest.ProgressText + r.Header.Get("X-Key"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%[1]s,"progress":1,"message":%[2]s}},{"jsonrpc":"2.0","id":%[1]s,"result":%[3]s}]`,
			id, text, helloResult)
	})
	s := openSession(t, secretSpec(web.Listener.Addr().String()))
	var message string
	_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Track: true, Params: json.RawMessage(`{}`),
		Progress: func(r mcpvisor.Progress) { message = r.Message }})
	require.NoError(t, err)
	require.Equal(t, "step [31mone of two with ***", message)
}
