package nearest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	known := []string{"command", "args", "env", "url", "headers", "timeouts", "Timeout"}
	require.Equal(t, []string{"command"}, Names("comand", known))
	require.Equal(t, []string{"timeouts", "Timeout"}, Names("timeuts", known))
	require.Equal(t, []string{"args"}, Names("ARGS", known)[:1])
	require.Empty(t, Names("completely-different", known))
	require.Len(t, Names("a1", []string{"a2", "a3", "a4", "a5"}), 3)
}
