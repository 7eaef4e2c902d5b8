package mcpvisor

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits_MaxMessageBytes_is_clamped(t *testing.T) {
	for given, want := range map[int]int{
		0: DefaultMaxMessageBytes, -1: DefaultMaxMessageBytes, math.MinInt: DefaultMaxMessageBytes,
		1: 1, maxMessageBytes: maxMessageBytes, maxMessageBytes + 1: maxMessageBytes, math.MaxInt: maxMessageBytes,
	} {
		require.Equal(t, want, ServerSpec{Limits: Limits{MaxMessageBytes: given}}.WithDefaults().Limits.MaxMessageBytes, given)
	}
}
