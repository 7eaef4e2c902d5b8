package plainjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any text is encoded as one JSON string.
func TestAppendString(t *testing.T) {
	for _, name := range []string{"echo", "", `say "hi"`, `a\`, `x","arguments":{"evil":1},"y":"`, "a\nb", "\x00", "naïve/日本", "\u2028", "\x7f"} {
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, name), &back), "%q", name)
		require.Equal(t, name, back)
	}
	require.True(t, json.Valid(AppendString(nil, "\xff")))
	require.Equal(t, `["a"`, string(AppendString([]byte("["), "a")))
}
