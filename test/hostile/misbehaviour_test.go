package hostile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMisbehaviours_names(t *testing.T) {
	stages := []string{"spawn", "negotiation", "handshake", "list", "call", "answer", "id", "error", "result", "task", "read", "prompt",
		"notification", "request", "stream", "process", "liveness", "shutdown"}
	seen, about := map[string]bool{}, map[string]string{}
	for _, m := range Misbehaviours() {
		require.Regexp(t, `^[a-z]+/[a-z0-9-]+$`, m.Name)
		require.False(t, seen[m.Name], "%s is listed twice", m.Name)
		require.Contains(t, stages, m.Stage(), m.Name)
		require.Regexp(t, `^[A-Z].*\.$`, m.About, m.Name)
		require.Empty(t, about[m.About], "%s and %s have the same text", m.Name, about[m.About])
		seen[m.Name], about[m.About] = true, m.Name
		set := 0
		for _, is := range []bool{m.script != nil, m.serve != nil, m.command != nil} {
			if is {
				set++
			}
		}
		require.Equal(t, 1, set, m.Name)
		if m.script != nil {
			require.NoError(t, m.script.Validate(), m.Name)
		}
		found, ok := MisbehaviourNamed(m.Name)
		require.True(t, ok)
		require.Equal(t, m.About, found.About)
	}
	require.GreaterOrEqual(t, len(seen), 100)
	_, ok := MisbehaviourNamed("call/nothing")
	require.False(t, ok)
}
