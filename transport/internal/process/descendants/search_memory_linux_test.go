//go:build !race

package descendants

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// A search allocates a buffer and a list, and little for each process that it reads.
func TestSearch_memory(t *testing.T) {
	var s processTable
	list, err := descriptors.listProcesses()
	require.NoError(t, err)
	list.procs = slices.DeleteFunc(list.procs, func(p procRef) bool { return p.pid() == os.Getpid() }) // so it is read
	_, bytes := testutil.Allocations(20, func() {
		_, err := s.searchOnce(list)
		require.NoError(t, err)
	})
	t.Logf("%.0f bytes for a search among %d processes", bytes, len(list.procs))
	require.Less(t, int(bytes), 24<<10+32*len(list.procs), "bytes of a search")
}
