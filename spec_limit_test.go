package mcpvisor

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineLimitIsClamped(t *testing.T) {
	for given, want := range map[int]int{
		0: DefaultMaxMessageBytes, -1: DefaultMaxMessageBytes, math.MinInt: DefaultMaxMessageBytes,
		1: 1, maxLineLimit: maxLineLimit, maxLineLimit + 1: maxLineLimit, math.MaxInt: maxLineLimit,
	} {
		require.Equal(t, want, ServerSpec{Limits: Limits{MaxMessageBytes: given}}.WithDefaults().Limits.MaxMessageBytes, given)
	}
}
