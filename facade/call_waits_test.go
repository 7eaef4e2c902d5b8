package facade_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A call that waits is checked against what the server lists when it is ready again: a tool that is gone is not called.
func TestWithWaitReady_tool_that_is_gone(t *testing.T) {
	c := newClient(t)
	scripts := []mcptest.Script{
		{Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "old"}}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionExit, Code: 1}}},
		{Tools: []mcptest.ToolDef{{Name: "echo"}}},
	}
	var starts atomic.Int32
	server := &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		return mcptest.InMemory(scripts[min(int(starts.Add(1)), 2)-1]).Serve(ctx, in, out, log)
	}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: server, Policy: mcpvisor.Retry(3, 300*time.Millisecond)}))
	_, err := c.CallTool(t.Context(), "s/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	_, err = c.CallTool(t.Context(), "s/old", nil, facade.WithWaitReady(), facade.WithTimeout(time.Minute))
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	require.EqualValues(t, 2, starts.Load(), "the call has waited for the second start")
}
