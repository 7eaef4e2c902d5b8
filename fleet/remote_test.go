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
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
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

// TestRemote_question_beside_another_call: a question of one call is answered although another call without handlers of
// its own ends meanwhile.
func TestRemote_question_beside_another_call(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	_, a, _ := onB(t, mcptest.Script{Versions: []string{"2025-11-25"}}, facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		select {
		case <-answer:
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"city": "x"}}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	question := map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "Where?", "requestedSchema": map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}
	others := make(chan struct{})
	const calls = 8 // the question may come with the number of any of them
	other, endOthers := context.WithCancel(ctx)
	defer endOthers()
	began := make(chan struct{}, calls)
	for range calls {
		go func() {
			_, _ = a.CallTool(other, "s/slow_progress", map[string]any{"steps": 1000, "ms": 100}, facade.WithProgress(func(p mcpvisor.Progress) {
				if p.Progress <= 1 {
					began <- struct{}{}
				}
			}))
			others <- struct{}{}
		}()
	}
	for range calls {
		<-began
	}
	text := make(chan string, 1)
	go func() {
		result, err := a.CallTool(ctx, "s/consult", question)
		if err != nil {
			text <- err.Error()
			return
		}
		text <- schema.Text(result)
	}()
	<-asked
	endOthers()
	for range calls {
		<-others
	}
	close(answer)
	require.Contains(t, <-text, "accept")
}

// steppedWatch is a store that delivers the batches of catalogs one by one, when steps allows it.
type steppedWatch struct {
	store.Store
	on    *atomic.Bool
	came  chan struct{} // a batch waits
	steps chan struct{}
	over  <-chan struct{}
}

type steppedWatcher struct {
	store.Watcher
	of steppedWatch
}

func (s steppedWatch) Watch(ctx context.Context, prefix string, after int64) store.Watcher {
	w := s.Store.Watch(ctx, prefix, after)
	if prefix == records.CatalogPrefix {
		return steppedWatcher{w, s}
	}
	return w
}

func (w steppedWatcher) Next(ctx context.Context) (store.Batch, error) {
	b, err := w.Watcher.Next(ctx)
	if err == nil && len(b.Events) > 0 && w.of.on.Load() {
		select {
		case w.of.came <- struct{}{}:
			<-w.of.steps
		case <-w.of.over:
		}
	}
	return b, err
}

// TestRemote_catalog_that_changes_twice: a record whose catalog the owner no longer has ends no call.
func TestRemote_catalog_that_changes_twice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stepped := steppedWatch{Store: w.store, on: new(atomic.Bool), came: make(chan struct{}), steps: make(chan struct{}), over: t.Context().Done()}
	a := w.join("a", func(c *Config) { c.Store = stepped })
	b := w.join("b", func(c *Config) { c.Labels = map[string]string{"on": "b"} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, []Server{{Name: "s", Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s"))
	began, slow := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		_, err := a.CallTool(ctx, "s/slow_progress", map[string]any{"steps": 30, "ms": 100}, facade.WithProgress(func(mcpvisor.Progress) { began <- struct{}{} }))
		slow <- err
	}()
	<-began
	stepped.on.Store(true)
	published := func() string {
		b.catalogs.mu.Lock()
		defer b.catalogs.mu.Unlock()
		return b.catalogs.own["s"].Digest()
	}
	for i, name := range []string{"one", "two"} {
		before := published()
		_, err = b.CallTool(ctx, "s/add_tool", map[string]any{"name": name})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return published() != before }, 20*time.Second, time.Millisecond)
		if i == 0 {
			<-stepped.came
		}
	}
	stepped.steps <- struct{}{} // the first record, of a catalog that node b has no longer
	require.NoError(t, <-slow)
	<-stepped.came
	stepped.on.Store(false)
	stepped.steps <- struct{}{}
	require.Eventually(t, func() bool { _, ok := a.Tool("s/two"); return ok }, 20*time.Second, 5*time.Millisecond)
}
