package facade_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Callers that wait lose no call, however often their server is replaced.
func TestApply_loses_no_call(t *testing.T) {
	slow := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "echo", Do: mcptest.ActionDelay, Delay: 3 * time.Millisecond}}}
	server := mcptest.NewHTTP(mcptest.Script{})
	defer server.Close()
	for name, spec := range map[string]func(edit int) mcpvisor.ServerSpec{
		"in place": func(int) mcpvisor.ServerSpec { return mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(slow)} },
		"overlap": func(int) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(slow), Overlap: true}
		},
		"HTTP": func(edit int) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "a", HTTP: &mcpvisor.HTTP{URL: server.URL, Headers: map[string]string{"X-Edit": fmt.Sprint(edit)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, facade.WithDefaultWaitReady())
			require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec(0)}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var callers sync.WaitGroup
			failed := make(chan error, 16)
			for range cap(failed) {
				callers.Go(func() {
					for ctx.Err() == nil {
						if _, err := c.CallTool(t.Context(), "a/echo", map[string]any{"text": "x"}); err != nil {
							failed <- err
							return
						}
					}
				})
			}
			for edit := range 10 {
				require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec(edit + 1)}))
			}
			cancel()
			callers.Wait()
			close(failed)
			require.NoError(t, <-failed)
		})
	}
}

// gate is a server whose tool hold waits until the gate is opened.
func gate() (spec mcpvisor.ServerSpec, open func()) {
	opened := make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hold"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		select {
		case <-opened:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	return mcpvisor.ServerSpec{Name: "a", InMemory: facade.ServeInMemory(server)}, sync.OnceFunc(func() { close(opened) })
}

// Unregister and Restart let calls end if they are asked to, and Apply does when it removes a server.
func TestWithDrain(t *testing.T) {
	for name, end := range map[string]func(c *facade.Client) error{
		"unregister": func(c *facade.Client) error { return c.Unregister(context.Background(), "a", facade.WithDrain()) },
		"restart":    func(c *facade.Client) error { return c.Restart(context.Background(), "a", facade.WithDrain()) },
		"apply":      func(c *facade.Client) error { return c.Apply(context.Background(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t)
			spec, open := gate()
			defer open()
			require.NoError(t, c.Register(t.Context(), spec))
			called, ended := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), "a/hold", nil)
				called <- err
			}()
			require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
			go func() { ended <- end(c) }()
			require.Eventually(t, func() bool {
				_, err := c.CallTool(t.Context(), "a/unknown", nil) // the server would answer with another error
				var e *mcpvisor.Error
				return errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent
			}, time.Minute, time.Millisecond)
			require.Len(t, c.CallsInFlight(), 1, "readers see it while it drains")
			open()
			require.NoError(t, <-called)
			require.NoError(t, <-ended)
			if name == "restart" {
				require.NoError(t, c.WaitReady(t.Context(), "a"))
			}
		})
	}
}

// While a server that was replaced ends, readers see its calls.
func TestApply_with_overlap_shows_the_calls_of_both(t *testing.T) {
	c := newClient(t)
	old, open := gate()
	defer open()
	require.NoError(t, c.Register(t.Context(), old))
	called := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "a/hold", nil)
		called <- err
	}()
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
	next := inMemorySpec("a", "new")
	next.Overlap = true
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{next}))
	_, err := c.CallTool(t.Context(), "a/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.Len(t, c.CallsInFlight(), 1)
	open()
	require.NoError(t, <-called)
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 0 }, time.Minute, time.Millisecond)
}
