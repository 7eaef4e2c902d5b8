package mcpvisor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerStderr_After(t *testing.T) {
	s := ServerStderr{Total: 9, First: []string{"1", "2"}, Lines: []string{"7", "8", "9"}}
	for _, c := range []struct {
		seen    int64
		want    []string
		dropped int64
	}{
		{0, []string{"7", "8", "9"}, 6}, {4, []string{"7", "8", "9"}, 2}, {6, []string{"7", "8", "9"}, 0},
		{8, []string{"9"}, 0}, {9, []string{}, 0}, {20, []string{}, 0}, {-3, []string{"7", "8", "9"}, 6},
	} {
		lines, dropped := s.After(c.seen)
		require.Equal(t, c.want, lines, "after %d", c.seen)
		require.Equal(t, c.dropped, dropped, "after %d", c.seen)
	}
	lines, dropped := ServerStderr{}.After(0)
	require.Empty(t, lines)
	require.Zero(t, dropped)
}
