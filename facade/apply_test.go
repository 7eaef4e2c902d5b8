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
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// inMemorySpec is a spec of a server that calls itself version.
func inMemorySpec(name, version string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{Name: version})}
}

// generations are the numbers of the registrations, by name.
func generations(c *facade.Client) map[string]uint64 {
	gens := map[string]uint64{}
	for _, s := range c.Status() {
		gens[s.Name] = s.Gen
	}
	return gens
}

func TestApply_registers_replaces_and_unregisters_what_differs(t *testing.T) {
	c := newClient(t)
	same, changed, gone, kept := inMemorySpec("same", ""), inMemorySpec("changed", "old"), inMemorySpec("gone", ""), inMemorySpec("kept", "old")
	require.NoError(t, c.Register(t.Context(), kept))
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{same, changed, gone}, "kept"))
	require.Equal(t, []string{"changed", "gone", "kept", "same"}, c.Servers())
	before := generations(c)

	same.Origin = "m.json:7"
	err := c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("kept", "new"), same, inMemorySpec("changed", "new"), inMemorySpec("fresh", "")}, "kept", "unknown")
	require.NoError(t, err)
	after := generations(c)
	require.Equal(t, []string{"changed", "fresh", "kept", "same"}, c.Servers())
	require.Equal(t, before["same"], after["same"])
	require.Equal(t, before["kept"], after["kept"])
	require.NotEqual(t, before["changed"], after["changed"])
	for name, version := range map[string]string{"changed": "new", "kept": "old"} {
		s, ok := c.ServerStatus(name)
		require.True(t, ok)
		require.Equal(t, supervisor.StateReady, s.State)
		require.Equal(t, version, s.Session.ServerName)
	}

	require.NoError(t, c.Apply(t.Context(), nil))
	require.Empty(t, c.Servers())
}

func TestApply_names_each_spec_that_failed_and_keeps_its_server(t *testing.T) {
	c := newClient(t)
	sound := inMemorySpec("a", "")
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{sound, inMemorySpec("b", "")}))
	before := generations(c)
	err := c.Apply(t.Context(), []mcpvisor.ServerSpec{{Name: "a"}, sound, {Name: "gone", Stdio: &mcpvisor.Stdio{Command: "no-such-command-here"}}})
	type failure struct {
		op   string
		kind mcpvisor.ErrorKind
	}
	var failed []failure
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		var e *mcpvisor.Error
		require.True(t, errors.As(one, &e))
		failed = append(failed, failure{e.Op, e.Kind})
	}
	require.Equal(t, []failure{{"register a", mcpvisor.ErrInvalid}, {"register a", mcpvisor.ErrExists},
		{"register gone", mcpvisor.ErrStart}}, failed)
	require.Equal(t, map[string]uint64{"a": before["a"]}, generations(c))
}

func TestApply_leaves_an_evicted_server_with_an_equal_spec_alone(t *testing.T) {
	c := newClient(t)
	spec := inMemorySpec("a", "")
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	evicted := c.Watch(t.Context(), mcpvisor.EventEvicted)
	_, err := c.CallTool(t.Context(), "a/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	<-evicted
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	s, _ := c.ServerStatus("a")
	require.Equal(t, supervisor.StateEvicted, s.State)

	spec.Timeouts.Call = time.Minute + 1
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	s, _ = c.ServerStatus("a")
	require.Equal(t, supervisor.StateReady, s.State)
}

// Callers that wait for a server wait for its replacement, too: none finds the name
// unknown.
func TestApply_replaces_a_server_under_calls_that_wait(t *testing.T) {
	c := newClient(t, facade.WithDefaultWaitReady())
	updates := c.Watch(t.Context(), mcpvisor.EventResourceUpdated)
	uri := mcptest.DefaultResources()[0].URI
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "")}))
	require.NoError(t, c.Subscribe(t.Context(), "a", uri))
	ctx, cancel := context.WithCancel(t.Context())
	caller := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			_, err := c.CallTool(t.Context(), "a/echo", map[string]any{"text": "x"})
			var e *mcpvisor.Error
			if errors.As(err, &e) && e.Outcome != mcpvisor.OutcomeUnknown { // not one that was in flight
				caller <- err
				return
			}
		}
		caller <- nil
	}()
	for range 10 {
		require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "")}))
	}
	cancel()
	require.NoError(t, <-caller)

	_, err := c.CallTool(t.Context(), "a/touch", map[string]any{"uri": uri})
	require.NoError(t, err)
	select {
	case ev := <-updates:
		require.Equal(t, uri, ev.URI)
	case <-time.After(30 * time.Second):
		t.Fatal("the subscription was lost")
	}
}

// Nothing of a queued call was sent, so the new server can get it.
func TestApply_passes_a_queued_call_that_waits_to_the_replacement(t *testing.T) {
	c := newClient(t, facade.WithDefaultWaitReady())
	old := mcpvisor.ServerSpec{Name: "a", Limits: mcpvisor.Limits{MaxInFlight: 1}, Timeouts: mcpvisor.Timeouts{Drain: 50 * time.Millisecond}, InMemory: mcptest.InMemory(mcptest.Script{
		Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "echo", Do: mcptest.ActionDelay, Delay: time.Hour}}})}
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{old}))
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := c.CallTool(t.Context(), "a/echo", map[string]any{"text": "x"})
			errs <- err
		}()
	}
	require.Eventually(t, func() bool {
		s, _ := c.ServerStatus("a")
		return s.Calls.InFlight == 1 && s.Calls.Queued == 1
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "new")}))
	lost := errors.Join(<-errs, <-errs)
	require.ErrorIs(t, lost, mcpvisor.ErrClosed, "the call in flight")
	require.Len(t, lost.(interface{ Unwrap() []error }).Unwrap(), 1)
}

func TestApply_runs_one_at_a_time(t *testing.T) {
	c := newClient(t)
	lists := [][]mcpvisor.ServerSpec{
		{inMemorySpec("a", "1"), inMemorySpec("b", "1")},
		{inMemorySpec("b", "2"), inMemorySpec("c", "2")},
	}
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() { errs <- c.Apply(t.Context(), lists[i%2]) }()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	s, ok := c.ServerStatus("b")
	require.True(t, ok)
	want := map[string][]string{"1": {"a", "b"}, "2": {"b", "c"}}[s.Session.ServerName]
	require.Equal(t, want, c.Servers())
}

func TestApply_ends_with_its_context(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "old"), inMemorySpec("b", "")}))
	before := generations(c)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.Apply(canceled, []mcpvisor.ServerSpec{inMemorySpec("a", "new"), inMemorySpec("c", "")})
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.Equal(t, before, generations(c), "nothing was begun")

	// The replacement of a never becomes ready, and a second Apply takes its place.
	ctx, cancel := context.WithCancel(t.Context())
	mute := mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{
		Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionHangAll}}})}
	connecting := c.Watch(t.Context(), mcpvisor.EventConnecting)
	synced := make(chan error, 1)
	go func() { synced <- c.Apply(ctx, []mcpvisor.ServerSpec{mute}) }()
	<-connecting
	cancel()
	require.ErrorIs(t, <-synced, mcpvisor.ErrCanceled)
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "new")}))
	s, _ := c.ServerStatus("a")
	require.Equal(t, "new", s.Session.ServerName)
	require.Equal(t, []string{"a"}, c.Servers())
}

func TestApply_after_Close(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{inMemorySpec("a", "")}), mcpvisor.ErrClosed)
	require.NoError(t, c.Apply(t.Context(), nil))
}

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
