//go:build !race

package facade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// A client without servers costs little to make. The first one of a process costs 3 MB
// more for a moment: it makes the prototype of the actor systems.
func TestNew_footprint(t *testing.T) {
	allocs, bytes := testutil.Allocations(20, func() {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	})
	t.Logf("%.0f allocations, %.0f bytes", allocs, bytes)
	require.Less(t, allocs, 1000.0)
	require.Less(t, bytes, 100.0*1024)
}
