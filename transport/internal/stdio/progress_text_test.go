package stdio

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestProgressText: control characters and secrets are removed.
func TestProgressText(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		p.notices.Redact = stdioRedactor(&mcpvisor.Stdio{Args: []string{"--api-key", "canary-header"}})
		var message string
		ended := p.ask(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) { message = r.Message }})
		id := p.read().ID
		text, err := json.Marshal(transporttest.ProgressText + "canary-header")
		require.NoError(t, err)
		p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":%s}}`, id, text)
		p.say(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		require.Nil(t, (<-ended).err)
		require.Equal(t, "step [31mone of two with ***", message)
	})
}
