package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

func interceptedClient(t *testing.T, all ...facade.Interceptor) *facade.Client {
	t.Helper()
	var opts []facade.Option
	for _, f := range all {
		opts = append(opts, facade.WithInterceptor(f))
	}
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, opts...)
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
		require.EqualValues(t, 2, status.Totals.Refused[mcpvisor.ErrInvalid])
		require.EqualValues(t, 2, status.Totals.Refused[mcpvisor.ErrUnknownTool])
		_, err := c.CallTool(ctx, "s/count", map[string]any{"key": "x"})
		require.NoError(t, err)
		require.EqualValues(t, 1, calls.Load())
	})
}

// callsOf are the calls with that method that the client has made.
func callsOf(c *facade.Client, method string) (all []monitor.CallRecord) {
	records, _ := c.History().Calls(0)
	for _, r := range records {
		if r.Method == method {
			all = append(all, r)
		}
	}
	return all
}

// passOn is an interceptor that changes nothing.
func passOn(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
	return next(ctx, call)
}

// answering is a server that answers each call with that result.
func answering(result string) *mcpvisor.InMemory {
	return rawAnswer("tools/call", result)
}

// manyLists is a result that takes about 40 bytes in memory for each 3 of JSON.
func manyLists(n int) string {
	return `{"content":[],"structuredContent":{"a":[` + strings.Repeat("[],", n) + `0]}}`
}

// With interceptors, as many results are decoded at a time as without.
func TestInterceptors_keep_the_bound_of_memory(t *testing.T) {
	const calls, most = 60, 72 << 20 // without the bound: 150 MB with interceptors that decode
	for name, f := range map[string]facade.Interceptor{
		"pass": passOn,
		"decode": func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			r, err := next(ctx, call)
			if err == nil {
				_, err = r.Decode()
			}
			return r, err
		},
		"other bytes": func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			r, err := next(ctx, call)
			r.JSON = append(json.RawMessage(nil), r.JSON...)
			return r, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: answering(manyLists(60_000))}, facade.WithInterceptor(f), facade.WithMaxBufferBytes(4<<20))
			done := make(chan struct{})
			peak := make(chan uint64)
			go func() { // what lives counts, and not the garbage that a busy machine has not collected yet
				sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
				var highest uint64
				for {
					runtime.GC()
					metrics.Read(sample)
					highest = max(highest, sample[0].Value.Uint64())
					select {
					case <-done:
						peak <- highest
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			var all sync.WaitGroup
			for range calls {
				all.Go(func() {
					if _, err := c.CallTool(t.Context(), "s/x", nil); err != nil {
						t.Errorf("%v", err)
					}
				})
			}
			all.Wait()
			close(done)
			highest := <-peak
			t.Logf("%d MB", highest>>20)
			require.Less(t, highest, uint64(most))
		})
	}
}

// What a call counts and what its caller reads does not depend on interceptors.
func TestInterceptors_keep_statistics_and_texts(t *testing.T) {
	for result, row := range map[string]mcpvisor.Limits{
		`{"content":[{"type":"text","text":7}]}`:                  {},
		`{"content":[{"type":"text","text":"a"},null]}`:           {},
		`{"content":[],"resultType":"later"}`:                     {},
		manyLists(50_000):                                         {MaxDecodedBytes: 1 << 20},
		`{"content":[{"type":"text","text":"a"}]}`:                {},
		`{"content":[{"type":"text","text":"a"}],"isError":true}`: {},
	} {
		t.Run(fmt.Sprintf("%.60s", result), func(t *testing.T) {
			type outcome struct {
				err, text string
				record    monitor.CallRecord
				stats     monitor.ToolStats
			}
			run := func(f facade.Interceptor) (o outcome) {
				c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: answering(result), Limits: row}, facade.WithInterceptor(f))
				_, err := c.CallTool(t.Context(), "s/x", nil)
				o.err = fmt.Sprint(err)
				text, marshalErr := json.Marshal(c.CallToolForModel(t.Context(), "s/x", nil))
				require.NoError(t, marshalErr)
				o.text = string(text)
				o.record = callsOf(c, "tools/call")[0]
				o.record.Began, o.record.Took = time.Time{}, 0
				o.stats = c.ToolStats("s")[0]
				o.stats.Duration = monitor.Histogram{}
				return o
			}
			require.Equal(t, run(nil), run(passOn))
		})
	}
}

// The undecodable result of a server fails next, as it fails the call.
func TestInterceptors_see_that_a_result_cannot_be_decoded(t *testing.T) {
	var seen error
	c := newClient(t, facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		r, err := next(ctx, call)
		seen = err
		return r, err
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: answering(`{"content":7}`)}))
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, seen, mcpvisor.ErrProtocol)
	require.Equal(t, seen, err)
	raw, err := c.CallToolRaw(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"content":7}`, string(raw))
	require.NoError(t, seen)
	require.Equal(t, map[mcpvisor.ErrorKind]int64{mcpvisor.ErrProtocol: 1}, c.ToolStats("s")[0].Failed)
}

// What an interceptor decodes or returns is decoded within the limits of the server, even if the
// server is gone by then.
func TestInterceptors_decode_within_the_limits(t *testing.T) {
	large := answering(manyLists(100_000))
	limits := mcpvisor.Limits{MaxDecodedBytes: 1 << 20}
	var c *facade.Client
	for name, f := range map[string]facade.Interceptor{
		"decoded of a raw call": func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			r, err := next(ctx, call)
			if err == nil {
				_, err = r.Decode()
			}
			return r, err
		},
		"of the host": func(ctx context.Context, _ facade.ToolCall, _ facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{JSON: json.RawMessage(manyLists(100_000))}, ctx.Err()
		},
		"of the host, and the server is gone": func(ctx context.Context, _ facade.ToolCall, _ facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{JSON: json.RawMessage(manyLists(100_000))}, c.Unregister(ctx, "s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c = registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: large, Limits: limits}, facade.WithInterceptor(f))
			var err error
			if name == "decoded of a raw call" {
				_, err = c.CallToolRaw(t.Context(), "s/x", nil)
			} else {
				_, err = c.CallTool(t.Context(), "s/x", nil)
				require.ErrorIs(t, err, mcpvisor.ErrInvalid, "a mistake of the host")
				text := readAsModel(t, c.ErrorForModel("s/x", err)).Fault.Message
				require.Equal(t, "Internal Error: the program that made the call of s/x lost its result.", text)
			}
			require.ErrorIs(t, err, mcpvisor.ErrProtocol)
			require.ErrorContains(t, err, "Limits.MaxDecodedBytes")
		})
	}
}

// Two calls that a cache answers with one result share no memory.
func TestInterceptors_may_return_a_result_twice(t *testing.T) {
	var kept *facade.CallResult
	var sent atomic.Int32
	c := newClient(t, facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		if kept != nil {
			return *kept, nil
		}
		sent.Add(1)
		r, err := next(ctx, call)
		kept = &r
		return r, err
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: answering(`{"content":[{"type":"text","text":"a"}]}`)}))
	first, err := c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err)
	first.Content[0].(*mcp.TextContent).Text = "changed by its caller"
	second, err := c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.Equal(t, "a", textOf(t, second))
	require.EqualValues(t, 1, sent.Load())
}

// A refusal is no failure: the model reads its text, and whether the tool may have run.
func TestCallForModel_refused_by_an_interceptor(t *testing.T) {
	declined := errors.New("the user declined\x1b[8m")
	for name, row := range map[string]struct {
		f          facade.Interceptor
		code, text string
	}{
		"before the call": {func(context.Context, facade.ToolCall, facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{}, declined
		}, "refused", "The call of s/x was refused: the user declined[8m"},
		"after the call": {func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			_, _ = next(ctx, call)
			return facade.CallResult{}, declined
		}, "refused", "The call of s/x was refused: the user declined[8m Whether it had an effect is not known; check before you repeat it."},
		"a call that was not sent": {func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			call.Tool = "none"
			_, _ = next(ctx, call)
			return facade.CallResult{}, declined
		}, "refused", "The call of s/x was refused: the user declined[8m"},
		"the context ended": {func(context.Context, facade.ToolCall, facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{}, fmt.Errorf("asked the user: %w", context.DeadlineExceeded)
		}, "canceled", "Internal Error: the call of s/x was canceled."},
		"neither a result nor an error": {func(context.Context, facade.ToolCall, facade.CallNext) (facade.CallResult, error) {
			return facade.CallResult{}, nil
		}, "invalid", "Internal Error: the program that made the call of s/x lost its result."},
		"no result after the call": {func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			_, _ = next(ctx, call)
			return facade.CallResult{JSON: json.RawMessage("{")}, nil
		}, "invalid", "Internal Error: the program that made the call of s/x lost its result. Whether it had an effect is not known; check before you repeat it."},
		"an error of the call": {func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			call.Tool = "none"
			r, err := next(ctx, call)
			return r, fmt.Errorf("audited: %w", err)
		}, "unknown_tool", "There is no tool s/x. Use one of the tools that you were given."},
	} {
		t.Run(name, func(t *testing.T) {
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: answering(`{"content":[]}`)}, facade.WithInterceptor(row.f))
			got := readAsModel(t, c.CallToolForModel(t.Context(), "s/x", nil))
			require.Equal(t, facade.ModelError{Code: row.code, Message: row.text}, got.Fault)
			if row.code == "refused" {
				_, err := c.CallTool(t.Context(), "s/x", nil)
				require.Equal(t, declined, err, "the caller gets it as it is")
				_, err = c.CallToolRaw(t.Context(), "s/x", nil)
				require.Equal(t, "The call of s/x was refused: the user declined[8m", readAsModel(t, c.ErrorForModel("s/x", err)).Fault.Message)
			}
		})
	}
	got := readAsModel(t, newClient(t).ErrorForModel("s/x", declined))
	require.Equal(t, facade.ModelError{Code: "protocol", Message: "Internal Error: s/x failed."}, got.Fault, "no interceptor can have refused")
}
