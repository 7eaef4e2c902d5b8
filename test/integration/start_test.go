//go:build linux

package integration

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// shortShutdown is for servers that ignore a polite shutdown.
var shortShutdown = mcpvisor.Timeouts{Shutdown: 200 * time.Millisecond}

// hungStarts returns scripts whose start never ends, each in another phase.
func hungStarts() map[string]mcptest.Script {
	fault := func(f mcptest.Fault) mcptest.Script { return mcptest.Script{Faults: []mcptest.Fault{f}} }
	return map[string]mcptest.Script{
		"silent":            {StartDelay: time.Hour},
		"unreading":         fault(mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionHangAll}),
		"hangs_at_discover": fault(mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionHangAll}),
		"hangs_at_list":     fault(mcptest.Fault{At: mcptest.StageList, Method: "prompts/list", Do: mcptest.ActionHang}),
	}
}

// waitForProcess waits until the process of a hung start exists.
func waitForProcess(w *fixture) {
	waitUntil(w.within(), w.t, "a process is starting", func() bool { return len(processes(w.mark)) > 0 })
}

func TestStart_hangs(t *testing.T) {
	endings := map[string]struct {
		end  func(c *facade.Client, cancel context.CancelFunc) error
		want error
	}{
		"canceled":     {func(_ *facade.Client, cancel context.CancelFunc) error { cancel(); return nil }, mcpvisor.ErrCanceled},
		"unregistered": {func(c *facade.Client, _ context.CancelFunc) error { return c.Unregister(context.Background(), "hung") }, mcpvisor.ErrClosed},
		"closed":       {func(c *facade.Client, _ context.CancelFunc) error { return c.Close(context.Background()) }, mcpvisor.ErrClosed},
	}
	for start, script := range hungStarts() {
		for ending, how := range endings {
			t.Run(start+"/"+ending, func(t *testing.T) {
				w := newFixture(t)
				c, events := w.client()
				ctx, cancel := context.WithCancel(w.within())
				defer cancel()
				registered := make(chan error, 1)
				go func() {
					registered <- c.Register(ctx, mcpvisor.ServerSpec{Name: "hung", Stdio: w.stdio(script), Timeouts: shortShutdown})
				}()
				waitForProcess(w)
				require.Empty(t, c.Tools())
				require.NoError(t, how.end(c, cancel))
				require.ErrorIs(t, <-registered, how.want)
				// A canceled registration ends in the background.
				_, err := events.wait(w.within(), eventIs("hung", mcpvisor.EventUnregistered, 0))
				require.NoError(t, err)
				w.requireNoProcess()
				require.Empty(t, c.Servers())
			})
		}
	}
}

// If the caller cancels at the moment at which the server becomes ready, Register may
// report ErrCanceled. Then nothing stays registered.
func TestStart_canceled_while_ready(t *testing.T) {
	w := newFixture(t)
	c, _ := w.client()
	spec := mcpvisor.ServerSpec{Name: "m", InMemory: mcptest.InMemory(mcptest.Script{})}
	began := time.Now()
	require.NoError(t, c.Register(w.within(), spec))
	usual := time.Since(began)
	require.NoError(t, c.Unregister(w.within(), "m"))
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), usual/2+rand.N(usual))
		err := c.Register(ctx, spec)
		cancel()
		if err == nil {
			require.NoError(t, c.Unregister(w.within(), "m"))
			continue
		}
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		waitUntil(w.within(), t, "the registration has ended", func() bool { return len(c.Servers()) == 0 })
	}
}
