package gateway

import (
	"context"
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

// askingClient has a server whose tasks ask one question.
func askingClient(t *testing.T) *facade.Client {
	t.Helper()
	c, err := facade.New(facade.WithDeclared(facade.Declared{Elicitation: true}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), jobServer("2025-11-25", mcptest.TaskDef{Input: []byte(oneQuestion)})))
	return c
}

// What waits for the answers of a client ends with the task, and with the handler.
func TestTasks_input_of_a_canceled_task(t *testing.T) {
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			c := askingClient(t)
			s, url := serveHTTP(t, c)
			p := follower(t, url, true)
			id := p.begin("x")
			p.await(id, task.InputRequired)
			until(t, func() bool { return len(c.Tasks()) == 1 }) // tasks/result waits
			held := s.gateway.opts.settings.holdings.total
			until(t, func() bool { return held.Used() > 4<<10 }) // its question
			if how == "close" {
				s.Close()
			} else {
				require.Nil(t, p.ask("tasks/cancel", about(id)).Error)
			}
			until(t, func() bool { return len(c.Tasks()) == 0 })
			until(t, func() bool { return held.Used() == 0 })
		})
	}
}

// Answers that nothing waits for are refused: the client would take them for passed on.
func TestTasks_input_that_nothing_waits_for(t *testing.T) {
	c := askingClient(t)
	s, url := serveHTTP(t, c)
	p := follower(t, url, true)
	id := p.begin("x")
	p.await(id, task.InputRequired)
	until(t, func() bool { return len(c.Tasks()) == 1 })
	s.gateway.tasks.StopWaiting() // as after a minute
	until(t, func() bool { return len(c.Tasks()) == 0 })
	answer := `{"taskId":"` + id + `","inputResponses":{"k":{"action":"decline"}}}`
	until(t, func() bool {
		a := p.ask("tasks/update", answer)
		return a.Error != nil && strings.Contains(a.Error.Error(), "ask again with tasks/get")
	})
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
