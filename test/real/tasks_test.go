//go:build real

package real

import (
	"context"
	"fmt"
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

// examples are the servers that the TypeScript SDK has as examples.
const examples = scope + "server-everything/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/"

// Servers of the TypeScript SDK over HTTP execute tools as tasks, ask while they work, and forget
// their tasks when they are killed.
func TestTasks_of_the_SDK_over_HTTP(t *testing.T) {
	for name, tc := range map[string]struct {
		script, tool string
		args         map[string]any
		want         string
	}{
		"elicitation": {"simpleTaskInteractive.js", "s/confirm_delete", map[string]any{"filename": "f"}, "Deleted 'f'"},
		"sampling":    {"simpleTaskInteractive.js", "s/write_haiku", map[string]any{"topic": "go"}, "Haiku:\nof go"},
		"delay":       {"simpleStreamableHttp.js", "s/delay", map[string]any{"duration": 1500}, "Completed 1500ms delay"},
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			t.Setenv("MCP_PORT", fmt.Sprint(port))
			kill := serve(t, port, examples+tc.script)
			asked, proceed := make(chan struct{}, 10), make(chan struct{}, 10)
			wait := func(ctx context.Context) {
				asked <- struct{}{}
				select {
				case <-proceed:
				case <-ctx.Done():
				}
			}
			c, err := facade.New(facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				wait(ctx)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
			}), facade.WithSamplingHandler(func(ctx context.Context, _ facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
				wait(ctx)
				return &mcp.CreateMessageWithToolsResult{Model: "m", Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: "of go"}}}, nil
			}))
			require.NoError(t, err)
			t.Cleanup(func() { closeClient(t, c) })
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)},
				Policy: mcpvisor.Retry(-1, 50*time.Millisecond)}))
			proceed <- struct{}{}
			got, err := c.CallTool(t.Context(), tc.tool, tc.args)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Content[0].(*mcp.TextContent).Text)

			task, err := c.StartTask(t.Context(), tc.tool, tc.args)
			require.NoError(t, err)
			waited := make(chan error, 1)
			go func() {
				_, err := task.Wait(t.Context())
				waited <- err
			}()
			if name != "delay" {
				<-asked
				<-asked // of this task: the handler waits
			}
			kill()
			serve(t, port, examples+tc.script)
			err = <-waited
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			require.ErrorContains(t, err, "did not survive")
			require.NotContains(t, err.Error(), task.ID())
			require.Empty(t, c.Tasks())
		})
	}
}
