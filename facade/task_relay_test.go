package facade_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A task is handed to the caller as the server has sent it, and is asked for by its names alone.
func TestWithTaskRelay(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 50 * time.Millisecond, Poll: 10 * time.Millisecond, Optional: true}, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		relay := &facade.TaskRelay{TTL: time.Minute}
		raw, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), facade.WithTaskRelay(relay))
		require.NoError(t, err)
		require.Equal(t, "s", relay.Server)
		require.Contains(t, string(raw), relay.ID)
		status, _ := c.ServerStatus("s")
		require.Equal(t, status.Session.ProtocolVersion >= "2026-07-28", relay.Modern)
		require.Empty(t, c.Tasks(), "the client does not follow it")

		task, err := c.TaskOf(relay.Server, relay.ID)
		require.NoError(t, err)
		answer, err := task.Ask(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(answer.JSON), relay.ID)
		require.Equal(t, relay.Modern, answer.Modern)
		raw, err = task.WaitRaw(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(raw), `"executions":1`)
		again, err := c.TaskOf(relay.Server, relay.ID)
		require.NoError(t, err)
		answer, err = again.Ask(t.Context())
		require.NoError(t, err)
		require.True(t, answer.Ended())
		require.Equal(t, "completed", answer.State)
		require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(saw.dir))

		unknown, err := c.TaskOf("s", "no-such-task")
		require.NoError(t, err)
		_, err = unknown.Ask(t.Context())
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		require.NotContains(t, err.Error(), "no-such-task")
	})
}

// A call without a task leaves the relay empty, and a task cannot go to two.
func TestWithTaskRelay_without_a_task(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	relay := &facade.TaskRelay{}
	_, err := c.CallToolRaw(t.Context(), "s/echo", []byte(`{"text":"x"}`), facade.WithTaskRelay(relay))
	require.NoError(t, err)
	require.Empty(t, relay.ID)
	_, err = c.StartTask(t.Context(), "s/echo", json.RawMessage(`{"text":"x"}`), facade.WithTaskRelay(relay))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = c.TaskOf("unknown", "id")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	for _, id := range []string{"", strings.Repeat("x", 1025)} {
		_, err = c.TaskOf("s", id)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
}

// A task that has failed is an answer, and what the task asks for is answered as it is.
func TestTask_Ask(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Input: oneQuestion, Fail: "the disk is full"}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		relay := &facade.TaskRelay{}
		_, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), facade.WithTaskRelay(relay))
		require.NoError(t, err)
		task, err := c.TaskOf(relay.Server, relay.ID)
		require.NoError(t, err)
		answer, err := task.Ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, "input_required", answer.State)
		require.ErrorIs(t, task.Respond(t.Context(), json.RawMessage(`[]`)), mcpvisor.ErrInvalid)
		err = task.Respond(t.Context(), json.RawMessage(`{"a":{"action":"decline"}}`))
		if !relay.Modern {
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			return
		}
		require.NoError(t, err)
		answer, err = task.Ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, "failed", answer.State)
		require.Contains(t, string(answer.JSON), "the disk is full")
	})
}

// A task is watched over the end of its server, until it has ended.
func TestTask_Watch(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 500 * time.Millisecond, Notify: true, Durable: true}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		if spec.HTTP != nil {
			t.Skip("its sessions end without the server")
		}
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		relay := &facade.TaskRelay{}
		_, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"order"}`), facade.WithTaskRelay(relay))
		require.NoError(t, err)
		task, err := c.TaskOf(relay.Server, relay.ID)
		require.NoError(t, err)
		states := make(chan string, 100)
		watched := make(chan error, 1)
		go func() { watched <- task.Watch(t.Context(), func(a facade.TaskAnswer) { states <- a.State }) }()
		require.Equal(t, "working", <-states)
		if relay.Modern { // the next incarnation of the fixture tells of a task of 2025-11-25 only if it is changed
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
