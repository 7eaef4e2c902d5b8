package facade_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// onTaskServers runs f with a server whose tool "job" counts its executions and answers with
// a task, in both eras, in memory, behind a transport of the go-sdk, as a process and over HTTP.
func onTaskServers(t *testing.T, def mcptest.TaskDef, f func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger), faults ...mcptest.Fault) {
	t.Helper()
	for i, version := range []string{"2025-11-25", "2026-07-28"} {
		for n, kind := range []string{"memory", "custom", "process", "HTTP"} {
			t.Run(kind+" "+version, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				script := mcptest.Script{Versions: []string{version}, StateDir: dir, Faults: faults,
					Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "count", Task: &def})}
				spec := mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
				server, calls := countCalls(mcptest.InMemory(script))
				switch kind {
				case "memory":
					spec.InMemory = server
				case "custom":
					spec.Transport = overTransport(server)
				case "HTTP":
					spec.HTTP = &mcpvisor.HTTP{URL: newBridge(t, server).URL}
				default:
					spec.Stdio, calls = mcptest.Stdio(script), nil
				}
				f(t, spec, taskLedger{dir: dir, calls: calls, number: 4*i + n})
			})
		}
	}
}

// taskLedger is what a server of onTaskServers has seen: dir has its executions. calls counts
// the tool calls that it has read; nil for a process. number is that of the server.
type taskLedger struct {
	dir    string
	calls  *atomic.Int64
	number int
}

const jobKey = "order"

// oneQuestion is the input of a task that asks the user once.
var oneQuestion = []byte(`{"a":{"method":"elicitation/create","params":{"mode":"form","message":"A?","requestedSchema":{"type":"object","properties":{}}}}}`)

var jobArgs = map[string]any{"key": jobKey}

// A call is brought to its end where the server makes a task of it, whatever method it is made
// with, and it is executed once.
func TestCallTool_as_a_task(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Poll: 10 * time.Millisecond}, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
		c := registered(t, spec)
		var progress []string
		got, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithProgress(func(p mcpvisor.Progress) { progress = append(progress, p.Message) }))
		require.NoError(t, err)
		require.Equal(t, `{"executions":1,"key":"order"}`, got.Content[0].(*mcp.TextContent).Text)
		require.Equal(t, []string{"it is completed"}, progress)
		raw, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"raw"}`))
		require.NoError(t, err)
		require.Contains(t, string(raw), `"structuredContent":{"executions":1,"key":"raw"}`)
		answer := c.CallToolForModel(t.Context(), "s/job", []byte(`{"key":"model"}`))
		require.False(t, answer.IsError, "%+v", answer)
		require.Equal(t, map[string]int{jobKey: 1, "raw": 1, "model": 1}, mcptest.Executions(saw.dir))
		require.Empty(t, c.Tasks())
		calls, _ := c.History().Calls(0)
		require.Len(t, calls, 3, "the requests about the task are no calls of their own")
		require.GreaterOrEqual(t, calls[0].Took, 50*time.Millisecond)
		require.Positive(t, calls[0].ResultBytes)
	})
}

// requireLost requires the error of a task that did not survive.
func requireLost(t *testing.T, err error, id string) {
	t.Helper()
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.ErrorContains(t, err, "did not survive")
	require.NotContains(t, err.Error(), id, "the id is a secret")
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)
}

// A server that is given up ends the calls that it made tasks of, without a wait for the next
// poll.
func TestCallTool_as_a_task_of_a_server_that_is_given_up(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: time.Hour, Poll: time.Hour, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		if spec.HTTP != nil {
			t.Skip("the next request starts the server again")
		}
		spec.Policy = supervisor.NoRetry()
		c := registered(t, spec)
		task, err := c.StartTask(t.Context(), "s/job", jobArgs)
		require.NoError(t, err)
		began := time.Now()
		_, _ = c.CallTool(t.Context(), "s/crash", nil)
		_, err = task.Wait(t.Context())
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.ErrorContains(t, err, "has not come back")
		require.NotContains(t, err.Error(), "nothing was sent")
		require.NotErrorIs(t, err, mcpvisor.ErrEvicted, "it has one kind: a request to an evicted server is not sent, and this call may have run")
		require.Less(t, time.Since(began), 30*time.Second, "without that, the next answer comes after 30 s")
	})
}

// The end of the context cancels the task; nothing else of the call goes to the server.
func TestCallTool_as_a_task_canceled(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: time.Hour, Poll: 10 * time.Millisecond, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
		c := registered(t, spec)
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, "s/job", jobArgs)
			called <- err
		}()
		require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
		open := c.Tasks()[0]
		require.Equal(t, "s", open.Server)
		require.Equal(t, "job", open.Tool)
		require.Equal(t, "working", open.State)
		cancel()
		err := <-called
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		requireOutcome(t, err, mcpvisor.OutcomeUnknown)
		require.Eventually(t, func() bool { return strings.Contains(taskFiles(t, saw.dir), `"Cancelled":true`) }, 10*time.Second, time.Millisecond)

		task, err := c.StartTask(t.Context(), "s/job", jobArgs)
		require.NoError(t, err)
		require.NoError(t, task.Cancel(t.Context()))
		_, err = task.Wait(t.Context())
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.ErrorContains(t, err, "the server has canceled the task: it is cancelled")
	})
}

// A server that says when a task changes is not asked until then, however seldom it wants to be
// asked.
func TestCallTool_as_a_task_of_which_the_server_tells(t *testing.T) {
	for name, input := range map[string][]byte{"works": nil, "asks": oneQuestion} {
		t.Run(name, func(t *testing.T) {
			def := mcptest.TaskDef{Takes: 100 * time.Millisecond, Poll: time.Hour, Notify: true, Input: input}
			onTaskServers(t, def, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
				asked := make(chan struct{}, 2)
				c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
					asked <- struct{}{}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
				}))
				require.NoError(t, c.Register(t.Context(), spec))
				began := time.Now()
				got, err := c.CallTool(t.Context(), "s/job", jobArgs)
				require.NoError(t, err)
				require.Equal(t, `{"executions":1,"key":"order"}`, got.Content[0].(*mcp.TextContent).Text)
				require.Less(t, time.Since(began), 30*time.Second, "without being told, the next answer comes after 30 s")
				require.Equal(t, input != nil, len(asked) == 1)
				require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(saw.dir))
			})
		})
	}
}

// A task that has failed gives the error of the call.
func TestCallTool_as_a_task_that_fails(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Fail: "no such order"}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		c := registered(t, spec)
		_, err := c.CallTool(t.Context(), "s/job", jobArgs)
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		require.ErrorContains(t, err, "no such order")
		requireOutcome(t, err, mcpvisor.OutcomeAnswered)
	})
}

// Timeouts.CallTotal bounds a call that has become a task, and not a handle.
func TestCallTool_as_a_task_bounded(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 1100 * time.Millisecond, Poll: 10 * time.Millisecond}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		spec.Timeouts.CallTotal = 500 * time.Millisecond
		c := registered(t, spec)
		_, err := c.CallTool(t.Context(), "s/job", jobArgs)
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		require.ErrorContains(t, err, "Timeouts.CallTotal (500ms)")
		task, err := c.StartTask(t.Context(), "s/job", jobArgs)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = task.Wait(short)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		_, err = task.Wait(t.Context())
		require.NoError(t, err)
		_, err = task.Wait(t.Context())
		require.NoError(t, err, "the result is kept")
	})
}

// A task asks the handlers of the host, each key once, also when the server ends meanwhile: an
// answer that the server may have lost is sent again.
func TestCallTool_as_a_task_that_asks(t *testing.T) {
	input := `{"a":{"method":"elicitation/create","params":{"mode":"form","message":"A?","requestedSchema":{"type":"object","properties":{}}}},
		"b":{"method":"elicitation/create","params":{"mode":"form","message":"B?","requestedSchema":{"type":"object","properties":{}}}}}`
	for name, crash := range map[string]bool{"quiet": false, "crash": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var asked atomic.Int32
			var c *facade.Client
			c = newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				if asked.Add(1) == 2 && crash {
					_, _ = c.CallTool(context.Background(), "s/crash", nil)
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			}))
			script := mcptest.Script{Versions: []string{"2026-07-28"}, StateDir: dir, Tools: append(mcptest.DefaultTools(),
				mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Durable: true, Poll: 10 * time.Millisecond, Input: []byte(input)}})}
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script),
				Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}))
			_, err := c.CallTool(t.Context(), "s/job", jobArgs)
			require.NoError(t, err)
			if !crash {
				require.EqualValues(t, 2, asked.Load())
			}
			require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(dir))
		})
	}
	t.Run("no handler", func(t *testing.T) {
		c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{"2026-07-28"},
			Tools: []mcptest.ToolDef{{Name: "job", Task: &mcptest.TaskDef{Input: []byte(input)}}}})})
		_, err := c.CallTool(t.Context(), "s/job", nil)
		require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
		require.ErrorContains(t, err, "WithElicitationHandler")
	})
}

// In 2025-11-25 a tool that allows tasks is called without one, but by StartTask.
func TestStartTask_of_a_tool_that_allows_tasks(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{"2025-11-25"},
		Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "echo", Task: &mcptest.TaskDef{Optional: true}})})})
	support := map[string]string{}
	for _, tool := range c.Tools() {
		support[tool.OriginalName] = tool.TaskSupport
	}
	require.Equal(t, "optional", support["job"])
	require.Empty(t, support["echo"])
	_, err := c.CallTool(t.Context(), "s/job", map[string]any{"text": "x"})
	require.NoError(t, err)
	task, err := c.StartTask(t.Context(), "s/job", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.NotEmpty(t, task.ID())
	got, err := task.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "x", got.Content[0].(*mcp.TextContent).Text)
	immediate, err := c.StartTask(t.Context(), "s/echo", map[string]any{"text": "y"})
	require.NoError(t, err)
	require.Empty(t, immediate.ID(), "the server has answered")
	require.NoError(t, immediate.Cancel(t.Context()))
	got, err = immediate.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "y", got.Content[0].(*mcp.TextContent).Text)
}

// taskFiles returns what the durable tasks of a server have become, as text.
func taskFiles(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "task-*"))
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range names {
		text, _ := os.ReadFile(name) // the server may be replacing it
		all.Write(text)
	}
	return all.String()
}

// The server, or the client, is closed while it works on a task.
func TestTask_Wait_of_a_server_that_is_removed(t *testing.T) {
	for name, end := range map[string]func(c *facade.Client) error{
		"Unregister": func(c *facade.Client) error { return c.Unregister(context.Background(), "s") },
		"Close":      func(c *facade.Client) error { return c.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			onTaskServers(t, mcptest.TaskDef{Takes: time.Hour, Poll: time.Hour}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
				c := registered(t, spec)
				task, err := c.StartTask(t.Context(), "s/job", jobArgs)
				require.NoError(t, err)
				require.Len(t, c.Tasks(), 1)
				waited := make(chan error, 1)
				go func() {
					_, err := task.Wait(t.Context())
					waited <- err
				}()
				require.NoError(t, end(c))
				err = <-waited
				require.ErrorIs(t, err, mcpvisor.ErrClosed)
				requireOutcome(t, err, mcpvisor.OutcomeUnknown)
				require.Empty(t, c.Tasks())
			})
		})
	}
}

// legacyTask is a server of 2025-11-25 whose task has a status, and whose tasks/result is answered
// by result.
func legacyTask(status string, result func(n int) string) *mcpvisor.InMemory {
	n := 0
	return rawServer(func(method, _ string) string {
		task := `"taskId":"secret-1","status":"` + status + `","pollInterval":1`
		switch method {
		case "tools/call":
			return `{"task":{` + task + `}}`
		case "tasks/get":
			return `{` + task + `}`
		case "tasks/result":
			n++
			return result(n)
		}
		return legacyTasks(method)
	})
}

// In 2025-11-25 the result of a task is fetched after its end. A server that has lost it does not
// answer the call with that; only the error of a task that has failed is that of the call.
func TestCallTool_as_a_task_whose_result_is_refused(t *testing.T) {
	for name, row := range map[string]struct {
		status, failure string
		kind            error
		outcome         mcpvisor.Outcome
	}{
		"completed, unknown": {"completed", `{"code":-32602,"message":"no task secret-1"}`, mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown},
		"completed, broken":  {"completed", `{"code":-32603,"message":"secret-1 is broken"}`, mcpvisor.ErrRPC, mcpvisor.OutcomeUnknown},
		"failed":             {"failed", `{"code":-32602,"message":"no such order"}`, mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: legacyTask(row.status, func(n int) string {
				asked = n
				return failure + row.failure
			})})
			task, err := c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err)
			_, err = task.Wait(t.Context())
			require.ErrorIs(t, err, row.kind)
			requireOutcome(t, err, row.outcome)
			require.NotContains(t, err.Error(), "secret-1")
			require.LessOrEqual(t, asked, 4)
		})
	}
}

// A host that stops waiting for the result of a task that has ended gets it later: the journal
// does not take that for the end of the call.
func TestWithKey_of_a_task_whose_result_was_not_awaited(t *testing.T) {
	j, ctx, cancel := new(memoryJournal), t.Context(), context.CancelFunc(nil)
	ctx, cancel = context.WithCancel(ctx)
	c := journaled(t, j, "")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: legacyTask("completed", func(n int) string {
		if n == 1 {
			cancel()
			return silence
		}
		return `{"content":[{"type":"text","text":"fine"}]}`
	})}))
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.Equal(t, mcpvisor.JournalTask, j.entries[mcpvisor.JournalKey{Key: "k"}].State)
	got, err := c.CallTool(t.Context(), "s/x", nil, facade.WithKey("k"))
	require.NoError(t, err)
	require.Equal(t, "fine", text(t, got))
}

// The error of a task that has failed is kept as a result is.
func TestWithKey_of_a_task_that_fails(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Fail: "no such order"}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		j := new(memoryJournal)
		c := journaled(t, j, "")
		require.NoError(t, c.Register(t.Context(), spec))
		for range 2 {
			_, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			requireOutcome(t, err, mcpvisor.OutcomeAnswered)
			require.ErrorContains(t, err, "no such order")
			require.Equal(t, mcpvisor.JournalEnded, j.entries[mcpvisor.JournalKey{Key: "k"}].State)
			require.NoError(t, c.Restart(t.Context(), "s")) // it forgets the task
			require.NoError(t, c.WaitReady(t.Context(), "s"))
		}
	})
}

// A handle that was made for a key is listed while a caller waits for it, and leaves nothing.
func TestResumeTask_leaves_nothing(t *testing.T) {
	c := journaled(t, new(memoryJournal), "")
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: time.Hour}}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script)}))
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/job", jobArgs, facade.WithKey("k"))
		called <- err
	}()
	require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-called, mcpvisor.ErrCanceled)
	task, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
	require.NoError(t, err)
	require.Empty(t, c.Tasks())
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, err := task.Wait(ctx)
		called <- err
	}()
	require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-called, mcpvisor.ErrCanceled)
	require.Empty(t, c.Tasks())
}

// Some servers answer with another error than the protocol names for a task that they do not know.
func TestTask_Wait_of_a_task_that_the_next_incarnation_fails_for(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		c := newClient(t)
		server := rawTasks(`{"resultType":"task","taskId":"secret-1","status":"working","pollIntervalMs":10}`, func(int) string {
			if starts == 1 {
				return `{"resultType":"complete","taskId":"secret-1","status":"working","pollIntervalMs":10}`
			}
			return failure + `{"code":-32603,"message":"task secret-1 not found"}`
		})
		serve := server.Serve
		server.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, errs io.Writer) error {
			starts++
			return serve(ctx, in, out, errs)
		}
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: server, Policy: supervisor.Retry(1, time.Millisecond)}))
		task, err := c.StartTask(t.Context(), "s/x", nil)
		require.NoError(t, err)
		require.NoError(t, c.Restart(t.Context(), "s"))
		_, err = task.Wait(t.Context())
		requireLost(t, err, "secret-1")
	})
}

// A task is handed to the caller as the server has sent it, and is asked for by its names alone.
func TestWithTaskRelay(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Poll: 10 * time.Millisecond, Optional: true}, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
		c := registered(t, spec)
		taken := &relay.TaskRelay{TTL: time.Minute}
		raw, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), relay.WithTaskRelay(taken))
		require.NoError(t, err)
		require.Equal(t, "s", taken.Server)
		require.Contains(t, string(raw), taken.ID)
		status, _ := c.ServerStatus("s")
		require.Equal(t, status.Session.ProtocolVersion >= "2026-07-28", taken.Modern)
		require.Empty(t, c.Tasks(), "the client does not follow it")

		task, err := relay.Of(c).TaskOf(taken.Server, taken.ID)
		require.NoError(t, err)
		answer, err := relay.Ask(t.Context(), task)
		require.NoError(t, err)
		require.Contains(t, string(answer.JSON), taken.ID)
		require.Equal(t, taken.Modern, answer.Modern)
		raw, err = task.WaitRaw(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(raw), `"executions":1`)
		again, err := relay.Of(c).TaskOf(taken.Server, taken.ID)
		require.NoError(t, err)
		answer, err = relay.Ask(t.Context(), again)
		require.NoError(t, err)
		require.True(t, answer.Ended())
		require.Equal(t, "completed", answer.State)
		require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(saw.dir))

		unknown, err := relay.Of(c).TaskOf("s", "no-such-task")
		require.NoError(t, err)
		_, err = relay.Ask(t.Context(), unknown)
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		require.NotContains(t, err.Error(), "no-such-task")
	})
}

// A call without a task leaves the relay empty, and a task cannot go to two.
func TestWithTaskRelay_without_a_task(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})})
	taken := &relay.TaskRelay{}
	_, err := c.CallToolRaw(t.Context(), "s/echo", []byte(`{"text":"x"}`), relay.WithTaskRelay(taken))
	require.NoError(t, err)
	require.Empty(t, taken.ID)
	_, err = c.StartTask(t.Context(), "s/echo", json.RawMessage(`{"text":"x"}`), relay.WithTaskRelay(taken))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = relay.Of(c).TaskOf("unknown", "id")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	for _, id := range []string{"", strings.Repeat("x", 1025)} {
		_, err = relay.Of(c).TaskOf("s", id)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
}

// A task that has failed is an answer, and what the task asks for is answered as it is.
func TestTask_Ask(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Input: oneQuestion, Fail: "the disk is full"}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		c := registered(t, spec)
		taken := &relay.TaskRelay{}
		_, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), relay.WithTaskRelay(taken))
		require.NoError(t, err)
		task, err := relay.Of(c).TaskOf(taken.Server, taken.ID)
		require.NoError(t, err)
		answer, err := relay.Ask(t.Context(), task)
		require.NoError(t, err)
		require.Equal(t, "input_required", answer.State)
		require.ErrorIs(t, relay.Respond(t.Context(), task, json.RawMessage(`[]`)), mcpvisor.ErrInvalid)
		err = relay.Respond(t.Context(), task, json.RawMessage(`{"a":{"action":"decline"}}`))
		if !taken.Modern {
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			return
		}
		require.NoError(t, err)
		answer, err = relay.Ask(t.Context(), task)
		require.NoError(t, err)
		require.Equal(t, "failed", answer.State)
		require.Contains(t, string(answer.JSON), "the disk is full")
	})
}

// A task is watched over the end of its server, until it has ended.
func TestTask_Watch(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: time.Second, Notify: true, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		if spec.HTTP != nil {
			t.Skip("its sessions end without the server")
		}
		c := registered(t, spec)
		taken := &relay.TaskRelay{}
		_, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), relay.WithTaskRelay(taken))
		require.NoError(t, err)
		task, err := relay.Of(c).TaskOf(taken.Server, taken.ID)
		require.NoError(t, err)
		states := make(chan string, 100)
		watched := make(chan error, 1)
		go func() { watched <- relay.Watch(t.Context(), task, func(a relay.TaskAnswer) { states <- a.State }) }()
		require.Equal(t, "working", <-states)
		if taken.Modern { // the next incarnation of the fixture tells of a task of 2025-11-25 only if it is changed
			_, err = c.CallTool(t.Context(), "s/crash", nil)
			require.Error(t, err)
		}
		deadline := time.After(25 * time.Second) // the task is asked for every 30 s in any case
		for state := "working"; state != "completed"; {
			select {
			case state = <-states:
			case <-deadline:
				require.FailNow(t, "the end was not told")
			}
		}
		require.NoError(t, <-watched)
	})
}
