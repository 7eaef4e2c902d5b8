package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
)

// TestLimits: each has a key of its own.
func TestLimits(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers":{"a":{"command":"x",
		"limits":{"line":1,"items":2,"pages":3,"catalog":4,"elements":8,"buffer":10,"decoded":9,"in_flight":5,"queue":7,"stderr_lines":6}},
		"b":{"command":"x","limits":{"queue":0}}}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, messages.Limits{Line: 1, Items: 2, Pages: 3, Catalog: 4, Elements: 8, Buffer: 10, Decoded: 9, InFlight: 5, Queue: 7, StderrLines: 6}, f.Servers[0].Spec.Limits)
	require.Equal(t, messages.Limits{Queue: -1}, f.Servers[1].Spec.Limits)
}
