package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func withStandby(p supervisor.Policy) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "fs", Policy: p, Standby: true}
}

// At a crash the standby takes over without a delay, and its tools stay listed at every
// moment.
func TestStandbyTakesOver(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, openAfter: time.Second, listAfter: time.Second, releaseAfter: 3 * time.Second})
		events := h.events()
		h.register(withStandby(supervisor.Retry(3, time.Minute)))
		require.Nil(t, h.rt.Snapshot().Server("fs").Status().Standby, "it takes as long as any start")
		time.Sleep(2 * time.Second)
		h.settle()
		require.Equal(t, 1002, h.rt.Snapshot().Server("fs").Status().Standby.PID)
		epoch, err := h.call(context.Background(), "fs", 0)
		require.NoError(t, err)
		require.Equal(t, 1, epoch, "no call reaches the standby")

		before := h.rt.Snapshot()
		h.sessions("fs")[0].Abort(errScripted)
		require.Equal(t, supervisor.StateReady, h.state("fs"), "at the same instant")
		<-before.Changed()
		require.Len(t, h.rt.Snapshot().Tools(), 1)
		epoch, err = h.call(context.Background(), "fs", 0)
		require.NoError(t, err)
		require.Equal(t, 2, epoch)
		st := h.rt.Snapshot().Server("fs").Status()
		require.EqualValues(t, 2, st.Epoch)
		require.Equal(t, 1, st.Attempt)
		require.Equal(t, 1, st.Restarts)
		require.Nil(t, st.Standby)
		require.Equal(t, errScripted, st.LastCause)
		require.Len(t, st.History, 1)
		require.True(t, st.History[0].Served)
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady,
			mcpvisor.EventStandby, mcpvisor.EventDown, mcpvisor.EventReady}, kinds(events()))
		require.EqualValues(t, 1, events()[4].Epoch)
		require.EqualValues(t, 2, events()[5].Epoch)
		require.Len(t, h.sessions("fs"), 2)

		time.Sleep(time.Minute)
		h.settle()
		require.Len(t, h.sessions("fs"), 3, "the policy's delay comes before the next standby")
		time.Sleep(2 * time.Second)
		h.settle()
		require.NotNil(t, h.rt.Snapshot().Server("fs").Status().Standby)
	})
}

// A standby does not circumvent the budget.
func TestTakeoverSpendsTheBudget(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(withStandby(supervisor.Retry(2, time.Second)))
		for range 20 {
			h.settle()
			for _, s := range h.sessions("fs") {
				if v := h.rt.Snapshot().Server("fs"); v.State == supervisor.StateReady && v.current.session == s {
					s.Abort(errScripted)
					break
				}
			}
			time.Sleep(5 * time.Second)
		}
		require.Equal(t, supervisor.StateEvicted, h.state("fs"))
		require.LessOrEqual(t, len(h.sessions("fs")), 1+2+2)
		for _, s := range h.sessions("fs") {
			require.True(t, isClosed(s.released), "an evicted server holds nothing, no standby either")
		}
	})
}

func TestStandbyLossKeepsTheServerReady(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{tools: []string{"ls"}, crashAfter: time.Minute},
			script{openErr: errScripted}, script{listErr: true, tools: []string{"ls"}}, script{tools: []string{"ls"}})
		events := h.events()
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		time.Sleep(time.Minute) // the first standby crashes after it was stable
		time.Sleep(time.Second) // the second does not open
		time.Sleep(2 * time.Second)
		time.Sleep(4 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 5)
		v := h.rt.Snapshot().Server("fs")
		require.EqualValues(t, 1, v.Epoch)
		require.Zero(t, v.Attempt)
		require.Equal(t, 1005, v.Status().Standby.PID)
		lost := 0
		for _, e := range events() {
			if e.Kind == mcpvisor.EventStandbyLost {
				lost++
				require.EqualValues(t, 1+lost, e.Epoch)
				require.NotNil(t, e.Cause)
			}
		}
		require.Equal(t, 3, lost)
	})
}

// A standby that cannot be started is not tried forever.
func TestStandbyIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		second script
		tries  int
	}{
		"passing":   {script{openErr: errScripted}, 3},
		"permanent": {script{openErr: &supervisor.Cause{Kind: supervisor.CauseSpawn, Permanent: true, Message: "gone"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.scriptSessions("fs", script{tools: []string{"ls"}}, c.second)
				h.register(withStandby(supervisor.Retry(2, time.Second)))
				time.Sleep(time.Hour)
				require.Equal(t, supervisor.StateReady, h.state("fs"))
				require.Len(t, h.sessions("fs"), 1+c.tries)
			})
		})
	}
}

// A standby that is still starting when the server ends does not take over. It is
// released before the ordinary retry begins.
func TestUnfinishedStandbyIsDropped(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{openHangs: true, releaseAfter: 5 * time.Second}, script{tools: []string{"ls"}})
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		time.Sleep(time.Second)
		h.settle()
		h.sessions("fs")[0].Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"), "until the standby is released")
		require.Empty(t, h.rt.Snapshot().Tools())
		time.Sleep(5 * time.Second)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		time.Sleep(time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.EqualValues(t, 3, h.rt.Snapshot().Server("fs").Epoch)
	})
}

func TestDeadStandbyDoesNotTakeOver(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Second})
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		h.settle()
		both := h.sessions("fs")
		both[1].Abort(errScripted) // at the same instant
		both[0].Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		time.Sleep(2 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.EqualValues(t, 3, h.rt.Snapshot().Server("fs").Epoch)
	})
}

func TestStandbyEndsWithItsServer(t *testing.T) {
	for name, end := range map[string]func(h *harness) error{
		"unregister": func(h *harness) error { return h.rt.Unregister(context.Background(), "fs") },
		"close":      func(h *harness) error { return h.rt.Close(context.Background()) },
		"supervisor": func(h *harness) error {
			h.crashSupervisor("fs")
			return h.rt.Unregister(context.Background(), "fs")
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Second})
				h.register(withStandby(supervisor.Retry(3, time.Second)))
				h.settle()
				h.sessions("fs")[0].Abort(errScripted) // so that one is draining, too
				time.Sleep(time.Second)
				h.settle()
				h.sessions("fs")[1].Abort(errScripted)
				require.NoError(t, end(h))
				for _, s := range h.sessions("fs") {
					require.True(t, isClosed(s.released))
				}
			})
		})
	}
}

func TestHungStandbyFailsItsProbes(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		spec := withStandby(supervisor.Retry(3, time.Second))
		spec.Probe = mcpvisor.Probe{Interval: 10 * time.Second, Timeout: time.Second, Failures: 2}
		h.register(spec)
		h.settle()
		h.sessions("fs")[1].hang()
		time.Sleep(20 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.True(t, isClosed(h.sessions("fs")[1].released))
		require.Equal(t, 1003, h.rt.Snapshot().Server("fs").Status().Standby.PID)
	})
}

// A restart means a fresh session, and the standby is as old as the server.
func TestRestartDoesNotUseTheStandby(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(withStandby(supervisor.Retry(3, time.Second)))
		h.settle()
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.EqualValues(t, 3, h.rt.Snapshot().Server("fs").Epoch)
		require.Len(t, h.sessions("fs"), 4)
	})
}
