//go:build linux

package integration

import (
	"context"
	"crypto/rand"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// fixture is the environment of one test. Every process that the test starts carries
// its mark; none of them may be left at the end.
type fixture struct {
	t    *testing.T
	mark string
}

// newFixture records the open descriptors and the goroutines. When the test and its
// later cleanups are done, it requires that there are no others.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, mark: rand.Text()}
	before, routines := descriptors(), goleak.IgnoreCurrent()
	t.Cleanup(func() {
		w.requireNoProcess()
		var left []string
		require.Eventually(t, func() bool {
			left = nil
			for d := range descriptors() {
				if !before[d] {
					left = append(left, d)
				}
			}
			return len(left) == 0
		}, maxWait, pollInterval, "descriptors were not closed: %v", &left)
		goleak.VerifyNone(t, routines)
	})
	return w
}

// requireNoProcess requires that no child is left, zombies included. Descendants are
// killed but not waited for by this process, so they may take a moment to end.
func (w *fixture) requireNoProcess() {
	w.t.Helper()
	require.Empty(w.t, children(), "children were not waited for")
	require.Eventually(w.t, func() bool { return len(processes(w.mark)) == 0 }, maxWait, pollInterval, "processes still run")
}

// stdio returns a script as a process that carries the mark.
func (w *fixture) stdio(s mcptest.Script) *mcpvisor.Stdio {
	spec := mcptest.Stdio(s)
	env := maps.Clone(spec.Env)
	env[markVar] = w.mark
	spec.Env = env
	return spec
}

// client makes a client that is closed at the end of the test, and the history of its
// events.
func (w *fixture) client(opts ...facade.Option) (*facade.Client, *history) {
	w.t.Helper()
	c, err := facade.New(opts...)
	require.NoError(w.t, err)
	h := recordEvents(c)
	w.t.Cleanup(func() {
		w.close(c)
		<-h.ended
	})
	return c, h
}

// close closes a client and requires that this ends within maxWait.
func (w *fixture) close(c *facade.Client) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	require.NoError(w.t, c.Close(ctx))
}

// within returns a context that ends after maxWait.
func (w *fixture) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	w.t.Cleanup(cancel)
	return ctx
}

// pid returns the process id of a ready server.
func (w *fixture) pid(c *facade.Client, server string) int {
	w.t.Helper()
	st, ok := c.ServerStatus(server)
	require.True(w.t, ok, "%s is registered", server)
	require.NotNil(w.t, st.Session, "%s has a session; it is %s", server, st.State)
	return st.Session.PID
}

// schedulingDelay measures how late the scheduler runs this process: by how much a
// ticker of pollInterval is late. The few assertions about time allow for it.
type schedulingDelay struct {
	stop  chan struct{}
	worst chan time.Duration
}

func measureSchedulingDelay() *schedulingDelay {
	h := &schedulingDelay{stop: make(chan struct{}), worst: make(chan time.Duration)}
	go func() {
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		var worst time.Duration
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
				now := time.Now()
				worst = max(worst, now.Sub(last)-pollInterval)
				last = now
			case <-h.stop:
				h.worst <- max(worst, time.Since(last)-pollInterval) // the delay since the last tick
				return
			}
		}
	}()
	return h
}

// end stops the measurement and returns the longest delay.
func (h *schedulingDelay) end() time.Duration {
	close(h.stop)
	return <-h.worst
}
