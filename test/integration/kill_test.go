//go:build linux

package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxDetection and maxRecovery bound what follows a kill. The scheduling delay of this
// process is added to both.
const (
	maxDetection = 100 * time.Millisecond
	maxRecovery  = 10 * time.Second
)

// allLists returns the four lists as one value.
func allLists(c *facade.Client) []any {
	return []any{c.Tools(), c.Resources(), c.ResourceTemplates(), c.Prompts()}
}

// listsTools reports whether the listing shows a tool of the server.
func listsTools(c *facade.Client, server string) bool {
	for _, tool := range c.Tools() {
		if tool.Server == server {
			return true
		}
	}
	return false
}

// waitUntil polls until done returns true. It returns the time.
func waitUntil(ctx context.Context, t *testing.T, what string, done func() bool) time.Time {
	t.Helper()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.Fail(t, "timed out waiting: "+what)
		}
	}
	return time.Now()
}

// neighbour calls another server meanwhile and records failures.
type neighbour struct {
	done     sync.WaitGroup
	stop     context.CancelFunc
	calls    atomic.Int64
	mu       sync.Mutex
	failures []string
}

func newNeighbour(c *facade.Client, server string) *neighbour {
	ctx, stop := context.WithCancel(context.Background())
	n := &neighbour{stop: stop}
	n.done.Go(func() {
		for i := 0; i == 0 || ctx.Err() == nil; i++ { // at least once: a short row may end first
			text := fmt.Sprintf("%s %d", server, i)
			res, err := c.CallTool(context.Background(), server+"/echo", map[string]any{"text": text})
			n.calls.Add(1)
			if err != nil || textOf(res) != text {
				n.mu.Lock()
				n.failures = append(n.failures, fmt.Sprintf("%s: %q, %v", text, textOf(res), err))
				n.mu.Unlock()
			}
			pause(ctx, pollInterval)
		}
	})
	return n
}

// requireUndisturbed ends the calls and requires that all of them succeeded.
func (n *neighbour) requireUndisturbed(t *testing.T) {
	t.Helper()
	n.stop()
	n.done.Wait()
	require.Positive(t, n.calls.Load())
	require.Empty(t, n.failures, "a server without faults failed a call")
}

func TestKill_idle_server(t *testing.T) {
	w := newFixture(t)
	c, events := w.client()
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "victim", Policy: supervisor.Retry(3, 100*time.Millisecond),
		Stdio: w.stdio(mcptest.Script{ExtraTools: 50, PageSize: 20})}))
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "other", Stdio: w.stdio(mcptest.Script{})}))
	before := allLists(c)
	other := newNeighbour(c, "other")
	late := measureSchedulingDelay()

	killed := time.Now()
	require.True(t, signalMarked(w.pid(c, "victim"), w.mark, syscall.SIGKILL))
	gone := waitUntil(w.within(), t, "the tools are gone", func() bool { return !listsTools(c, "victim") }).Sub(killed)
	_, err := c.CallTool(w.within(), "victim/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	ready := waitUntil(w.within(), t, "the tools are back", func() bool { return listsTools(c, "victim") }).Sub(killed)
	require.Equal(t, before, allLists(c), "all four lists are complete, and the same as before")
	allowance := 4 * late.end()
	t.Logf("withdrawn after %v, ready after %v; allowance %v", gone, ready, allowance)
	require.Less(t, gone, maxDetection+allowance)
	require.Less(t, ready, maxRecovery+allowance)
	other.requireUndisturbed(t)

	again, err := events.wait(w.within(), eventIs("victim", mcpvisor.EventReady, 2))
	require.NoError(t, err)
	require.Equal(t, w.pid(c, "victim"), again.PID)
	require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady,
		mcpvisor.EventDown, mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventReady}, kinds(events.of("victim")))
	retry, err := events.wait(w.within(), eventIs("victim", mcpvisor.EventRetry, 0))
	require.NoError(t, err)
	require.Equal(t, 100*time.Millisecond, retry.Delay)
	require.Equal(t, "killed", retry.Cause.Signal)
}

func TestKill_calls_in_flight(t *testing.T) {
	const calls = 20
	w := newFixture(t)
	c, events := w.client()
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "victim",
		Stdio: w.stdio(mcptest.Script{}), Policy: supervisor.Retry(3, 100*time.Millisecond)}))
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "other", Stdio: w.stdio(mcptest.Script{})}))
	other := newNeighbour(c, "other")
	_, err := c.CallTool(w.within(), "victim/stderr", map[string]any{"text": "last words"})
	require.NoError(t, err)

	type end struct {
		err error
		at  time.Time
	}
	ends := make(chan end, calls)
	for range calls {
		go func() {
			_, err := c.CallTool(context.Background(), "victim/hang", nil)
			ends <- end{err, time.Now()}
		}()
	}
	waitUntil(w.within(), t, "all calls are in flight", func() bool {
		st, _ := c.ServerStatus("victim")
		return st.Calls.InFlight == calls
	})
	// The answer to a later call shows that the server has read the others.
	_, err = c.CallTool(w.within(), "victim/echo", nil)
	require.NoError(t, err)

	late := measureSchedulingDelay()
	killed := time.Now()
	require.True(t, signalMarked(w.pid(c, "victim"), w.mark, syscall.SIGKILL))
	var slowest time.Duration
	for range calls {
		e := <-ends
		slowest = max(slowest, e.at.Sub(killed))
		var failure *mcpvisor.Error
		require.ErrorAs(t, e.err, &failure)
		require.ErrorIs(t, e.err, mcpvisor.ErrCrashed)
		require.Equal(t, mcpvisor.OutcomeUnknown, failure.Outcome)
		require.Equal(t, "victim", failure.Server)
		require.EqualValues(t, 1, failure.Epoch)
		require.Contains(t, failure.Stderr, "last words")
	}
	allowance := 4 * late.end()
	t.Logf("the last of %d calls failed after %v; allowance %v", calls, slowest, allowance)
	require.Less(t, slowest, maxDetection+allowance)
	down, err := events.wait(w.within(), eventIs("victim", mcpvisor.EventDown, 1))
	require.NoError(t, err)
	require.Equal(t, calls, down.FailedCalls)
	_, err = c.CallTool(w.within(), "victim/echo", nil, facade.WithWaitReady())
	require.NoError(t, err)
	other.requireUndisturbed(t)
}
