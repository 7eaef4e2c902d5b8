package facade_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The client's default overrides the server's Timeouts.Call.
func TestWithDefaultCallTimeout(t *testing.T) {
	c := newClient(t, facade.WithDefaultCallTimeout(30*time.Millisecond))
	silent := rawServer(func(method, _ string) string {
		if method == "tools/call" {
			return silence
		}
		return ""
	})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Timeouts: mcpvisor.Timeouts{Call: time.Hour, CallTotal: time.Hour}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	longer, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(longer, "s/x", nil, facade.WithTimeout(time.Hour))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled, "WithTimeout overrides both")
}

// With the client option every call waits for a server that is not ready.
func TestWithDefaultWaitReady(t *testing.T) {
	c := newClient(t, facade.WithDefaultWaitReady())
	gate := make(chan struct{})
	slow := mcptest.InMemory(mcptest.Script{})
	serve := slow.Serve
	slow.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, errs io.Writer) error {
		<-gate
		return serve(ctx, in, out, errs)
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: slow, StartSupervised: true}))
	done := make(chan error, 1)
	go func() { _, err := c.CallTool(context.Background(), "s/echo", map[string]any{"text": "x"}); done <- err }()
	select {
	case err := <-done:
		require.FailNow(t, "it did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	require.NoError(t, <-done)
}

// A later valid option does not hide the error of an earlier one.
func TestNew_reports_the_error_of_every_option(t *testing.T) {
	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "https://h/"}), facade.WithRoots(mcp.Root{URI: "file:///tmp"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}
