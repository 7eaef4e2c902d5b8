package argcheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What costs the validator more counts as more steps.
func TestGuard_counts(t *testing.T) {
	steps := func(schema, value any) int {
		g := guard{root: schema}
		g.visit(schema, value, 0)
		require.False(t, g.exceeded)
		return g.steps
	}
	text := strings.Repeat("a", 10_000)
	plain, pattern := map[string]any{}, map[string]any{"pattern": "a"}
	require.Equal(t, 1, steps(plain, "a"))
	require.GreaterOrEqual(t, steps(plain, text), len(text)/bytesPerStep, "errors contain the value")
	require.GreaterOrEqual(t, steps(pattern, text), steps(plain, text)+len(text)/bytesPerMatch, "the text is matched")

	const levels = 40
	var flat []any
	var nested any = plain
	for range levels {
		flat = append(flat, plain)
		nested = map[string]any{"allOf": []any{nested}}
	}
	require.Greater(t, steps(nested, "a"), 2*steps(map[string]any{"allOf": flat}, "a"), "each level copies the errors below")
}
