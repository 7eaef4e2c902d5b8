package streamable

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// An error without an id is that of the one request in flight.
func TestStreamAnswer_errorWithoutID(t *testing.T) {
	const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	t.Run("in_the_stream_of_a_call", func(t *testing.T) {
		web := newHTTPServer(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			startEvents(w)("data: " + parseError + "\n\n")
			web.hang(r)
		})
		s := openSession(t, specFor(web.URL))
		_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
		require.ErrorContains(t, err, "Parse error")
	})
}
