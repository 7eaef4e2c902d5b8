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

// startCall makes a call that lasts, and returns when the server has reported progress: it has
// read the call then. The channel gets the error of the call.
func startCall(t *testing.T, c *facade.Client) <-chan error {
	t.Helper()
	ended, begun := make(chan error, 1), make(chan struct{})
	var once sync.Once
	go func() {
		_, err := c.CallTool(t.Context(), "s/slow_progress", map[string]any{"steps": 100_000, "ms": 5},
			facade.WithProgress(func(mcpvisor.Progress) { once.Do(func() { close(begun) }) }))
		ended <- err
	}()
	select {
	case <-begun:
	case err := <-ended:
		require.NoError(t, err, "the call ended before it had begun")
	case <-time.After(20 * time.Second):
		require.FailNow(t, "no progress")
	}
	return ended
}

// requireFenced checks that s accepts no call, and that nothing but a registration changes that.
func requireFenced(t *testing.T, c *facade.Client) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, mcpvisor.ErrEvicted)
		require.ErrorContains(t, err, "fenced: the lease is over")
		require.ErrorContains(t, err, "register it again")
		var cause *supervisor.Cause
		require.ErrorAs(t, err, &cause)
		require.Equal(t, supervisor.CauseFenced, cause.Kind)
	}
	for _, opts := range [][]facade.CallOption{nil, {facade.WithWaitReady()}} {
		_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}, opts...)
		check(err)
		requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	}
	check(c.Restart(t.Context(), "s"))
	check(c.WaitReady(t.Context(), "s"))
	require.Empty(t, c.Tools())
	status, ok := c.ServerStatus("s")
	require.True(t, ok)
	require.Equal(t, supervisor.StateEvicted, status.State)
	require.Nil(t, status.Standby)
}

// TestRestart_is_no_crash: what was asked for is no crash in the error of a call that was in flight, its record, the
// history, and what operators see.
func TestRestart_is_no_crash(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		for _, cause := range []*supervisor.Cause{nil, {Kind: supervisor.CauseMoved, Message: "the server runs on node b now"}} {
			require.NoError(t, c.WaitReady(t.Context(), "s"))
			lost := startCall(t, c)
			events := c.Watch(t.Context(), mcpvisor.EventDown)
			require.NoError(t, relay.Of(c).RestartFor(t.Context(), "s", cause))
			err := <-lost
			require.ErrorIs(t, err, mcpvisor.ErrEnded)
			require.NotContains(t, err.Error(), "crash")
			requireOutcome(t, err, mcpvisor.OutcomeUnknown)
			down := <-events
			require.True(t, down.Cause.Asked())
			require.Equal(t, mcpvisor.SeverityInfo, down.Severity())
			if cause != nil {
				require.Equal(t, supervisor.CauseMoved, down.Cause.Kind)
				require.ErrorContains(t, err, cause.Message)
			}
		}
		status, _ := c.ServerStatus("s")
		require.Zero(t, status.Totals.Failed[mcpvisor.ErrCrashed], status.Totals)
	})
}

// TestFence: the call in flight is lost, later calls are not sent, no policy and no Restart
// starts the server, and a second registration does.
func TestFence(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		lost := startCall(t, c)
		require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))

		err := <-lost
		require.ErrorIs(t, err, mcpvisor.ErrEnded)
		requireOutcome(t, err, mcpvisor.OutcomeUnknown)
		require.ErrorContains(t, err, "the lease is over")
		requireFenced(t, c)
		require.NoError(t, c.Fence(t.Context(), "s", "once more"), "a second fence changes nothing")
		requireFenced(t, c)

		require.NoError(t, c.Register(t.Context(), spec))
		_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	})
}

// TestFence_while_down: a server that waits for its next start gets none.
func TestFence_while_down(t *testing.T) {
	c := newClient(t)
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit}}}),
		StartSupervised: true, Policy: supervisor.Retry(supervisor.Unlimited, time.Hour)}
	retry := watch(t, c, mcpvisor.EventRetry)
	evicted := watch(t, c, mcpvisor.EventEvicted)
	require.NoError(t, c.Register(t.Context(), spec))
	next(t, retry)
	require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))
	require.Equal(t, supervisor.CauseFenced, next(t, evicted).Cause.Kind)
	requireFenced(t, c)
}

// TestFence_during_first_start: Register of a server that is not supervised from the start
// fails, and the name is free.
func TestFence_during_first_start(t *testing.T) {
	c := newClient(t)
	serving := make(chan struct{})
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		close(serving)
		<-ctx.Done()
		return errors.New("fenced")
	}}}
	registered := make(chan error, 1)
	go func() { registered <- c.Register(t.Context(), spec) }()
	<-serving
	require.NoError(t, c.Fence(t.Context(), "s", "the lease is over"))
	err := <-registered
	require.ErrorIs(t, err, mcpvisor.ErrStart)
	require.ErrorContains(t, err, "the lease is over")
	_, known := c.ServerStatus("s")
	require.False(t, known)
}

// TestEpoch: a process learns the number of its incarnation, which each restart increments;
// Env of the spec wins.
func TestEpoch(t *testing.T) {
	t.Setenv("MCPVISOR_EPOCH", "77") // as if the host were a server itself
	c := newClient(t)
	epoch := func(name string) string {
		r, err := c.CallToolRaw(t.Context(), name+"/env", []byte(`{"name":"MCPVISOR_EPOCH"}`), facade.WithWaitReady())
		require.NoError(t, err)
		return string(r)
	}
	for _, inherit := range []bool{false, true} {
		spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{})}
		spec.Stdio.InheritEnv = inherit
		require.NoError(t, c.Register(t.Context(), spec))
		require.Contains(t, epoch("s"), `"1"`)
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.Contains(t, epoch("s"), `"2"`)
		require.NoError(t, c.Unregister(t.Context(), "s"))
	}
	own := mcpvisor.ServerSpec{Name: "own", Stdio: mcptest.Stdio(mcptest.Script{})}
	own.Stdio.Env["MCPVISOR_EPOCH"] = "mine"
	require.NoError(t, c.Register(t.Context(), own))
	require.Contains(t, epoch("own"), `"mine"`)
}
