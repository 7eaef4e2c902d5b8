package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/config"
)

// The bounds of a file are those of the gateway, in bytes.
func TestSettingsOf_bounds(t *testing.T) {
	file, err := config.Parse([]byte(`{"servers": {}, "gateway": {"max_held_mib": 4096, "max_held_mib_per_principal": 16}}`), "mcp.json")
	require.NoError(t, err)
	require.Empty(t, file.Problems)
	s := settingsOf(file)
	require.Equal(t, []int64{4 << 30, 16 << 20}, []int64{s.MaxHeldByAll, s.MaxHeldByPrincipal})
}
