package metadata

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScopes_bounds(t *testing.T) {
	many := make([]string, 200_000)
	for i := range many {
		many[i] = "s" + strconv.Itoa(i)
	}
	all := UnionScopes(many, many[100_000:], []string{"last"})
	require.Equal(t, many[:maxScopes], all)
	require.Equal(t, many[:maxScopes], ParseScopes(strings.Join(many, " ")))
	require.Empty(t, UnionScopes([]string{strings.Repeat("x", maxScopeBytes)}))
	require.True(t, CoverScopes(many, many))
	require.False(t, CoverScopes(many, []string{"s5", "other"}))
}
