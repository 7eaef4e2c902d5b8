package contents

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// A block of an unknown kind is described, and the others are printed.
func TestPrinter_unknown_kind(t *testing.T) {
	var out strings.Builder
	require.NoError(t, NewPrinter(&out, true).Print(Decode([]json.RawMessage{
		json.RawMessage(`{"type":"text","text":"one"}`), json.RawMessage(`{"type":"weird","foo":1}`), json.RawMessage(`{"type":"text","text":"two"}`),
	})))
	require.Equal(t, "one\n[content of an unknown kind; --json shows it]\ntwo\n", out.String())
}

// A terminal gets no character that changes it; a file gets the text of the server.
func TestPrinter(t *testing.T) {
	const text = "a\r\nb\x1b[31m\u202ec\u0085"
	for _, safe := range []bool{true, false} {
		var one, two strings.Builder
		require.NoError(t, NewPrinter(&one, safe).Print([]mcp.Content{&mcp.TextContent{Text: text}}))
		p := NewPrinter(&two, safe)
		for _, text := range []string{"x", "y\n", "z"} {
			require.NoError(t, p.PrintResource(&mcp.ResourceContents{Text: text}))
		}
		if safe {
			require.Equal(t, "a\nb[31mc\n", one.String())
			require.Equal(t, "x\ny\nz\n", two.String())
		} else {
			require.Equal(t, text, one.String())
			require.Equal(t, "x\ny\nz", two.String())
		}
	}
}
