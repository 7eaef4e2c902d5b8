package budget_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// Holders of much leave room for holders of little, at each level, and all of them stay below the limits.
func TestBudget_Take(t *testing.T) {
	all := budget.New(1000, nil)
	principals := make([]*budget.Budget, 9)
	for i := range principals {
		principals[i] = budget.New(400, all)
		greedy, total := budget.New(400, principals[i]), int64(0)
		for ; greedy.Take(1); total++ {
		}
		require.Positive(t, total, "principal %d", i)
		require.Equal(t, total, principals[i].Used())
		require.LessOrEqual(t, total, int64(200), "half of what its principal may hold")
		require.True(t, budget.New(400, principals[i]).Take(1), "another client of principal %d", i)
	}
	require.LessOrEqual(t, all.Used(), int64(1000))
	held := all.Used()
	require.False(t, principals[0].Take(1000))
	require.Equal(t, held, all.Used(), "what is refused does not count")
	for _, p := range principals {
		p.Return(int(p.Used()))
	}
	require.Zero(t, all.Used())
	require.True(t, (*budget.Budget)(nil).Take(1<<40))
}
