package mcpvisor

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

func TestLimits_MaxMessageBytes_is_clamped(t *testing.T) {
	for given, want := range map[int]int{
		0: defaults.MaxMessageBytes, -1: defaults.MaxMessageBytes, math.MinInt: defaults.MaxMessageBytes,
		1: 1, maxMessageBytes: maxMessageBytes, maxMessageBytes + 1: maxMessageBytes, math.MaxInt: maxMessageBytes,
	} {
		require.Equal(t, want, ServerSpec{Limits: Limits{MaxMessageBytes: given}}.WithDefaults().Limits.MaxMessageBytes, given)
	}
}
