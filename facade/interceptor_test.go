package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func interceptedClient(t *testing.T, all ...facade.Interceptor) *facade.Client {
	t.Helper()
	var opts []facade.Option
	for _, f := range all {
		opts = append(opts, facade.WithInterceptor(f))
	}
	c := newClient(t, opts...)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	return c
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	require.Len(t, r.Content, 1)
	return r.Content[0].(*mcp.TextContent).Text
}

func TestWithInterceptor(t *testing.T) {
	ctx, args := t.Context(), map[string]any{"text": "x"}

	t.Run("the first is the outermost, around all ways to call", func(t *testing.T) {
		var order string
		note := func(name string) facade.Interceptor {
			return func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
				require.Equal(t, "s/echo", call.Name())
				require.JSONEq(t, `{"text":"x"}`, string(call.Arguments))
				require.True(t, call.Definition.Annotations.ReadOnlyHint)
				order += "<" + name
				r, err := next(ctx, call)
				order += name + ">"
				require.False(t, r.IsError())
				return r, err
			}
		}
		c := interceptedClient(t, note("a"), nil, note("b"))
		r, err := c.CallTool(ctx, "s/echo", args)
		require.NoError(t, err)
		require.Equal(t, "x", textOf(t, r))
		raw, err := c.CallToolRaw(ctx, mcpvisor.Alias("s", "echo"), json.RawMessage(`{"text":"x"}`))
		require.NoError(t, err)
		require.Contains(t, string(raw), `"x"`)
		require.Equal(t, "x", textOf(t, c.CallToolForModel(ctx, "s/echo", args)))
		require.Equal(t, "<a<bb>a><a<bb>a><a<bb>a>", order)
		require.Len(t, callsOf(c, "tools/call"), 3)
	})
	t.Run("a refusal sends and counts nothing", func(t *testing.T) {
		declined := errors.New("the user declined")
		c := interceptedClient(t, func(context.Context, facade.ToolCall, facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{}, declined
		})
		_, err := c.CallTool(ctx, "s/echo", args)
		require.Equal(t, declined, err)
		require.Empty(t, callsOf(c, "tools/call"))
	})
	t.Run("an answer of its own", func(t *testing.T) {
		c := interceptedClient(t, func(context.Context, facade.ToolCall, facade.CallNext) (facade.CallResult, error) {
			return facade.NewCallResult(&mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "not allowed"}}})
		})
		r, err := c.CallTool(ctx, "s/echo", args)
		require.NoError(t, err)
		require.True(t, r.IsError)
		require.Equal(t, "not allowed", textOf(t, r))
		require.Empty(t, callsOf(c, "tools/call"))
	})
	t.Run("other arguments, another tool", func(t *testing.T) {
		c := interceptedClient(t, func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			call.Tool, call.Arguments = "fail", json.RawMessage(`{"text":"changed"}`)
			r, err := next(ctx, call)
			require.True(t, r.IsError())
			decoded, decodeErr := r.Decode()
			require.NoError(t, decodeErr)
			require.Equal(t, "changed", textOf(t, decoded))
			return r, err
		})
		r, err := c.CallTool(ctx, "s/echo", args)
		require.NoError(t, err)
		require.Equal(t, "changed", textOf(t, r))
	})
	t.Run("the outcome of a crash", func(t *testing.T) {
		var seen mcpvisor.Outcome
		c := interceptedClient(t, func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			r, err := next(ctx, call)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			seen = e.Outcome
			return r, err
		})
		_, err := c.CallTool(ctx, "s/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.Equal(t, mcpvisor.OutcomeUnknown, seen)
	})
	t.Run("names and arguments are checked before", func(t *testing.T) {
		var calls atomic.Int32
		c := newClient(t, facade.WithValidation(), facade.WithInterceptor(
			func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
				calls.Add(1)
				return next(ctx, call)
			}))
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Tools: mcpvisor.ToolFilter{Deny: []string{"pid"}}}))
		for tool, row := range map[string]struct {
			args any
			want error
		}{
			"other/echo": {nil, mcpvisor.ErrUnknownServer},
			"s/ecco":     {nil, mcpvisor.ErrUnknownTool},
			"s/pid":      {nil, mcpvisor.ErrUnknownTool},
			"s/add":      {7, mcpvisor.ErrInvalid},
			"s/count":    {map[string]any{"kee": "x"}, mcpvisor.ErrInvalid},
		} {
			_, err := c.CallTool(ctx, tool, row.args)
			require.ErrorIs(t, err, row.want, tool)
			require.ErrorContains(t, err, "call "+tool)
		}
		require.Zero(t, calls.Load(), "no user is asked about such calls")
		require.EqualValues(t, 1, c.Stats().UnknownServer)
		status, _ := c.ServerStatus("s")
		require.EqualValues(t, 2, status.Totals.Refused[mcpvisor.KindInvalid])
		require.EqualValues(t, 2, status.Totals.Refused[mcpvisor.KindUnknownTool])
		_, err := c.CallTool(ctx, "s/count", map[string]any{"key": "x"})
		require.NoError(t, err)
		require.EqualValues(t, 1, calls.Load())
	})
}

// callsOf are the calls with that method that the client has made.
func callsOf(c *facade.Client, method string) (all []mcpvisor.CallRecord) {
	records, _ := c.RecentCalls(0)
	for _, r := range records {
		if r.Method == method {
			all = append(all, r)
		}
	}
	return all
}
