package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A usage has several lines, and the first one may be a mere heading.
func TestRemarks_keep_several_lines_of_a_text(t *testing.T) {
	var r Remarks
	for _, line := range []string{"USAGE", "  server [--port PORT] DIRECTORY", strings.Repeat("x", 4*StrayTaken), "more"} {
		r.AddStray([]byte(line), StrayLog, false)
	}
	text := r.StrayOutput(nil).Text
	require.True(t, strings.HasPrefix(text, "USAGE server [--port PORT] DIRECTORY xxx") || strings.HasPrefix(text, "USAGE   server [--port PORT] DIRECTORY xxx"), text)
	require.LessOrEqual(t, len(text), MaxStrayShown+len("…"))

	var other Remarks
	other.AddStray([]byte("Starting"), StrayLog, false)
	other.AddStray([]byte("Continue?"), "it asks a question", false)
	require.Equal(t, "Continue?", other.StrayOutput(nil).Text, "a text with a real reason counts")
}
