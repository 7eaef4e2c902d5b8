package streamable

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestProgress_text: control characters and secrets are removed.
func TestProgress_text(t *testing.T) {
	t.Run("HTTP", func(t *testing.T) {
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
	})
}
