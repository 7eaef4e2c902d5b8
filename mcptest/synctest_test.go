package mcptest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// useClient makes calls to two servers in memory that end in every way, with a crash
// and a restart.
func useClient(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	c, err := facade.New()
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}),
			Policy: supervisor.Retry(3, time.Millisecond)}))
	}
	for i := range 20 {
		_, err := c.CallTool(ctx, "a/echo", map[string]any{"text": fmt.Sprint(i)})
		require.NoError(t, err)
	}
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = c.CallTool(brief, "a/hang", map[string]any{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.CallTool(ctx, "b/crash", map[string]any{"code": 3})
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(ctx, "b"))
	_, err = c.CallTool(ctx, "b/echo", map[string]any{"text": "again"})
	require.NoError(t, err)
	require.NoError(t, c.Close(ctx))
}

// TestInMemory_in_bubbles: a bubble leaves nothing behind that disturbs another bubble, or a test
// without one.
func TestInMemory_in_bubbles(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprintf("bubble_%d", i), func(t *testing.T) { synctest.Test(t, useClient) })
		t.Run(fmt.Sprintf("ordinary_%d", i), useClient)
	}
	t.Run("at_the_same_time", func(t *testing.T) {
		for i := range 4 {
			t.Run(fmt.Sprintf("bubble_%d", i), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, useClient)
			})
			t.Run(fmt.Sprintf("ordinary_%d", i), func(t *testing.T) {
				t.Parallel()
				useClient(t)
			})
		}
	})
}
