package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	text := "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 150 50 25 25 20 0 3 0 1234 1000000 2 18446744073709551615\n"
	p, ok := parseStat(42, []byte(text), 4096)
	require.True(t, ok)
	require.Equal(t, process{pid: 42, parent: 7, group: 42, start: 1234, cpu: 2500 * time.Millisecond, memory: 8192}, p)
	for _, bad := range []string{"", "42 (a", "42 (a) S 1 2"} {
		_, ok := parseStat(42, []byte(bad), 4096)
		require.False(t, ok, bad)
	}
}
