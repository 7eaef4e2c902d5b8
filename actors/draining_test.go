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
		t.Run(string(c.state), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				c.reach(h)
				events := h.events()
				h.send(h.supervisorOf("fs"), &messages.Died{Epoch: 1, Cause: errScripted})
				synctest.Wait()
				list := events()
				require.NotEmpty(t, list)
				require.Equal(t, mcpvisor.EventStartFailed, list[0].Kind)
				require.Equal(t, errScripted, list[0].Cause)
			})
		})
	}
}

// After a crash of a supervising actor, the name stays taken until all its sessions are
// released: also the replaced one, and the standby.
func TestSupervisorPanicWaitsForEveryRelease(t *testing.T) {
	for name, slow := range map[string]int{"what was replaced": 1, "the standby": 3} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
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
