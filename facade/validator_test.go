package facade

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A schema is compiled once for each list, and only the latest list of a server is kept.
func TestValidator_compiles_once_and_forgets(t *testing.T) {
	c, err := New(WithValidation())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{})}))
		_, err := c.CallTool(t.Context(), name+"/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	compiled := func(server string) *argcheck.Schema {
		v := c.rt.Snapshot().Server(server)
		tool, ok := v.Catalog.Tool("echo")
		require.True(t, ok)
		return c.validator.schema(c, v, tool)
	}
	first := compiled("a")
	require.NotNil(t, first)
	require.Same(t, first, compiled("a"))
	require.NotSame(t, first, compiled("b"))

	require.NoError(t, c.Restart(t.Context(), "a"))
	require.NoError(t, c.WaitReady(t.Context(), "a"))
	require.NotSame(t, first, compiled("a"))
	require.Len(t, c.validator.servers, 2)

	require.NoError(t, c.Unregister(t.Context(), "a"))
	require.Len(t, c.validator.servers, 1)
}
