package facade_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// After Close every operation is ErrClosed, and not ErrUnknownServer.
func TestClose_later_operations_are_ErrClosed(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.Close(t.Context()))
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"call":      func() error { _, err := c.CallTool(ctx, "s/echo", nil); return err },
		"alias":     func() error { _, err := c.CallTool(ctx, "mcp__s__echo", nil); return err },
		"wait":      func() error { _, err := c.CallTool(ctx, "s/echo", nil, facade.WithWaitReady()); return err },
		"raw":       func() error { _, err := c.CallToolRaw(ctx, "s/echo", nil); return err },
		"read":      func() error { _, err := c.ReadResource(ctx, "s", "x:y"); return err },
		"prompt":    func() error { _, err := c.GetPrompt(ctx, "s/p", nil); return err },
		"subscribe": func() error { return c.Subscribe(ctx, "s", "x:y") },
		"level":     func() error { return c.SetLoggingLevel(ctx, "s", "info") },
		"refresh":   func() error { return c.Refresh(ctx, "s") },
		"restart":   func() error { return c.Restart(ctx, "s") },
		"ready":     func() error { return c.WaitReady(ctx, "s") },
	} {
		require.ErrorIs(t, do(), mcpvisor.ErrClosed, what)
	}
	require.NoError(t, c.Fence(ctx, "s", ""))
	require.NoError(t, c.Unregister(ctx, "s"))
	require.Equal(t, "closed", c.CallToolForModel(ctx, "s/echo", nil).StructuredContent.(facade.ModelError).Code)
}

func TestClose_twice_with_ended_context(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Close(context.Background()))
		require.NoError(t, c.Close(over), "it is closed already")
	}
}

// Close does not wait for a result to be decoded; that ends with its caller.
func TestClose_while_a_result_is_decoded(t *testing.T) {
	result := `{"content":[],"structuredContent":[` + strings.Repeat("0,", 4_000_000) + `0]}`
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Limits: mcpvisor.Limits{MaxElements: 5_000_000, MaxDecodedBytes: 1 << 30},
		InMemory: rawServer(func(method, _ string) string {
			if method == "tools/call" {
				return result
			}
			return ""
		})}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/x", nil)
		done <- err
	}()
	require.Eventually(t, func() bool {
		st, _ := c.ServerStatus("s")
		return st.Calls.InFlight == 0 && st.Calls.Total > 0
	}, 30*time.Second, time.Millisecond, "the answer is here")
	require.NoError(t, c.Close(t.Context()))
	require.Empty(t, done, "decoding takes far longer than Close")
	cancel()
	require.ErrorIs(t, <-done, mcpvisor.ErrCanceled)
}
