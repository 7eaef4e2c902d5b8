//go:build !race

package httpbody

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
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

// reservation is a Memory that records what is reserved.
type reservation struct{ bytes int }

func (r *reservation) Reserve(bytes int) bool { r.bytes += bytes; return true }
func (r *reservation) Release()               { r.bytes = 0 }

// The memory for a body or an event never exceeds the limit of its length. It doubles while
// it grows; after a Content-Length it takes two steps. What is reserved is what is held.
func TestGrowth(t *testing.T) {
	const limit = 20_000_000
	text := strings.Repeat("x", limit-10_000)
	var line, lines bytes.Buffer
	line.WriteString("data: " + text + "\n\n")
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 4000)
		lines.WriteString("data: " + rest[:n] + "\n")
		rest = rest[n:]
	}
	lines.WriteString("\n")
	readBody := func(expected int64) func(*reservation) int {
		return func(m *reservation) int {
			b := BodyReader{Body: strings.NewReader(text), Reserver: m}
			got, _, err := b.ReadUpTo(limit, expected, nil)
			require.NoError(t, err)
			require.Len(t, got, len(text))
			return cap(got)
		}
	}
	readEvent := func(source []byte) func(*reservation) int {
		return func(m *reservation) int {
			events := NewEventReader(bytes.NewReader(source), limit)
			defer events.Close()
			events.Reserver = m
			e, err := events.Next()
			require.NoError(t, err)
			require.False(t, e.Oversize)
			require.GreaterOrEqual(t, len(e.Data), len(text))
			return cap(e.Data)
		}
	}
	for name, row := range map[string]struct {
		read func(*reservation) int
		most float64 // bytes allocated, in limits
	}{
		"unknown length":       {readBody(-1), 3},
		"announced length":     {readBody(int64(len(text))), 1.5},
		"event of one line":    {readEvent(line.Bytes()), 3},
		"event of short lines": {readEvent(lines.Bytes()), 4},
	} {
		t.Run(name, func(t *testing.T) {
			var m reservation
			var size int
			_, bytes := testutil.Allocations(1, func() { m = reservation{}; size = row.read(&m) })
			require.LessOrEqual(t, size, limit+len("data: ")+1)
			require.LessOrEqual(t, bytes, row.most*limit)
			require.InDelta(t, size, m.bytes, 32<<10)
		})
	}
}
