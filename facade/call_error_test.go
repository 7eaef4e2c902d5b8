package facade_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The record of a call that has failed says why, in one line of bounded length; that of another
// says nothing.
func TestRecentCalls_errors(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{})}))
	call(t, c, "s/echo", map[string]any{"text": "x"})
	_, err := c.CallTool(t.Context(), "s/fail", map[string]any{"text": "no\nroom " + strings.Repeat("é", 500)})
	require.NoError(t, err)
	_, err = c.CallTool(t.Context(), "s/nothing", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	_, err = c.ReadResource(t.Context(), "s", "db://user:hush@host/x?token=hush")
	require.Error(t, err)

	calls, _ := c.RecentCalls(0)
	require.Len(t, calls, 4)
	require.Empty(t, calls[0].Error)
	require.True(t, calls[1].ToolError)
	require.True(t, strings.HasPrefix(calls[1].Error, "no room é"), calls[1].Error)
	require.Len(t, calls[1].Error, retention.CallErrorBytes)
	require.Contains(t, calls[2].Error, "unknown tool")
	require.NotContains(t, calls[2].Error, "nothing was sent", "the outcome is a field")
	require.NotEmpty(t, calls[3].Error)
	require.NotContains(t, calls[3].Error, "hush")
	status, known := c.ServerStatus("s")
	require.True(t, known)
	require.EqualValues(t, 1, status.Totals.ToolErrors)
	require.False(t, status.Registered.IsZero())
	require.False(t, status.Registered.After(status.Since))
}

// What a tool says of its failure is recorded without the secrets of its server, wherever it is cut.
func TestRecentCalls_errors_without_secrets(t *testing.T) {
	secret := "hush-" + strings.Repeat("s3cr3t", 20)
	spec := mcpvisor.ServerSpec{Name: "s", Secrets: []string{secret}, Stdio: mcptest.Stdio(mcptest.Script{})}
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), spec))
	for _, text := range []string{"key " + secret + " refused", strings.Repeat(secret, 64<<10/len(secret)+2), strings.Repeat("x", 250) + secret} {
		_, err := c.CallTool(context.Background(), "s/fail", map[string]any{"text": text})
		require.NoError(t, err)
	}
	calls, _ := c.RecentCalls(0)
	require.Len(t, calls, 3)
	for _, r := range calls {
		require.Contains(t, r.Error, "***")
		require.NotContains(t, r.Error, "hush")
		require.NotContains(t, r.Error, "s3cr3t")
	}
	require.Equal(t, "key *** refused", calls[0].Error)
}
