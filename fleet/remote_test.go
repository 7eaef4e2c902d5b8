package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
)

// onB makes two nodes, with server "s" on node b.
func onB(t testing.TB, script mcptest.Script, options ...facade.Option) (w *world, a, b *Node) {
	t.Helper()
	w = newWorld(t)
	w.scripts["s"] = script
	a = w.join("a", func(c *Config) { c.Options = options })
	b = w.join("b", func(c *Config) {
		c.Labels = map[string]string{"on": "b"}
		c.Options = []facade.Option{facade.WithDeclared(facade.Declared{Sampling: true, Elicitation: true, Roots: true})}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, []Server{{Name: "s", Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s"))
	require.Equal(t, "b", nodeOf(a, "s"))
	return w, a, b
}

func TestRemote_all_that_a_call_can_do(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			script := mcptest.Script{Versions: []string{version}}
			_, a, b := onB(t, script, facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"from": "host of a", "server": r.Server}}, nil
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			status, _ := a.ServerStatus("s")
			require.Equal(t, version, status.Session.ProtocolVersion)
			require.Zero(t, status.Session.PID)
			here, _ := b.ServerStatus("s")
			require.Equal(t, "b", here.Session.Node)
			require.NotZero(t, here.Session.PID)

			var reports atomic.Int64
			_, err := a.CallTool(ctx, "s/slow_progress", map[string]any{"steps": 3, "ms": 1}, facade.WithProgress(func(mcpvisor.Progress) { reports.Add(1) }))
			require.NoError(t, err)
			require.EqualValues(t, 3, reports.Load())

			question := map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "Where?", "requestedSchema": map[string]any{
				"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}
			result, err := a.CallTool(ctx, "s/consult", question)
			require.NoError(t, err)
			require.Contains(t, schema.Text(result), "host of a")
			result, err = a.CallTool(ctx, "s/consult", question, facade.WithCallHandlers(&facade.CallHandlers{Elicitation: func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"from": "call"}}, nil
			}}))
			require.NoError(t, err)
			require.Contains(t, schema.Text(result), `"call"`)

			read, err := a.ReadResource(ctx, "s", a.Resources()[0].URI)
			require.NoError(t, err)
			require.NotEmpty(t, read.Contents)
			require.NotEmpty(t, a.Prompts())
			prompt, err := a.GetPrompt(ctx, a.Prompts()[0].Name, map[string]string{"name": "x"})
			require.NoError(t, err)
			require.NotEmpty(t, prompt.Messages)
			require.NoError(t, a.Ping(ctx, "s"))

			_, err = a.CallTool(ctx, "s/fail", map[string]any{"text": "no"})
			require.NoError(t, err)
			short, end := context.WithTimeout(ctx, 100*time.Millisecond)
			defer end()
			_, err = a.CallTool(short, "s/hang", nil)
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
			_, err = a.CallTool(ctx, "s/hang", nil, facade.WithTimeout(100*time.Millisecond))
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)

			_, err = a.CallTool(ctx, "s/add_tool", map[string]any{"name": "new"})
			require.NoError(t, err)
			require.Eventually(t, func() bool { _, ok := a.Tool("s/new"); return ok }, 10*time.Second, 5*time.Millisecond)

			_, err = a.CallTool(ctx, "s/crash", map[string]any{"code": 3})
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			var e *mcpvisor.Error
			require.True(t, errors.As(err, &e))
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			_, err = a.CallTool(ctx, "s/echo", map[string]any{"text": "again"}, facade.WithWaitReady())
			require.NoError(t, err)
		})
	}
}

func TestRemote_subscriptions_logs_and_restart(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			_, a, b := onB(t, mcptest.Script{Versions: []string{version}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			events := a.Watch(ctx, mcpvisor.EventResourceUpdated, mcpvisor.EventLog)
			uri := a.Resources()[0].URI
			require.NoError(t, a.Subscribe(ctx, "s", uri))
			until := func(what string, holds func(mcpvisor.Event) bool) {
				t.Helper()
				for {
					select {
					case e := <-events:
						if holds(e) {
							return
						}
					case <-ctx.Done():
						t.Fatal("no event: " + what)
					}
				}
			}
			_, err := b.CallTool(ctx, "s/touch", map[string]any{"uri": uri})
			require.NoError(t, err)
			until("an update", func(e mcpvisor.Event) bool { return e.URI == uri })
			if version == "2025-11-25" {
				require.NoError(t, a.SetLoggingLevel(ctx, "s", "info"))
				_, err = b.CallTool(ctx, "s/log", map[string]any{"level": "error", "text": "hello"})
				require.NoError(t, err)
				until("a log message", func(e mcpvisor.Event) bool { return e.Log != nil && e.Log.Text == "hello" })
			}

			before, _ := b.ServerStatus("s")
			require.NoError(t, a.Restart(ctx, "s"))
			require.Eventually(t, func() bool {
				now, _ := b.ServerStatus("s")
				return now.Session != nil && now.Session.PID != 0 && now.Session.PID != before.Session.PID
			}, 20*time.Second, 5*time.Millisecond, "it is restarted on its node")
			require.NoError(t, a.WaitReady(ctx, "s"))
			_, err = a.CallTool(ctx, "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
			require.NoError(t, err)
		})
	}
}

func TestRemote_tasks(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			tools := append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "echo", Task: &mcptest.TaskDef{Optional: true}})
			_, a, _ := onB(t, mcptest.Script{Versions: []string{version}, Tools: tools})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			task, err := a.StartTask(ctx, "s/job", map[string]any{"text": "later"})
			require.NoError(t, err)
			result, err := task.Wait(ctx)
			require.NoError(t, err)
			require.Contains(t, schema.Text(result), "later")
			result, err = a.CallTool(ctx, "s/job", map[string]any{"text": "now"})
			require.NoError(t, err)
			require.Contains(t, schema.Text(result), "now")
		})
	}
}
