package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestLimits: each has a key of its own.
func TestLimits(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers":{"a":{"command":"x",
		"limits":{"line":1,"items":2,"pages":3,"catalog":4,"elements":8,"buffer":10,"decoded":9,"in_flight":5,"queue":7,"stderr_lines":6}},
		"b":{"command":"x","limits":{"queue":0}}}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, mcpvisor.Limits{MaxMessageBytes: 1, MaxItems: 2, MaxPages: 3, MaxCatalogBytes: 4, MaxElements: 8, MaxBufferBytes: 10, MaxDecodedBytes: 9, MaxInFlight: 5, MaxQueued: 7, MaxStderrLines: 6}, f.Servers[0].Spec.Limits)
	require.Equal(t, mcpvisor.Limits{MaxQueued: -1}, f.Servers[1].Spec.Limits)
}
