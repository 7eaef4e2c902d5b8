package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestNewsAreBounded: by number and by size, and what is told makes room.
func TestNewsAreBounded(t *testing.T) {
	for _, size := range []int{0, MaxProgressMessage} {
		told := 0
		n := NewProgressQueue(func(mcpvisor.Progress) { told++ })
		most := maxQueuedReports
		if size > 0 {
			most = MaxQueuedProgress / size
		}
		for range 2 {
			told = 0
			for range most {
				require.True(t, n.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			}
			require.False(t, n.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			n.Deliver()
			require.Equal(t, most, told)
		}
	}
}
