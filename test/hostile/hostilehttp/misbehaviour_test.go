package hostilehttp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMisbehaviours_names(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Misbehaviours() {
		require.False(t, seen[m.Name], "%s is listed twice", m.Name)
		seen[m.Name] = true
		require.Regexp(t, `^(none|[a-z]+/[a-z0-9.-]+)$`, m.Name)
		require.Regexp(t, `^[A-Z].*\.$`, m.About, m.Name)
		require.NotEmpty(t, m.Eras())
		found, ok := MisbehaviourNamed(m.Name)
		require.True(t, ok)
		require.Equal(t, m.About, found.About)
	}
	require.Greater(t, len(seen), 200)
	_, ok := MisbehaviourNamed("call/virtue")
	require.False(t, ok)
}
