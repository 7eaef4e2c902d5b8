package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A message of progress is shown to users like a line of the server's log.
const progressText = "step \x1b[31mone\u202e of two\nwith "

// TestProgressText: control characters and secrets are removed.
func TestProgressText(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		p.notices.Redact = stdioRedactor(&mcpvisor.Stdio{Args: []string{"--api-key", "canary-header"}})
		var message string
		ended := p.ask(t.Context(), Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) { message = r.Message }})
		id := p.read().ID
		text, err := json.Marshal(progressText + "canary-header")
		require.NoError(t, err)
		p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":%s}}`, id, text)
		p.say(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		require.Nil(t, (<-ended).err)
		require.Equal(t, "step [31mone of two with ***", message)
	})
	t.Run("HTTP", func(t *testing.T) {
		web := newScripted(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			text, _ := json.Marshal(progressText + r.Header.Get("X-Key"))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%[1]s,"progress":1,"message":%[2]s}},{"jsonrpc":"2.0","id":%[1]s,"result":%[3]s}]`,
				id, text, hello)
		})
		s := openHTTP(t, secretSpec(web.Listener.Addr().String()))
		var message string
		_, err := s.Request(testContext(t), Request{Method: "tools/call", Track: true, Params: json.RawMessage(`{}`),
			Progress: func(r mcpvisor.Progress) { message = r.Message }})
		require.NoError(t, err)
		require.Equal(t, "step [31mone of two with ***", message)
	})
	t.Run("long", func(t *testing.T) {
		_, report, ok := ReadProgress([]byte(`{"progressToken":1,"progress":1,"message":"`+strings.Repeat(`é`, maxProgress)+`"}`), new(Notifications))
		require.True(t, ok)
		require.LessOrEqual(t, len(report.Message), maxProgress)
		require.True(t, strings.HasSuffix(report.Message, "(cut)"))
	})
}
