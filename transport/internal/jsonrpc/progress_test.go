package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// The number of queued reports and the bytes of their messages are bounded. Deliver makes
// room for further reports.
func TestProgressQueue_bounds(t *testing.T) {
	for _, size := range []int{0, MaxProgressMessage} {
		delivered := 0
		q := NewProgressQueue(&transport.Request{Progress: func(mcpvisor.Progress) { delivered++ }})
		most := maxQueuedReports
		if size > 0 {
			most = MaxQueuedProgress / size
		}
		for range 2 {
			delivered = 0
			for range most {
				require.True(t, q.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			}
			require.False(t, q.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			q.Deliver()
			require.Equal(t, most, delivered)
		}
	}
}

func TestReadProgress_cuts_a_long_message(t *testing.T) {
	_, report, ok := ReadProgress([]byte(`{"progressToken":1,"progress":1,"message":"`+strings.Repeat(`é`, MaxProgressMessage)+`"}`), new(Notifications))
	require.True(t, ok)
	require.LessOrEqual(t, len(report.Message), MaxProgressMessage)
	require.True(t, strings.HasSuffix(report.Message, "(cut)"))
}

// The reader reuses the buffer of the line.
func TestReadProgress_copies_the_message(t *testing.T) {
	line := []byte(`{"progressToken":7,"progress":1,"message":"half way"}`)
	_, p, ok := ReadProgress(line, new(Notifications))
	require.True(t, ok)
	for i := range line {
		line[i] = '#'
	}
	require.Equal(t, "half way", p.Message)
}
