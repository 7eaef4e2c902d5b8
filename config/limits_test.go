package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Each limit has a key of its own.
func TestLimits(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers":{"a":{"command":"x",
		"limits":{"max_message_bytes":1,"max_items":2,"max_pages":3,"max_catalog_bytes":4,"max_elements":8,"max_buffer_bytes":10,
		"max_decoded_bytes":9,"max_in_flight":5,"max_queued":7,"max_stderr_lines":6}},
		"b":{"command":"x","limits":{"max_queued":0}}}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, mcpvisor.Limits{MaxMessageBytes: 1, MaxItems: 2, MaxPages: 3, MaxCatalogBytes: 4, MaxElements: 8, MaxBufferBytes: 10, MaxDecodedBytes: 9, MaxInFlight: 5, MaxQueued: 7, MaxStderrLines: 6}, f.Servers[0].Spec.Limits)
	require.Equal(t, mcpvisor.Limits{MaxQueued: -1}, f.Servers[1].Spec.Limits)
}

// Each field of Limits, Timeouts and Probe has a key.
func TestKeys_cover_every_bound(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Field] = true
	}
	for prefix, value := range map[string]any{"Limits.": mcpvisor.Limits{}, "Timeouts.": mcpvisor.Timeouts{}, "Probe.": mcpvisor.Probe{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			require.True(t, known[prefix+f.Name], "%s has no key; add a row to policy_keys.go", prefix+f.Name)
		}
	}
}
