package streamable

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// An answer in an encoding that no request has offered names the encoding. It is neither a broken
// connection nor invalid JSON, and the session is kept.
func TestCall_encodingNotOffered(t *testing.T) {
	for name, row := range map[string]struct {
		status         int
		kind, encoding string
		outcome        mcpvisor.Outcome
		says           string
	}{
		"brotli":       {200, "application/json", "br", mcpvisor.OutcomeUnknown, `Content-Encoding "br"`},
		"two":          {200, "application/json", "gzip, br", mcpvisor.OutcomeUnknown, `Content-Encoding "gzip, br"`},
		"event stream": {200, "text/event-stream", "zstd", mcpvisor.OutcomeUnknown, `Content-Encoding "zstd"`},
		"error status": {413, "text/plain", "deflate", mcpvisor.OutcomeAnswered, "HTTP 413 Request Entity Too Large"},
	} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("notifications/initialized", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Encoding", row.encoding) // of no content
				w.WriteHeader(http.StatusAccepted)
			})
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", row.kind)
				w.Header().Set("Content-Encoding", row.encoding)
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte("\x8b\x0f\x80 packed \x03"))
			})
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.ErrorContains(t, e, row.says)
			require.NotContains(t, e.Error(), "packed")
			require.Equal(t, mcpvisor.KindProtocol, e.Kind)
			require.Equal(t, row.outcome, e.Outcome)
			require.NotContains(t, e.Error(), "broke")
			web.handle("tools/call", nil)
			requireServing(t, s)
		})
	}
}
