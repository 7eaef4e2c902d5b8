package facade_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// endedCalls are the tool calls and ends of tasks that a client reports.
type endedCalls struct {
	mu  sync.Mutex
	all []monitor.EndedCall
}

func (e *endedCalls) option() facade.Option {
	return facade.WithEndedCalls(func(call monitor.EndedCall) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, call)
	}, true)
}

// requireTask requires that a call was reported as a task, and then only its end, and returns that.
func (e *endedCalls) requireTask(t *testing.T) monitor.EndedCall {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.GreaterOrEqual(t, len(e.all), 2)
	require.NotEmpty(t, e.all[0].Task)
	require.Equal(t, "tools/call", e.all[0].Method)
	for _, end := range e.all[1:] {
		require.Equal(t, e.all[0].Task, end.Task)
		require.Equal(t, "tasks/result", end.Method)
		require.Equal(t, "s", end.Server)
		require.Equal(t, e.all[1].Kind, end.Kind)
		require.Nil(t, end.Arguments)
	}
	end := e.all[1]
	e.all = nil
	return end
}

// The end of a task is reported with its outcome, also after a restart of its server.
func TestWithEndedCalls_task(t *testing.T) {
	who := []facade.CallOption{relay.WithPrincipal("ci"), relay.WithClientName("editor 2")}
	onTaskServers(t, mcptest.TaskDef{Takes: 100 * time.Millisecond, Poll: 10 * time.Millisecond, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		var ended endedCalls
		c := registered(t, spec, ended.option())
		task, err := c.StartTask(t.Context(), "s/job", jobArgs, who...)
		require.NoError(t, err)
		require.NoError(t, c.Restart(t.Context(), "s"))
		for range 2 {
			_, err = task.Wait(t.Context())
			require.NoError(t, err)
		}
		end := ended.requireTask(t)
		require.Empty(t, end.Kind)
		require.Equal(t, uint64(2), end.Epoch)
		require.NotZero(t, end.ResultBytes)

		taken := &relay.TaskRelay{}
		_, err = c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), append(who, relay.WithTaskRelay(taken))...)
		require.NoError(t, err)
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		for answer := (relay.TaskAnswer{}); !answer.Ended(); {
			task, err = relay.Of(c).TaskOf(taken.Server, taken.ID, relay.WithTaskOrigin(taken.Origin))
			require.NoError(t, err)
			answer, err = relay.Ask(t.Context(), task)
			require.NoError(t, err)
		}
		for range 2 {
			_, err = task.WaitRaw(t.Context())
			require.NoError(t, err)
			_, err = relay.Ask(t.Context(), task)
			require.NoError(t, err)
		}
		end = ended.requireTask(t)
		require.NotZero(t, end.ResultBytes)
	})
}

// A task that has failed, was canceled or was forgotten has that end. One of a key is reported by who resumes it after a
// restart of the host.
func TestWithEndedCalls_task_without_a_result(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Fail: "the disk is full"}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		var ended endedCalls
		c := registered(t, spec, ended.option())
		task, err := c.StartTask(t.Context(), "s/job", jobArgs, relay.WithPrincipal("ci"), relay.WithClientName("editor 2"))
		require.NoError(t, err)
		_, err = task.Wait(t.Context())
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		end := ended.requireTask(t)
		require.Equal(t, mcpvisor.ErrRPC, end.Kind)
		require.Contains(t, end.Error, "the disk is full")
	})
	onTaskServers(t, mcptest.TaskDef{Takes: time.Hour, Poll: 10 * time.Millisecond}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		var ended endedCalls
		c := registered(t, spec, ended.option())
		for _, cancel := range []bool{true, false} {
			taken := &relay.TaskRelay{}
			_, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), relay.WithTaskRelay(taken), relay.WithPrincipal("ci"), relay.WithClientName("editor 2"))
			require.NoError(t, err)
			task, err := relay.Of(c).TaskOf(taken.Server, taken.ID, relay.WithTaskOrigin(taken.Origin))
			require.NoError(t, err)
			want := mcpvisor.ErrCanceled
			if cancel {
				require.NoError(t, task.Cancel(t.Context()))
				_, err = relay.Ask(t.Context(), task)
				require.NoError(t, err)
			} else {
				if spec.HTTP != nil { // the server lives on
					break
				}
				want = mcpvisor.ErrCrashed
				require.NoError(t, c.Restart(t.Context(), "s"))
				require.NoError(t, c.WaitReady(t.Context(), "s"))
				task, err = relay.Of(c).TaskOf(taken.Server, taken.ID, relay.WithTaskOrigin(taken.Origin))
				require.NoError(t, err)
				_, err = relay.Ask(t.Context(), task)
				require.ErrorIs(t, err, mcpvisor.ErrRPC)
			}
			end := ended.requireTask(t)
			require.Equal(t, want, end.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, end.Outcome)
			require.NotContains(t, end.Error, taken.ID)
		}
	})
	onTaskServers(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		var ended endedCalls
		c := registered(t, spec, ended.option())
		task, err := c.StartTask(t.Context(), "s/job", jobArgs)
		require.NoError(t, err)
		require.NoError(t, c.Unregister(t.Context(), "s"))
		for range 2 {
			_, err = task.Wait(t.Context())
			require.ErrorIs(t, err, mcpvisor.ErrClosed)
		}
		require.Len(t, ended.all, 2)
		require.Equal(t, mcpvisor.ErrClosed, ended.requireTask(t).Kind)
	})
	onTaskServers(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		journal := new(memoryJournal)
		key := mcpvisor.JournalKey{Principal: "ci", Key: "k"}
		first := registered(t, spec, facade.WithJournal(journal, ""))
		_, err := first.StartTask(t.Context(), "s/job", jobArgs, relay.WithKeyOf("ci", "k"))
		require.NoError(t, err)
		require.NoError(t, first.Close(t.Context()))
		var ended endedCalls
		c := registered(t, spec, facade.WithJournal(journal, ""), ended.option())
		task, err := c.ResumeTask(t.Context(), key)
		require.NoError(t, err)
		_, err = task.Wait(t.Context())
		require.NoError(t, err)
		require.Len(t, ended.all, 1)
		require.Equal(t, "tasks/result", ended.all[0].Method)
		require.Equal(t, "ci", ended.all[0].Principal)
		require.Empty(t, ended.all[0].Kind)
		require.GreaterOrEqual(t, ended.all[0].Took, 50*time.Millisecond)
	})
	onTaskServers(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		var ended endedCalls
		c := registered(t, spec, facade.WithJournal(new(memoryJournal), ""), ended.option())
		task, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context(), "s"))
		_, err = task.Wait(t.Context())
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.Len(t, ended.all, 1, "the key finds the task again")
		require.NoError(t, c.Start(t.Context(), "s"))
		task, err = c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
		require.NoError(t, err)
		_, err = task.Wait(t.Context())
		require.NoError(t, err)
		require.Empty(t, ended.requireTask(t).Kind)
	})
}
