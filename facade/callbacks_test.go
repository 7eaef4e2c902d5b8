package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// callback is a function of the host that the client calls, and what makes it do so.
type callback struct {
	// opts has the client call f.
	opts func(f func()) []facade.Option
	// cause has f called.
	cause func(c *facade.Client, f func())
	// server replaces a server before 2026-07-28 in memory, and has no other; nil: every server will do.
	server *mcpvisor.InMemory
	// waits is the operation that waits for the function: an observer must not do what it observes.
	waits string
}

// consults has the server ask for what a handler answers.
func consults(method, params string, opts ...facade.CallOption) func(*facade.Client, func()) {
	return func(c *facade.Client, _ func()) {
		_, _ = c.CallTool(context.Background(), "s/consult", map[string]any{"method": method, "params": json.RawMessage(params), "rounds": 1}, opts...)
	}
}

func echoes(c *facade.Client, _ func()) {
	_, _ = c.CallTool(context.Background(), "s/echo", map[string]any{"text": "x"})
}

// callbacks are the functions of a host that may call the client.
var callbacks = map[string]callback{
	"sampling": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithSamplingHandler(func(context.Context, facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
			f()
			return &mcp.CreateMessageWithToolsResult{Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: "x"}}}, nil
		})}
	}, cause: consults("sampling/createMessage", wantsSample)},
	"elicitation": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			f()
			return &mcp.ElicitResult{Action: "decline"}, nil
		})}
	}, cause: consults("elicitation/create", wantsText)},
	"roots": {opts: func(func()) []facade.Option {
		return []facade.Option{facade.WithDeclared(facade.Declared{Roots: true})}
	}, cause: func(c *facade.Client, f func()) {
		consults("roots/list", `{}`, facade.WithCallHandlers(&facade.CallHandlers{Roots: func(context.Context, string) ([]mcp.Root, error) {
			f()
			return nil, nil
		}}))(c, nil)
	}},
	"progress": {cause: func(c *facade.Client, f func()) {
		_, _ = c.CallTool(context.Background(), "s/slow_progress", map[string]any{"steps": 2, "ms": 1}, facade.WithProgress(func(mcpvisor.Progress) { f() }))
	}},
	"log messages": {cause: func(c *facade.Client, f func()) {
		_ = c.SetLoggingLevel(context.Background(), "s", "info")
		_, _ = c.CallTool(context.Background(), "s/log", map[string]any{"level": "error", "text": "x"}, facade.WithLogMessages("info", func(mcpvisor.LogMessage) { f() }))
	}},
	"interceptor, before": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			f()
			return next(ctx, call)
		})}
	}, cause: echoes},
	"interceptor, after": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			r, err := next(ctx, call)
			f()
			return r, err
		})}
	}, cause: echoes},
	"observer, start": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithObserver(observerFuncs{start: func(r monitor.RequestStart) {
			if r.Method == "tools/call" {
				f()
			}
		}})}
	}, cause: echoes},
	"observer, end": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithObserver(observerFuncs{end: func(r monitor.RequestEnd) {
			if r.Method == "tools/call" {
				f()
			}
		}})}
	}, cause: echoes},
	"observer of the lists": {opts: func(f func()) []facade.Option {
		var refresh atomic.Bool
		return []facade.Option{facade.WithObserver(observerFuncs{end: func(r monitor.RequestEnd) {
			if r.Method == "tools/call" {
				refresh.Store(true)
			}
			if refresh.Load() && r.Method == "tools/list" {
				f()
			}
		}})}
	}, cause: func(c *facade.Client, f func()) {
		echoes(c, f)
		_ = c.Refresh(context.Background(), "s")
	}, waits: "Refresh"},
	"observer of a request of the server": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithRoots(), facade.WithObserver(observerFuncs{start: func(r monitor.RequestStart) {
			if r.Incoming {
				f()
			}
		}})}
	}, cause: consults("roots/list", `{}`)},
	"observer, end of a request of the server": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithRoots(), facade.WithObserver(observerFuncs{end: func(r monitor.RequestEnd) {
			if r.Incoming {
				f()
			}
		}})}
	}, cause: consults("roots/list", `{}`)},
	"end of an elicitation": {opts: func(func()) []facade.Option {
		return []facade.Option{facade.WithURLElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		})}
	}, cause: func(c *facade.Client, f func()) {
		relay.Of(c).FollowElicitations(func(_, _ string) { f() })
		echoes(c, f)
	}, server: rawServer(func(method, _ string) string {
		switch method {
		case "tools/list":
			return `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
		case "tools/call": // and then the notification
			return `{"content":[]}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}`
		}
		return ""
	})},
	"logger": {opts: func(f func()) []facade.Option {
		return []facade.Option{facade.WithLogger(zerolog.New(lineFunc(func(line []byte) {
			if bytes.Contains(line, []byte("restart")) {
				f()
			}
		})))}
	}, cause: func(c *facade.Client, _ func()) {
		_ = c.Restart(context.Background(), "s")
		_ = c.WaitReady(context.Background(), "s")
	}},
}

type lineFunc func(line []byte)

func (f lineFunc) Write(line []byte) (int, error) {
	f(line)
	return len(line), nil
}

// observerFuncs is an observer of functions, which may be nil.
type observerFuncs struct {
	start func(monitor.RequestStart)
	end   func(monitor.RequestEnd)
}

func (o observerFuncs) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
	if o.start != nil {
		o.start(r)
	}
	return ctx, nil
}

func (o observerFuncs) RequestEnded(_ context.Context, r monitor.RequestEnd) {
	if o.end != nil {
		o.end(r)
	}
}

// A function of the host may call the client that calls it: the operation succeeds, or says why
// not, and does not wait for its own end.
func TestClient_called_by_its_callbacks(t *testing.T) {
	operations := map[string]func(ctx context.Context, c *facade.Client) error{
		"CallTool": func(ctx context.Context, c *facade.Client) error {
			_, err := c.CallTool(ctx, "s/echo", map[string]any{"text": "x"})
			return err
		},
		"Restart":    func(ctx context.Context, c *facade.Client) error { return c.Restart(ctx, "s") },
		"Refresh":    func(ctx context.Context, c *facade.Client) error { return c.Refresh(ctx, "s") },
		"Unregister": func(ctx context.Context, c *facade.Client) error { return c.Unregister(ctx, "s") },
		"Fence":      func(ctx context.Context, c *facade.Client) error { return c.Fence(ctx, "s", "") },
		"Apply":      func(ctx context.Context, c *facade.Client) error { return c.Apply(ctx, nil) },
		"Register": func(ctx context.Context, c *facade.Client) error {
			return c.Register(ctx, mcpvisor.ServerSpec{Name: "other", InMemory: mcptest.InMemory(mcptest.Script{})})
		},
		"Close": func(ctx context.Context, c *facade.Client) error { return c.Close(ctx) },
	}
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		if spec.InMemory == nil && spec.HTTP == nil {
			t.Skip("a process and a transport of the host share the code of a server in memory")
		}
		spec.Timeouts.Drain = 50 * time.Millisecond // Apply drains, and the call waits for its callback
		spec.Timeouts.Shutdown = 500 * time.Millisecond
		for where, callback := range callbacks {
			if callback.server != nil && !strings.HasSuffix(t.Name(), "memory_2025-11-25") {
				continue
			}
			for name, operation := range operations {
				if name == callback.waits {
					continue
				}
				t.Run(where+"/"+name, func(t *testing.T) {
					t.Parallel()
					var c *facade.Client
					var began atomic.Bool
					called := make(chan error, 1)
					f := func() {
						if began.CompareAndSwap(false, true) {
							ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
							defer cancel()
							called <- operation(ctx, c)
						}
					}
					var opts []facade.Option
					if callback.opts != nil {
						opts = callback.opts(f)
					}
					c = newClient(t, opts...)
					spec := spec
					if callback.server != nil {
						spec.InMemory = callback.server
					}
					require.NoError(t, c.Register(t.Context(), spec))
					callback.cause(c, f)
					if err := <-called; err != nil {
						require.ErrorAs(t, err, new(*mcpvisor.Error))
						require.NotErrorIs(t, err, mcpvisor.ErrCanceled, "it hangs")
						require.NotErrorIs(t, err, mcpvisor.ErrTimeout, "it hangs")
					}
				})
			}
		}
	})
}
