package streamable

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// What a broken event has held is given back before the rest of the stream is asked
// for: that can take minutes.
func TestBuffer_releasedBeforeResume(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		var used atomic.Int64
		used.Store(-1)
		var s *session
		web, spec, _ := newResumingServer(t, "", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			used.Store(s.exchanges.buffer.Used())
			resumeCall(w, r, id)
		})
		opened := web.replies["tools/call"]
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			opened(w, r, id)
			startEvents(w)("id: a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"%s", id, strings.Repeat("x", 300<<10))
			panic(http.ErrAbortHandler)
		})
		s = openInMemory(t, spec)
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		require.NoError(t, err)
		require.Zero(t, used.Load(), "while the stream is resumed")
		require.Zero(t, s.exchanges.buffer.Used())
	})
}
