package listing

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// A schema without such characters is the same, byte for byte.
func TestVisibleSchema(t *testing.T) {
	for _, text := range []string{`{ "type" : "object","x":1e400,"description":"\u003cb\u003e 日本語 \n" }`, `{"a":"👩‍💻"}`, `{`} {
		require.Equal(t, text, string(visibleSchema(json.RawMessage(text)).(json.RawMessage)))
	}
	require.Nil(t, visibleSchema(nil))
	for _, text := range []string{`{"description":"\udb40\udc41"}`, "[[[\"\u202e\"]]]", `{"a\u200b":1}`, "{\"\U000E0041\":{}}", `{"a":["\u0007"]}`, `[{"title":"\u001b"}]`} {
		clean, ok := visibleSchema(json.RawMessage(text)).(json.RawMessage)
		require.True(t, ok)
		var value any
		require.NoError(t, json.Unmarshal(clean, &value))
		encoded, err := message.Result(value, false)
		require.NoError(t, err)
		_, removed := display.ForModel(string(encoded))
		require.Empty(t, removed, "%s", encoded)
		require.NotContains(t, string(encoded), `\u`)
	}
}
