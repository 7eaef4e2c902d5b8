//go:build real

package real

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The reference server has a tool that requires a task (2025-11-25). It asks while the task
// works, and it forgets its tasks when it is killed.
func TestTasks_of_the_reference_server(t *testing.T) {
	asked := 0
	c, err := facade.New(facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		asked++
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"interpretation": "technical"}}, nil
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	stdio := mcpvisor.Stdio{Command: "node", Args: []string{scope + "server-everything/dist/index.js"}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "everything", Stdio: &stdio, Policy: mcpvisor.Retry(5, 10*time.Millisecond)}))

	const tool = "everything/simulate-research-query"
	var progress []string
	result, err := c.CallTool(t.Context(), tool, map[string]any{"topic": "python", "ambiguous": true},
		facade.WithProgress(func(p mcpvisor.Progress) { progress = append(progress, p.Message) }))
	require.NoError(t, err)
	require.Contains(t, result.Content[0].(*mcp.TextContent).Text, "python")
	require.Equal(t, 1, asked)
	require.NotEmpty(t, progress)

	task, err := c.StartTask(t.Context(), tool, map[string]any{"topic": "go"})
	require.NoError(t, err)
	require.Len(t, c.Tasks(), 1)
	status, _ := c.ServerStatus("everything")
	require.NoError(t, syscall.Kill(status.Session.PID, syscall.SIGKILL))
	_, err = task.Wait(t.Context())
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.ErrorContains(t, err, "did not survive")
	require.NotContains(t, err.Error(), task.ID())
}
