//go:build !race

package facade_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// A client without servers costs little to make. The first one of a process costs 3 MB
// more for a moment, see the package actors. The race detector allocates by itself.
func TestNew_footprint(t *testing.T) {
	makeClient := func() {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	}
	makeClient()
	const n = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		makeClient()
	}
	runtime.ReadMemStats(&after)
	allocs, bytes := (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n
	t.Logf("%d allocations, %d bytes", allocs, bytes)
	require.Less(t, allocs, uint64(1000))
	require.Less(t, bytes, uint64(100<<10))
}
