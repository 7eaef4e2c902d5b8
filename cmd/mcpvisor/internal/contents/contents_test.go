package contents_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/contents"
)

// A block of an unknown kind is described, and the others are printed.
func TestPrint_unknown_kind(t *testing.T) {
	var out strings.Builder
	require.NoError(t, contents.Print(&out, contents.Decode([]json.RawMessage{
		json.RawMessage(`{"type":"text","text":"one"}`), json.RawMessage(`{"type":"weird","foo":1}`), json.RawMessage(`{"type":"text","text":"two"}`),
	})))
	require.Equal(t, "one\n[content of an unknown kind; --json shows it]\ntwo\n", out.String())
}
