package messages

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineLimitIsClamped(t *testing.T) {
	for given, want := range map[int]int{
		0: DefaultLineLimit, -1: DefaultLineLimit, math.MinInt: DefaultLineLimit,
		1: 1, maxLineLimit: maxLineLimit, maxLineLimit + 1: maxLineLimit, math.MaxInt: maxLineLimit,
	} {
		require.Equal(t, want, ServerSpec{Limits: Limits{Line: given}}.WithDefaults().Limits.Line, given)
	}
}
