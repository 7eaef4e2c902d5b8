package facade_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// twoQuestions is the input of a task that asks the user twice.
var twoQuestions = []byte(`{"a":{"method":"elicitation/create","params":{"mode":"form","message":"A?","requestedSchema":{"type":"object","properties":{}}}},
	"b":{"method":"elicitation/create","params":{"mode":"form","message":"B?","requestedSchema":{"type":"object","properties":{}}}}}`)

var accepted = &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}

// A host without a handler answers what a task asks by hand, also when the server ends meanwhile.
func TestTask_Answer(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Durable: true, Poll: 10 * time.Millisecond, Input: twoQuestions}, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
		if strings.Contains(t.Name(), "2025-11-25") {
			t.Skip("servers of 2025-11-25 ask handlers")
		}
		j := new(memoryJournal)
		c := journaled(t, j, "")
		require.NoError(t, c.Register(t.Context(), spec))
		task, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
		require.NoError(t, err)
		require.Equal(t, "input_required", task.State().State)
		require.EqualValues(t, 1, task.State().Number)
		for range 2 {
			_, err = task.Wait(t.Context())
			require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
		}
		require.Len(t, c.Tasks(), 1, "the task is open")
		require.Equal(t, mcpvisor.JournalTask, j.entries[mcpvisor.JournalKey{Key: "k"}].State)

		inputs, err := task.Inputs(t.Context())
		require.NoError(t, err)
		require.Len(t, inputs, 2)
		require.Equal(t, "a", inputs[0].Key)
		require.Equal(t, "elicitation/create", inputs[1].Method)
		require.Contains(t, string(inputs[1].Params), `"message":"B?"`)
		require.ErrorIs(t, task.Answer(t.Context(), "c", accepted), mcpvisor.ErrInvalid)
		require.ErrorIs(t, task.Answer(t.Context(), "a", "yes"), mcpvisor.ErrInvalid)
		require.NoError(t, task.Answer(t.Context(), "a", accepted))
		require.ErrorIs(t, task.Answer(t.Context(), "a", accepted), mcpvisor.ErrInvalid, "it has the answer")
		_, _ = c.CallTool(t.Context(), "s/crash", nil)
		inputs, err = task.Inputs(t.Context())
		require.NoError(t, err)
		require.Len(t, inputs, 1)
		require.NoError(t, task.Answer(t.Context(), "b", accepted))

		got, err := task.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
		require.Equal(t, "completed", task.State().State)
		require.Equal(t, map[string]int{jobKey: 1}, mcptest.Executions(saw.dir))
		require.Equal(t, mcpvisor.JournalEnded, j.entries[mcpvisor.JournalKey{Key: "k"}].State)
		inputs, err = task.Inputs(t.Context())
		require.NoError(t, err)
		require.Empty(t, inputs)
		require.ErrorContains(t, task.Answer(t.Context(), "b", accepted), "the task has ended")
	})
}

// askingTaskServer is a modern server whose task asks until tasks/update was answered with accept.
func askingTaskServer(update func(line string) string) *mcpvisor.InMemory {
	return rawServer(func(method, line string) string {
		if method == "tasks/update" {
			return update(line)
		}
		return askingTask(method)
	})
}

// askingTask answers as a modern server whose task always asks.
func askingTask(method string) string {
	switch method {
	case "tools/call":
		return `{"resultType":"task","taskId":"secret-1","status":"input_required","pollIntervalMs":1}`
	case "tasks/get":
		return `{"resultType":"complete","taskId":"secret-1","status":"input_required","statusMessage":"secret-1 waits","pollIntervalMs":1,"inputRequests":` + string(oneQuestion) + `}`
	}
	return modernTasks(method)
}

// A server that refuses an answer is not asked again and again: the call ends with the reason. By
// hand, another answer may follow.
func TestTask_Answer_refused(t *testing.T) {
	refuses := func(string) string { return failure + `{"code":-32602,"message":"secret-1 takes numbers only"}` }
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: askingTaskServer(refuses)}, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) { return accepted, nil }))
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)
	require.ErrorContains(t, err, "the server refuses the answer")
	require.ErrorContains(t, err, "*** takes numbers only")

	byHand := newClient(t)
	require.NoError(t, byHand.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: askingTaskServer(refuses)}))
	task, err := byHand.StartTask(t.Context(), "s/x", nil)
	require.NoError(t, err)
	for range 2 {
		err = task.Answer(t.Context(), "a", accepted)
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		require.NotContains(t, err.Error(), "secret-1")
	}
	require.Equal(t, "*** waits", task.State().Message, "ids are secrets in all that is shown")
	require.Equal(t, "*** waits", byHand.Tasks()[0].Message)
}

// A handler that fails while a Wait ends fails no later Wait, which asks it again.
func TestTask_Wait_after_a_handler_failed_at_the_end_of_another(t *testing.T) {
	var updates, gets atomic.Int32
	held, release := make(chan struct{}), make(chan struct{})
	server := rawServer(func(method, _ string) string {
		switch method {
		case "tasks/update":
			updates.Add(1)
		case "tasks/get":
			switch n := gets.Add(1); {
			case updates.Load() > 0:
				return `{"resultType":"complete","taskId":"secret-1","status":"completed","result":{"content":[]}}`
			case n == 2: // the first one has asked the handler
				close(held)
				<-release
			}
		}
		return askingTask(method)
	})
	var asked atomic.Int32
	failed := make(handlerFailed, 1)
	c := newClient(t, facade.WithLogger(zerolog.New(failed).Level(zerolog.WarnLevel)),
		facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			if asked.Add(1) > 1 {
				return accepted, nil
			}
			<-held
			return nil, errors.New("the user is away")
		}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: server}))
	task, err := c.StartTask(t.Context(), "s/x", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-failed
		cancel()
	}()
	_, err = task.Wait(ctx)
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	close(release)
	_, err = task.Wait(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, asked.Load())
	require.EqualValues(t, 1, updates.Load())
}

// handlerFailed gets that the handler has failed, from the log.
type handlerFailed chan struct{}

func (l handlerFailed) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("the user is away")) {
		l <- struct{}{}
	}
	return len(line), nil
}
