//go:build !race

package gateway

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The allocations of one call of a session of the go-sdk, in all goroutines of this process
// together, the go-sdk's own included: 52 and 77. The race detector allocates by itself.
func TestCallTool_allocations(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy})
	inBothEras(t, func(t *testing.T, version string) {
		s := connect(t, Transport(c), version, nil)
		params := &mcp.CallToolParams{Name: "mcp__s__echo", Arguments: map[string]any{"text": "hello"}}
		allocs, bytes := testutil.Allocations(2000, func() {
			r, err := s.CallTool(ctx, params)
			if err != nil || r.IsError {
				require.FailNow(t, "the call failed")
			}
		})
		t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
		bound := 55.0
		if version == modernVersion {
			bound = 79
		}
		require.LessOrEqual(t, allocs, bound)
	})
}
