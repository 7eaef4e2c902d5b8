package inbound

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is given back is room again, also while other things wait.
func TestAllowanceIsGivenBack(t *testing.T) {
	a := Allowance{Max: 2}
	require.True(t, a.Take(1))
	for range 3 {
		require.True(t, a.Take(MaxHeldBytes-1))
		require.False(t, a.Take(0), "by number")
		a.Release(MaxHeldBytes - 1)
	}
	require.False(t, a.Take(MaxHeldBytes), "by size")
}
