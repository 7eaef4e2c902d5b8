package facade_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestStop_and_Start(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), l.spec("db"), l.spec("api", "db")))
	require.NoError(t, c.WaitReady(t.Context()))
	require.NoError(t, c.Stop(t.Context(), "db"))
	require.Equal(t, []string{"+db", "+api", "-db"}, l.take())
	s, _ := c.ServerStatus("db")
	require.Equal(t, supervisor.StateStopped, s.State)
	require.Nil(t, s.DownSince)
	_, err := c.CallTool(t.Context(), "db/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorContains(t, err, "an operator has stopped the server")
	require.Equal(t, facade.ModelError{Code: "unavailable", Message: "Internal Error: an operator has stopped the server of db/echo; nothing was done."},
		c.CallToolForModel(t.Context(), "db/echo", nil).StructuredContent, "to try again does not help")
	_, err = c.CallTool(t.Context(), "db/echo", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorIs(t, c.Restart(t.Context(), "db"), mcpvisor.ErrUnavailable)

	// What comes after it continues, and waits when it starts again.
	_, err = c.CallTool(t.Context(), "api/echo", nil)
	require.NoError(t, err)
	events := c.Watch(t.Context(), mcpvisor.EventWaiting, mcpvisor.EventReady)
	require.NoError(t, c.Restart(t.Context(), "api"))
	waiting := <-events
	require.Equal(t, mcpvisor.EventWaiting, waiting.Kind)
	require.Equal(t, []string{"db"}, waiting.WaitsFor)
	s, _ = c.ServerStatus("api")
	require.Equal(t, []string{"db"}, s.WaitsFor)
	_, err = c.CallTool(t.Context(), "api/echo", nil)
	require.ErrorContains(t, err, "it waits for db")
	started := time.Now()
	require.NoError(t, c.Start(t.Context(), "db"))
	ready := <-events
	require.Equal(t, "db", ready.Server)
	require.LessOrEqual(t, ready.Downtime, time.Since(started), "the time in which it was stopped does not count")
	require.Equal(t, "api", (<-events).Server)
	require.Equal(t, []string{"-api", "+db", "+api"}, l.take())
}

// A server that is started after it has slept, and waits for another one, fails calls like any server that waits.
func TestStart_of_a_sleeping_server_that_waits(t *testing.T) {
	var l lives
	c := newClient(t)
	api := l.spec("api", "db")
	api.Start = mcpvisor.StartLazy
	events := c.Watch(t.Context(), mcpvisor.EventAsleep, mcpvisor.EventWaiting)
	require.NoError(t, c.Register(t.Context(), l.spec("db"), api))
	for e := range events { // it has run for its lists
		if e.Kind == mcpvisor.EventAsleep {
			break
		}
	}
	require.NoError(t, c.Stop(t.Context(), "api"))
	require.NoError(t, c.Stop(t.Context(), "db"))
	require.NoError(t, c.Start(t.Context(), "api"))
	for e := range events {
		if e.Kind == mcpvisor.EventWaiting {
			break
		}
	}
	_, err := c.CallTool(t.Context(), "api/echo", nil, facade.WithTimeout(time.Hour))
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorContains(t, err, "it waits for db")
}

// A restart of a server that sleeps wakes it: calls wait for it, as for each that sleeps.
func TestRestart_of_a_sleeping_server_fails_no_call(t *testing.T) {
	var l lives
	c := newClient(t)
	api := l.spec("api", "db")
	api.Start = mcpvisor.StartLazy
	events := c.Watch(t.Context(), mcpvisor.EventAsleep, mcpvisor.EventWaiting)
	require.NoError(t, c.Register(t.Context(), l.spec("db"), api))
	for e := range events {
		if e.Kind == mcpvisor.EventAsleep {
			break
		}
	}
	require.NoError(t, c.Stop(t.Context(), "db"))
	require.NoError(t, c.Restart(t.Context(), "api"))
	for e := range events {
		if e.Kind == mcpvisor.EventWaiting {
			break
		}
	}
	require.Len(t, c.Tools(), 2, "it is listed")
	called := make(chan error)
	go func() {
		_, err := c.CallTool(t.Context(), "api/echo", nil)
		called <- err
	}()
	require.NoError(t, c.Start(t.Context(), "db"))
	require.NoError(t, <-called)
}

// Stop of a server ends its copies, and no further ones are made until Start.
func TestStop_ends_copies(t *testing.T) {
	var l lives
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), l.spec("a")))
	copied, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	require.NoError(t, errors.Join(c.WaitReady(t.Context()), copied.WaitReady(t.Context())))
	require.NoError(t, c.Stop(t.Context(), "a"))
	require.Equal(t, []string{"+a", "+a", "-a", "-a"}, l.take())
	_, err = copied.CallTool(t.Context(), "a/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	_, err = relay.Of(c).CopyServer("a")
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.NoError(t, c.Start(t.Context(), "a"))
	copied, err = relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	require.NoError(t, copied.WaitReady(t.Context()))
}

// Stop returns when the server has ended that was just replaced, too.
func TestStop_ends_what_was_replaced(t *testing.T) {
	var l lives
	c := newClient(t)
	spec := l.spec("a")
	spec.Overlap, spec.Timeouts.Drain = true, time.Hour
	serve := spec.InMemory.Serve
	spec.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		defer l.add("ended")
		script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}},
			Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionHang}}}
		return mcptest.InMemory(script).Serve(ctx, in, out, log)
	}}
	require.NoError(t, c.Register(t.Context(), spec))
	require.NoError(t, c.WaitReady(t.Context()))
	failed := make(chan error)
	go func() {
		_, err := c.CallTool(t.Context(), "a/echo", nil)
		failed <- err
	}()
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
	spec.InMemory = &mcpvisor.InMemory{Serve: serve}
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	require.NoError(t, c.Stop(t.Context(), "a"))
	require.ElementsMatch(t, []string{"+a", "-a", "ended"}, l.take())
	require.ErrorIs(t, <-failed, mcpvisor.ErrClosed)
}

// Stop ends a server, too, that was about to replace the one that is stopped.
func TestStop_ends_a_replacement(t *testing.T) {
	var l lives
	c := newClient(t)
	spec := l.spec("a")
	spec.Overlap = true
	require.NoError(t, c.Register(t.Context(), spec))
	require.NoError(t, c.WaitReady(t.Context()))
	begun := make(chan struct{})
	next := spec
	next.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		close(begun)
		<-ctx.Done() // it never becomes ready
		l.add("ended")
		return nil
	}}
	applied := make(chan error)
	go func() { applied <- c.Apply(t.Context(), []mcpvisor.ServerSpec{next}) }()
	<-begun
	require.NoError(t, c.Stop(t.Context(), "a"))
	require.ElementsMatch(t, []string{"+a", "-a", "ended"}, l.take())
	require.ErrorContains(t, <-applied, "an operator has stopped the server")
	require.NoError(t, c.Start(t.Context(), "a"))
	require.NoError(t, c.WaitReady(t.Context(), "a"))
	require.Equal(t, []string{"+a"}, l.take())
}

// While calls in flight end before a stop, the server is not listed, and further calls are told why they are not sent.
func TestStop_with_drain_is_seen(t *testing.T) {
	c := newClient(t)
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionHang}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(script), Timeouts: mcpvisor.Timeouts{Drain: time.Hour}}))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = c.CallTool(ctx, "a/echo", nil) })
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
	wg.Go(func() { _ = c.Stop(t.Context(), "a", facade.WithDrain()) })
	require.Eventually(t, func() bool { return len(c.Tools()) == 0 }, time.Minute, time.Millisecond)
	_, err := c.CallTool(t.Context(), "a/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorContains(t, err, "stopped by an operator")
	cancel()
	wg.Wait()
	s, _ := c.ServerStatus("a")
	require.Equal(t, supervisor.StateStopped, s.State)
}
