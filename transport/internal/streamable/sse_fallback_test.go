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

// newest is the key of the exchange that began last, of those that are no requests
// of the call lane.
func (t *exchangeTable) newest() int64 {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Newest()
}

// contains reports whether an exchange is under way.
func (t *exchangeTable) contains(key int64) bool {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Open[key] != nil
}

// TestSSEFallback_refusalInPieces checks that the end of the refused POST, which comes
// while the event stream is being opened, does not end the fallback.
func TestSSEFallback_refusalInPieces(t *testing.T) {
	web := newSSEServer(t)
	spec := specFor(web.URL + "/sse")
	spec.Era = mcpvisor.EraLegacy // no server/discover before it
	s := newTestDialer(spec).NewSession().(*session)
	transporttest.ReleaseAtEnd(t, s)
	opening := make(chan struct{})
	var refused int64 // the exchange of the POST
	web.handle("POST", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		refused = s.exchanges.newest()
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
		for s.exchanges.contains(refused) { // until the rest of the refusal was read
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

// TestSSEFallback_errorOfStream checks what a failed start says whose POST was refused, and
// whose event stream was refused as well: what tells more.
func TestSSEFallback_errorOfStream(t *testing.T) {
	for name, row := range map[string]struct {
		post, get int
		says      string
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
			require.Contains(t, cause.Message, row.says)
			require.Equal(t, row.kind, cause.Kind)
			if row.get == http.StatusTooManyRequests {
				require.Equal(t, 7*time.Second, cause.RetryAfter)
			}
		})
	}
}
