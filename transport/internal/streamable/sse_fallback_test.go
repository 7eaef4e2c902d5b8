package streamable

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newest returns the key of the exchange that began last and is not on the call channel.
func (t *exchangeTable) newest() int64 {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Newest()
}

// contains reports whether an exchange is in the table.
func (t *exchangeTable) contains(key int64) bool {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Open.Get(key) != nil
}

// The rejected POST may end while the event stream is being opened. That does not end the
// fallback.
func TestSSEFallback_refusalInPieces(t *testing.T) {
	web := newSSEServer(t)
	spec := specFor(web.URL + "/sse")
	spec.Era = mcpvisor.EraLegacy // no server/discover before it
	s := newTestDialer(spec).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	opening := make(chan struct{})
	var refused int64 // the exchange of the POST
	web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		refused = s.exchanger.table.newest()
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}`)
		w.(http.Flusher).Flush()
		select {
		case <-opening:
		case <-web.quit:
		}
	})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(opening)
		for s.exchanger.table.contains(refused) { // until the rest of the POST was read
			select {
			case <-time.After(time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		web.stream(w, r)
	})
	require.NoError(t, s.Open(transporttest.Context(t)))
	requireServing(t, s)
}

// If both the POST and the event stream are rejected, the cause is the error that explains
// more.
func TestSSEFallback_errorOfStream(t *testing.T) {
	for name, row := range map[string]struct {
		post, get int
		want      string
		kind      supervisor.CauseKind
	}{
		"405, then 401": {405, 401, "HTTP 401", supervisor.CauseAuth},
		"404, then 401": {404, 401, "HTTP 401", supervisor.CauseAuth},
		"404, then 403": {404, 403, "HTTP 403", supervisor.CauseAuth},
		"405, then 429": {405, 429, "HTTP 429", supervisor.CauseHandshake},
		"405, then 502": {405, 502, "HTTP 502", supervisor.CauseHandshake},
		"404, then 503": {404, 503, "HTTP 503", supervisor.CauseHandshake},
		"404, then 504": {404, 504, "HTTP 504", supervisor.CauseHandshake},
		"400, then 401": {400, 401, "HTTP 400", supervisor.CauseHandshake},
		"400, then 503": {400, 503, "HTTP 400", supervisor.CauseHandshake},
		"405, then 404": {405, 404, "HTTP 405", supervisor.CauseHandshake},
		"405, then 500": {405, 500, "HTTP 405", supervisor.CauseHandshake},
		"404, then 200": {404, 200, "HTTP 404", supervisor.CauseHandshake},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(row.post) })
			web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(row.get)
			})
			cause := requireOpenFails(t, specFor(web.URL+"/sse"))
			require.Contains(t, cause.Message, row.want)
			require.Equal(t, row.kind, cause.Kind)
			if row.get == http.StatusTooManyRequests {
				require.Equal(t, 7*time.Second, cause.RetryAfter)
			}
		})
	}
}

// A session falls back to HTTP+SSE when initialize over Streamable HTTP is rejected with
// 400, 404 or 405, and the dialer remembers it.
func TestSSEFallback(t *testing.T) {
	t.Run("remembered", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		for range 2 {
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(transporttest.Context(t)))
			requireServing(t, s)
		}
		require.Len(t, web.requests("POST"), 2, "server/discover and initialize, refused once each")
		require.Len(t, web.requests("GET"), 2)
		require.Len(t, web.requests("initialize"), 2)
		require.Len(t, web.requests("notifications/initialized"), 2)
		require.Empty(t, web.requests("DELETE"))
	})
	for _, status := range []int{400, 404, 405} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(status)
				if status == 400 { // a JSON-RPC error without an id
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
				}
			})
			requireServing(t, openSession(t, specFor(web.URL+"/sse")))
		})
	}
	for _, status := range []int{401, 500, 503} {
		t.Run("not after "+http.StatusText(status), func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(status) })
			requireOpenFails(t, specFor(web.URL+"/sse"))
			require.Empty(t, web.requests("GET"))
		})
	}
	t.Run("POST error kept without a stream", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) })
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("POST error kept without an endpoint event", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)("data: {}\n\n")
			<-r.Context().Done()
		})
		cause := requireOpenFails(t, specFor(web.URL+"/sse"))
		require.Contains(t, cause.Message, "HTTP 405")
	})
	t.Run("bounded by Negotiate", func(t *testing.T) {
		web := newSSEServer(t)
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)
			<-r.Context().Done()
		})
		spec := specFor(web.URL + "/sse")
		spec.Timeouts.Negotiate = 50 * time.Millisecond
		require.Contains(t, requireOpenFails(t, spec).Message, "HTTP 405")
	})
	t.Run("not in the modern era", func(t *testing.T) {
		web := newSSEServer(t)
		spec := specFor(web.URL + "/sse")
		spec.Era = mcpvisor.EraModern
		requireOpenFails(t, spec)
		require.Empty(t, web.requests("GET"))
	})
	t.Run("forgotten after a failed start", func(t *testing.T) {
		web := newSSEServer(t)
		d := newTestDialer(specFor(web.URL + "/sse"))
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(transporttest.Context(t)))
		web.handle("GET", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		})
		s = d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.Error(t, s.Open(transporttest.Context(t)))
		require.False(t, d.sse.Load())
	})
}
