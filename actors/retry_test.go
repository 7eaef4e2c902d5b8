package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestRetryDelaysAreExact(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openErr: errScripted})
		events := h.events()
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, 500*time.Millisecond)})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		time.Sleep(time.Hour)
		var after []time.Duration
		for _, s := range h.sessions("fs")[1:] {
			after = append(after, s.born.Sub(crashed))
			crashed = s.born
		}
		require.Equal(t, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, after)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		list := events()
		last := list[len(list)-1]
		require.Equal(t, mcpvisor.EventEvicted, last.Kind)
		require.Equal(t, crashed, last.Time, "evicted as soon as the last try has failed")
		require.Equal(t, []int{3, 3}, []int{last.Attempt, last.MaxAttempts})
		require.Contains(t, last.String(), "fs evicted after 3 of 3 restarts: ")
		_, err := h.call(t.Context(), "fs", 0)
		require.ErrorContains(t, err, "after 3 of 3 restarts; fix the server")
		require.Equal(t, []mcpvisor.EventKind{
			mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady, mcpvisor.EventDown,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed,
			mcpvisor.EventRetry, mcpvisor.EventConnecting, mcpvisor.EventStartFailed, mcpvisor.EventEvicted,
		}, kinds(list))
		v := h.rt.Snapshot().Server("fs")
		require.Len(t, v.History, 4)
		require.True(t, v.History[0].Served)
		require.False(t, v.History[3].Served)
		require.Equal(t, uint64(4), v.Epoch)
	})
}

func TestNoRetryEvictsAtTheFirstEnd(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		h.session("fs").Abort(errScripted)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.Empty(t, h.rt.Snapshot().Tools())
		time.Sleep(time.Hour)
		require.Len(t, h.sessions("fs"), 1)
		_, err := h.call(context.Background(), "fs", 0)
		e := asError(t, err)
		require.Equal(t, mcpvisor.KindEvicted, e.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.ErrorIs(t, e, errScripted)
		_, err = h.rt.AwaitReady(context.Background(), "fs")
		require.ErrorIs(t, err, mcpvisor.ErrEvicted)
	})
}

// A server that becomes ready and dies each time must not restart forever: becoming
// ready alone does not reset the budget.
func TestCrashAfterReadySpendsTheBudget(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, crashAfter: 9 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		time.Sleep(time.Hour)
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.Len(t, h.sessions("fs"), 4)
	})
}

func TestStableSessionResetsTheBudget(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, crashAfter: 11 * time.Second})
		events := h.events()
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		time.Sleep(10*12*time.Second + time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 11, "one every 12 s: 11 s of life and 1 s of backoff")
		stable := 0
		for _, e := range events() {
			require.LessOrEqual(t, e.Attempt, 1)
			if e.Kind == mcpvisor.EventStable {
				stable++
			}
		}
		require.Equal(t, 10, stable, "and it is reported each time")
	})
}

func TestDialWaitsForRelease(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: 10 * time.Second})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second)})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		require.Empty(t, h.rt.Snapshot().Tools(), "withdrawn at once, though the release takes long")
		time.Sleep(11*time.Second - 1)
		require.Len(t, h.sessions("fs"), 1)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		time.Sleep(1)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Equal(t, 11*time.Second, h.session("fs").born.Sub(crashed))
	})
}

func TestPermanentCauseIsNotRetried(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		refused := &supervisor.Cause{Kind: supervisor.CauseAuth, Permanent: true, Message: "credentials refused"}
		h.scriptSessions("web", script{tools: []string{"get"}}, script{openErr: refused})
		h.register(mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(9, time.Second)})
		h.session("web").Abort(errScripted)
		time.Sleep(time.Hour)
		require.Len(t, h.sessions("web"), 2)
		_, err := h.call(context.Background(), "web", 0)
		require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
	})
}

func TestParkedServerIsTriedSlowly(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openErr: errScripted}, script{openErr: errScripted},
			script{openErr: errScripted}, script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, time.Second, supervisor.WithParking(time.Hour))})
		crashed := time.Now()
		h.session("fs").Abort(errScripted)
		time.Sleep(2 * time.Second)
		require.Equal(t, supervisor.StateParked, h.state("fs"))
		_, err := h.call(context.Background(), "fs", 0)
		require.Equal(t, time.Hour-time.Second, asError(t, err).RetryAfter)
		v, err := h.rt.AwaitReady(context.Background(), "fs")
		require.NoError(t, err)
		require.Equal(t, uint64(5), v.Epoch)
		require.Equal(t, 3*time.Hour+time.Second, time.Since(crashed))
		synctest.Wait()
	})
}
