package facade_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// After ErrCrashed no tool of the server is listed, and the name can be registered again
// once the server is evicted.
func TestRegister_replaces_an_evicted_server(t *testing.T) {
	c := newClient(t)
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}
	var idle atomic.Bool // until then other goroutines compete for the processors
	defer idle.Store(true)
	for range 4 {
		go func() {
			for !idle.Load() {
			}
		}()
	}
	events := c.Watch(t.Context())
	for range 5 {
		require.NoError(t, c.Register(t.Context(), spec))
		require.NotEmpty(t, c.Tools())
		_, err := c.CallTool(t.Context(), "s/crash", nil)
		tools, prompts, resources := c.Tools(), c.Prompts(), c.Resources()
		_, listed := c.Tool("s/echo")
		_, alias := c.Tool("mcp__s__echo")
		status, _ := c.ServerStatus("s")
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.Empty(t, tools)
		require.Empty(t, prompts)
		require.Empty(t, resources)
		require.False(t, listed)
		require.False(t, alias)
		require.NotEqual(t, supervisor.StateReady, status.State)
		require.Zero(t, status.Catalog.Tools)
		for e := range events {
			if e.Kind == mcpvisor.EventEvicted {
				break
			}
		}
	}
}
