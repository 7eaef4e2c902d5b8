package inbound

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestCheckParams(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(transporttest.BroadObject(1000))))
	})
	t.Run("large", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(`{"x":"`+strings.Repeat("x", 32<<20)+`"}`)))
	})
	t.Run("broad", func(t *testing.T) {
		require.ErrorContains(t, CheckParams([]byte(transporttest.BroadObject(30_000))), "the parameters hold more than 50000 values")
	})
	t.Run("deep", func(t *testing.T) {
		deep := `{"x":"` + strings.Repeat("x", 64<<10) + `","y":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`
		require.ErrorContains(t, CheckParams([]byte(deep)), "levels")
	})
}
