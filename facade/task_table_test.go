package facade_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// taskMoment is when a server ends, in the life of a call that it executes as a task.
type taskMoment string

const (
	beforeTask taskMoment = "before the task"
	working    taskMoment = "while working"
	asking     taskMoment = "while asking"
	completed  taskMoment = "after completion"
	onCancel   taskMoment = "on cancel"
)

// taskEnds are the ways in which a server is replaced. A call that has ended may close the client
// meanwhile, so errors show in the end of the row alone.
var taskEnds = map[string]func(c *facade.Client, spec mcpvisor.ServerSpec){
	"cold": func(c *facade.Client, _ mcpvisor.ServerSpec) {
		_, _ = c.CallTool(context.Background(), "s/crash", nil)
	},
	"standby": func(c *facade.Client, _ mcpvisor.ServerSpec) {
		_, _ = c.CallTool(context.Background(), "s/crash", nil)
	},
	"restart": func(c *facade.Client, _ mcpvisor.ServerSpec) {
		_ = c.Restart(context.Background(), "s")
		_ = c.WaitReady(context.Background(), "s") // the old session has ended by then
	},
	"reload": func(c *facade.Client, spec mcpvisor.ServerSpec) {
		spec.Timeouts.CallTotal = time.Minute
		_ = c.Apply(context.Background(), []mcpvisor.ServerSpec{spec})
	},
}

// What becomes of a call is the same wherever the server runs: the result if the server has kept
// the task, and otherwise an error of unknown outcome. Docs/tasks.md has this table. The tool is
// executed once in every row, by the count of the server.
func TestCallTool_as_a_task_whose_server_ends(t *testing.T) {
	for i, at := range []taskMoment{beforeTask, working, asking, completed, onCancel} {
		for j, way := range slices.Sorted(maps.Keys(taskEnds)) {
			for k, name := range []string{"durable", "forgetful"} {
				durable, end := name == "durable", taskEnds[way]
				t.Run(string(at)+", "+way+", "+name, func(t *testing.T) {
					t.Parallel()
					def, faults := taskOf(at, way)
					def.Durable = durable
					onTaskServers(t, def, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
						if isLeftOut(i + 2*j + k + saw.number) {
							t.Skip("-everything runs it")
						}
						spec.Timeouts.Drain = time.Millisecond // a reload does not wait for the task
						row := taskRow{at: at, way: way, end: func(c *facade.Client) { end(c, spec) }, spec: spec, saw: saw,
							// A session over HTTP ends without its server.
							kept: durable || spec.HTTP != nil && (way == "reload" || way == "restart")}
						row.run(t)
					}, faults...)
				})
			}
		}
	}
}

// taskOf returns the task of a row, and what the server does wrong.
func taskOf(at taskMoment, way string) (mcptest.TaskDef, []mcptest.Fault) {
	switch at {
	case beforeTask:
		do := mcptest.ActionExit
		if way == "reload" || way == "restart" {
			do = mcptest.ActionHang
		}
		return mcptest.TaskDef{}, []mcptest.Fault{
			{At: mcptest.StageCall, Tool: "job", Do: mcptest.ActionStderrLine, Text: "called"},
			{At: mcptest.StageCall, Tool: "job", Do: do},
		}
	case working, onCancel:
		return mcptest.TaskDef{Takes: time.Second, Poll: 20 * time.Millisecond}, nil
	case asking:
		return mcptest.TaskDef{Poll: 10 * time.Millisecond, Input: oneQuestion}, nil
	case completed: // it has ended when it is asked for first, which is later
	}
	return mcptest.TaskDef{Takes: time.Millisecond, Poll: time.Second}, nil
}

// taskRow is one row of the table, with one kind of server.
type taskRow struct {
	at   taskMoment
	way  string
	end  func(c *facade.Client)
	spec mcpvisor.ServerSpec
	saw  taskLedger
	kept bool // the next incarnation knows the task
}

func (r *taskRow) run(t *testing.T) {
	if r.way == "standby" {
		if r.spec.Stdio == nil && r.spec.InMemory == nil {
			t.Skip("only servers that the client starts have a standby")
		}
		r.spec.Standby = true
	}
	var c *facade.Client
	var once sync.Once
	c = newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		once.Do(func() { r.end(c) })
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}))
	standby := watch(t, c, mcpvisor.EventStandby)
	require.NoError(t, c.Register(t.Context(), r.spec))
	if r.spec.Standby {
		next(t, standby)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	called := make(chan error, 1)
	go func() {
		got, err := c.CallTool(ctx, "s/job", jobArgs)
		if err == nil && got.Content[0].(*mcp.TextContent).Text != `{"executions":1,"key":"order"}` {
			err = context.DeadlineExceeded
		}
		called <- err
	}()
	switch r.at {
	case beforeTask:
		if r.way == "reload" || r.way == "restart" {
			r.awaitCall(t, c)
			r.end(c)
		}
		err := <-called
		require.Error(t, err)
		requireOutcome(t, err, mcpvisor.OutcomeUnknown)
		require.Empty(t, mcptest.Executions(r.saw.dir))
		return
	case onCancel:
		require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
		cancel()
		r.end(c)
		err := <-called
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		requireOutcome(t, err, mcpvisor.OutcomeUnknown)
	case working, completed:
		require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
		r.end(c)
		r.requireEnd(t, c, <-called)
	case asking: // the handler ends the server
		r.requireEnd(t, c, <-called)
	}
	require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(r.saw.dir))
	require.Empty(t, c.Tasks())
}

// awaitCall waits until the server has read the call.
func (r *taskRow) awaitCall(t *testing.T, c *facade.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		if r.saw.calls != nil {
			return r.saw.calls.Load() == 1
		}
		stderr, _ := c.Stderr("s")
		return slices.Contains(stderr.Lines, "called")
	}, 10*time.Second, time.Millisecond)
}

// requireEnd requires the end of a call whose server has ended after it made the task.
func (r *taskRow) requireEnd(t *testing.T, c *facade.Client, err error) {
	t.Helper()
	status, ok := c.ServerStatus("s")
	require.True(t, ok)
	if r.kept {
		require.NoError(t, err)
		require.Zero(t, status.Totals.TasksLost)
		// A reload begins a registration, and a server of 2026-07-28 over HTTP may end without a sign.
		if r.way != "reload" && r.spec.HTTP == nil {
			require.EqualValues(t, 1, status.Totals.TasksRecovered)
		}
		return
	}
	requireLost(t, err, "task-")
	require.EqualValues(t, 1, status.Totals.TasksLost)
	require.Zero(t, status.Totals.TasksRecovered)
}
