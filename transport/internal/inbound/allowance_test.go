package inbound

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Released room can be acquired again, even while other messages wait.
func TestAllowance(t *testing.T) {
	a := Allowance{Max: 2}
	require.True(t, a.Acquire(1))
	for range 3 {
		require.True(t, a.Acquire(MaxHeldBytes-1))
		require.False(t, a.Acquire(0), "by number")
		a.Release(MaxHeldBytes - 1)
	}
	require.False(t, a.Acquire(MaxHeldBytes), "by size")
}
