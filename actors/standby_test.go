package actors

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/messages"
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
		runWithHarness(t, name, func(t *testing.T, h *harness) {
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

// ports are the epochs of the ports of a server that still exist.
func (h *harness) ports(name string) (epochs []int) {
	synctest.Wait()
	v := h.rt.Snapshot().Server(name)
	for epoch := 1; epoch <= len(h.sessions(name)); epoch++ {
		id := fmt.Sprintf("%s/port-%s.%d.%d", h.supervisorOf(name).Id, name, v.Gen, epoch)
		if _, there := h.rt.system.ProcessRegistry.GetLocal(id); there {
			epochs = append(epochs, epoch)
		}
	}
	return epochs
}

// A server that runs for months has many incarnations. None of them leaves an actor
// behind, whether it was in service, replaced, or a standby.
func TestIncarnationEndLeavesNoActor(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Second})
		spec := withStandby(supervisor.Retry(supervisor.Unlimited, time.Minute))
		h.register(spec)
		require.Equal(t, []int{1, 2}, h.ports("fs"))
		h.sessions("fs")[0].Abort(errScripted) // the standby takes over
		require.Equal(t, []int{1, 2}, h.ports("fs"))
		time.Sleep(time.Second)
		require.Equal(t, []int{2}, h.ports("fs"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int{2, 3}, h.ports("fs"))
		h.sessions("fs")[2].Abort(errScripted) // the standby ends
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int{2, 4}, h.ports("fs"))
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int{5, 6}, h.ports("fs"))
		pid := h.supervisorOf("fs")
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
		synctest.Wait()
		_, there := h.rt.system.ProcessRegistry.GetLocal(pid.Id)
		require.False(t, there, "nor does a registration")
	})
}

// The parent of the servers forgets an ended registration, and does not report it to a
// new manager.
func TestReconcileFindsOnlyLiveRegistrations(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		gen := h.rt.Snapshot().Server("fs").Gen
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"))
		synctest.Wait()
		h.rt.managerState.registrations["fs"] = &registration{gen: gen} // as a manager leaves it that crashed in the middle
		h.crashManager()
		synctest.Wait()
		require.Empty(t, h.rt.managerState.registrations)
	})
}

// The next dial waits until everything that was replaced is released, however fast the
// latest session ends.
func TestDialWaitsForDrainingIncarnations(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}, releaseAfter: time.Minute}, script{tools: []string{"ls"}})
		h.register(withStandby(supervisor.Retry(5, time.Second)))
		h.settle()
		h.sessions("fs")[0].Abort(errScripted)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		h.sessions("fs")[1].Abort(errScripted)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		time.Sleep(59 * time.Second)
		require.Equal(t, supervisor.StateClosing, h.state("fs"))
		time.Sleep(time.Second)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		require.Len(t, h.sessions("fs"), 2)
	})
}

// The history is bounded, and keeps the latest incarnations.
func TestHistoryIsBounded(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(supervisor.Unlimited, time.Second)})
		for range retention.Incarnations + 5 {
			h.session("fs").Abort(errScripted)
			time.Sleep(time.Hour)
			require.Equal(t, supervisor.StateReady, h.state("fs"))
		}
		history := h.rt.Snapshot().Server("fs").Status().History
		require.Len(t, history, retention.Incarnations)
		require.EqualValues(t, retention.Incarnations+5, history[len(history)-1].Epoch)
		require.EqualValues(t, 6, history[0].Epoch)
	})
}

// A death before the server is ready is an event, whether the port reports it or the
// watch over the session.
func TestDeathDuringStartIsAnEvent(t *testing.T) {
	for _, c := range states()[:2] {
		runWithHarness(t, string(c.state), func(t *testing.T, h *harness) {
			c.reach(h)
			events := h.events()
			h.send(h.supervisorOf("fs"), &messages.Died{Epoch: 1, Cause: errScripted})
			synctest.Wait()
			list := events()
			require.NotEmpty(t, list)
			require.Equal(t, mcpvisor.EventStartFailed, list[0].Kind)
			require.Equal(t, errScripted, list[0].Cause)
		})
	}
}

// After a crash of a supervising actor, the name stays taken until all its sessions are
// released: also the replaced one, and the standby.
func TestSupervisorPanicWaitsForEveryRelease(t *testing.T) {
	for name, slow := range map[string]int{"what was replaced": 1, "the standby": 3} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.scripts.Store("fs", func(_, epoch int) script {
				if epoch == slow {
					return script{tools: []string{"ls"}, releaseAfter: time.Minute}
				}
				return script{tools: []string{"ls"}}
			})
			h.register(withStandby(supervisor.Retry(5, time.Second)))
			h.settle()
			h.sessions("fs")[0].Abort(errScripted)
			h.settle()
			if slow == 3 {
				time.Sleep(2 * time.Second)
				h.settle()
				require.Len(t, h.sessions("fs"), 3)
			}
			h.crashSupervisor("fs")
			require.Equal(t, time.Minute, spends(func() { require.NoError(t, h.rt.Unregister(context.Background(), "fs")) }))
			require.True(t, isClosed(h.sessions("fs")[slow-1].released))
		})
	}
}

// The status shows a standby only while it can take over. One that ends with its server
// was not lost.
func TestStatusShowsOnlyAReadyStandby(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{tools: []string{"ls"}, listAfter: time.Minute})
		events := h.events()
		h.register(withStandby(supervisor.Retry(5, time.Second)))
		h.settle()
		h.send(h.supervisorOf("fs"), &messages.ReconcileRequest{})
		h.settle()
		require.Len(t, h.sessions("fs"), 2)
		require.Nil(t, h.rt.Snapshot().Server("fs").Status().Standby)
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		time.Sleep(time.Second)
		require.NotContains(t, kinds(events()), mcpvisor.EventStandbyLost)
	})
	withHarness(t, func(t *testing.T, h *harness) { // a catalog that comes after the end changes nothing
		h.scriptSessions("fs", script{tools: []string{"ls"}}, script{tools: []string{"ls"}, listAfter: time.Hour, releaseAfter: time.Minute})
		h.register(withStandby(supervisor.Retry(5, time.Second)))
		h.settle()
		events := h.events()
		h.sessions("fs")[1].Abort(errScripted)
		h.settle()
		h.send(h.supervisorOf("fs"), &messages.Discovered{Epoch: 2, Catalog: catalog.New(catalog.Catalog{})})
		require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventStandbyLost}, kinds(events()))
		require.Nil(t, h.rt.Snapshot().Server("fs").Status().Standby)
	})
}

// A dialer keeps what the next session needs while one may follow soon: not while the
// server is parked, evicted or gone, and not before it was ready: a first start that fails
// is reported when nothing of it is left.
func TestKeeper_while_a_session_may_follow(t *testing.T) {
	for name, test := range map[string]struct {
		policy supervisor.Policy
		state  supervisor.State
		keeps  bool
	}{
		"backoff": {supervisor.Retry(3, time.Minute), supervisor.StateBackoff, true},
		"evicted": {supervisor.NoRetry(), supervisor.StateEvicted, false},
		"parked":  {supervisor.Retry(1, 0, supervisor.WithParking(time.Hour)), supervisor.StateParked, false},
	} {
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.script("fs", script{tools: []string{"ls"}, listAfter: time.Second})
			go func() { _ = h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs", Policy: test.policy}) }()
			synctest.Wait()
			require.False(t, h.dialers["fs"][0].isKept(), "not ready yet")
			time.Sleep(time.Second)
			require.Equal(t, supervisor.StateReady, h.state("fs"))
			require.Equal(t, test.policy.MaxAttempts != 0, h.dialers["fs"][0].isKept())
			for i := 0; h.state("fs") == supervisor.StateReady; i++ { // until the budget is spent
				h.sessions("fs")[i].Abort(errScripted)
				time.Sleep(2 * time.Second)
			}
			require.Equal(t, test.state, h.state("fs"))
			require.Equal(t, test.keeps, h.dialers["fs"][0].isKept())
		})
	}
}

// Close waits for what dialers still do when they are idle.
func TestKeeper_close_waits(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(1, 0)})
		h.dialers["fs"][0].finishTakes = time.Second
		require.Equal(t, time.Second, spends(func() { require.NoError(t, h.rt.Close(context.Background())) }))
		require.False(t, h.dialers["fs"][0].isKept())
	})
}

// A fresh session is a new chance for a standby that was given up.
func TestRestartRetriesAGivenUpStandby(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scripts.Store("fs", func(_, epoch int) script {
			if epoch == 1 || epoch == 5 {
				return script{tools: []string{"ls"}}
			}
			return script{openErr: errScripted}
		})
		h.register(withStandby(supervisor.Retry(2, time.Second)))
		time.Sleep(time.Hour)
		h.settle()
		require.Len(t, h.sessions("fs"), 1+3, "given up")
		require.NoError(t, h.rt.Restart(context.Background(), "fs"))
		time.Sleep(time.Hour)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 5+3)
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
		runWithHarness(t, name, func(t *testing.T, h *harness) {
			h.scriptSessions("fs", script{tools: []string{"ls"}}, c.second)
			h.register(withStandby(supervisor.Retry(2, time.Second)))
			time.Sleep(time.Hour)
			require.Equal(t, supervisor.StateReady, h.state("fs"))
			require.Len(t, h.sessions("fs"), 1+c.tries)
		})
	}
}

// The next standby starts when the replaced incarnation is released.
func TestStandbyWaitsForDrainingIncarnations(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, releaseAfter: time.Minute})
		h.register(withStandby(supervisor.Retry(5, time.Second)))
		h.settle()
		h.sessions("fs")[0].Abort(errScripted)
		time.Sleep(59 * time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 2)
		time.Sleep(time.Second)
		h.settle()
		require.Len(t, h.sessions("fs"), 3)
	})
}

// The policy's delay comes before the next standby, whatever outdated timers fire.
func TestStandbyWaitsForThePolicyDelay(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(withStandby(supervisor.Retry(5, time.Minute)))
		h.settle()
		h.sessions("fs")[0].Abort(errScripted)
		h.settle()
		h.send(h.supervisorOf("fs"), &standbyDue{token: 1}) // of the first standby
		time.Sleep(time.Minute - 1)
		h.settle()
		require.Len(t, h.sessions("fs"), 2)
		time.Sleep(1)
		h.settle()
		require.Len(t, h.sessions("fs"), 3)
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
