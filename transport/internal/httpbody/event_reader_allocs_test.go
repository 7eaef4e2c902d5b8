//go:build !race

package httpbody

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/testutil"
)

// A stream with one event costs the reader, and the data of the event. The race detector
// empties pools at random, so the test is not built with it.
func TestEventReader_allocations(t *testing.T) {
	source := strings.NewReader("event: message\ndata: {\"id\":1}\n\n")
	allocs, bytes := testutil.Allocations(1000, func() {
		_, _ = source.Seek(0, 0)
		events := NewEventReader(source, 1<<20)
		e, err := events.Next()
		require.NoError(t, err)
		require.Len(t, e.Data, len(`{"id":1}`))
		events.Close()
	})
	t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
	require.LessOrEqual(t, allocs, 4.5)
	require.LessOrEqual(t, bytes, 512.0)
}
