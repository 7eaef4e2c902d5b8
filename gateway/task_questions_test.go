package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// newHeldTask is a task that is not asked for.
func newHeldTask() *heldTask {
	return &heldTask{asked: make(chan struct{}, 1), prefix: "p-", open: map[string]*taskQuestion{}}
}

func elicit(params string) facade.ServerRequest {
	return facade.ServerRequest{Server: "s", Method: "elicitation/create", Params: json.RawMessage(params)}
}

// A question waits until it is answered or withdrawn. There are few at once, and none is long.
func TestHeldTask(t *testing.T) {
	q := newHeldTask()
	ctx, cancel := context.WithCancel(t.Context())
	answers, withdrawn := make(chan string, 1), make(chan error, maxTaskQuestions)
	go func() {
		raw, _ := q.ask(t.Context(), elicit(`{"message":"?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"secret"}}}`))
		answers <- string(raw)
	}()
	require.JSONEq(t, `{"p-1":{"method":"elicitation/create","params":{"message":"?","_meta":{}}}}`, string(q.requests(t.Context())))
	for range maxTaskQuestions - 1 {
		go func() {
			_, err := q.ask(ctx, elicit(`{}`))
			withdrawn <- err
		}()
	}
	until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.open) == maxTaskQuestions
	})
	_, err := q.ask(t.Context(), elicit(`{}`))
	require.Equal(t, errTooManyQuestions, err)
	q.answer([]byte(`{"other":{},"p-1":{"action":"accept"}}`))
	require.Equal(t, `{"action":"accept"}`, receive(t, answers))
	q.answer([]byte(`{"p-1":{"action":"again"}}`))
	_, err = q.ask(t.Context(), elicit(`{"message":"`+strings.Repeat("x", maxTaskQuestionBytes)+`"}`))
	require.Equal(t, errTooManyQuestions, err)
	cancel()
	for range maxTaskQuestions - 1 {
		require.ErrorIs(t, receive(t, withdrawn), context.Canceled)
	}
	require.JSONEq(t, `{}`, string(q.requests(t.Context())))
}

// What waits for the answers of a client ends with the task, and with the handler.
func TestTasks_input_of_a_canceled_task(t *testing.T) {
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			c, err := facade.New(facade.WithDeclared(facade.Declared{Elicitation: true}))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
			require.NoError(t, c.Register(t.Context(), jobServer("2025-11-25", mcptest.TaskDef{Input: []byte(oneQuestion)})))
			s, url := serveHTTP(t, c)
			p := follower(t, url, true)
			id := p.begin("x")
			p.await(id, task.InputRequired)
			until(t, func() bool { return len(c.Tasks()) == 1 }) // tasks/result waits
			if how == "close" {
				s.Close()
			} else {
				require.Nil(t, p.ask("tasks/cancel", about(id)).Error)
			}
			until(t, func() bool { return len(c.Tasks()) == 0 })
		})
	}
}

// A client that answers nothing leaves what a task asks for to the host.
func TestTasks_input_for_the_host(t *testing.T) {
	asked := make(chan struct{}, 10)
	c, err := facade.New(facade.WithElicitationHandler(elicitationOf(asked)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), jobServer("2025-11-25", mcptest.TaskDef{Input: []byte(oneQuestion)})))
	_, url := serveHTTP(t, c)
	p := newTasker(t, url, true, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	id := p.begin("x")
	require.Contains(t, string(p.outcome(id)), `"executions":1`)
	receive(t, asked)
}

// Interceptors see calls of which tasks are made, and may refuse them.
func TestTasks_intercepted(t *testing.T) {
	seen := make(chan string, 10)
	c, err := facade.New(facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		if strings.Contains(string(call.Arguments), "refuse") {
			return facade.CallResult{}, errors.New("not today")
		}
		r, err := next(ctx, call)
		seen <- string(r.JSON)
		return r, err
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), jobServer("2026-07-28", mcptest.TaskDef{Takes: time.Hour})))
	_, url := serveHTTP(t, c)
	p := follower(t, url, true)
	p.get(p.begin("x"))
	require.Contains(t, receive(t, seen), `"resultType":"task"`)
	require.Contains(t, string(p.job("refuse").Result), "refused")
}

func elicitationOf(asked chan<- struct{}) func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
	return func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}
}
