package actors

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func probing(every time.Duration) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, time.Second),
		Probe: mcpvisor.Probe{Interval: every, Timeout: 10 * time.Second, Failures: 3}}
}

func TestProbeReplacesAHungServer(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		hung, since := h.session("fs"), time.Now()
		hung.hang()
		time.Sleep(60*time.Second - 1)
		require.Equal(t, supervisor.StateReady, h.state("fs"), "two failures are not three")
		time.Sleep(1)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		var at []time.Duration
		for _, p := range hung.probed() {
			at = append(at, p.Sub(since))
		}
		require.Equal(t, []time.Duration{30 * time.Second, 40 * time.Second, 50 * time.Second}, at)
		require.Equal(t, supervisor.CauseProbe, h.rt.Snapshot().Server("fs").Cause.Kind)
		time.Sleep(time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, hung.probed(), 3, "a dead session is not probed")
	})
}

func TestProbeKeepsAnAnsweringServer(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		time.Sleep(time.Hour)
		require.Len(t, h.sessions("fs"), 1)
		require.InDelta(t, 120, len(h.session("fs").probed()), 1, "one for each silence")
	})
}

func TestTrafficReplacesProbes(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, sendsEvery: 20 * time.Second})
		h.register(probing(30 * time.Second))
		time.Sleep(time.Hour)
		require.Empty(t, h.session("fs").probed())
	})
}

// The server does not answer the probe, but sends other messages: it is busy, not dead.
func TestTrafficDuringAProbeCountsAsAnswer(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, sendsEvery: 33 * time.Second})
		h.register(probing(30 * time.Second))
		h.session("fs").hang()
		time.Sleep(time.Hour)
		require.NotEmpty(t, h.session("fs").probed())
		require.Len(t, h.sessions("fs"), 1)
	})
}

// What else the server sends excuses a probe that is not answered, and not one that is refused.
func TestProbe_refused_beside_other_answers(t *testing.T) {
	for kind, want := range map[mcpvisor.ErrorKind]supervisor.State{
		mcpvisor.ErrProtocol:     supervisor.StateBackoff,
		mcpvisor.ErrAuthRequired: supervisor.StateUnauthorized,
	} {
		withHarness(t, func(t *testing.T, h *harness) {
			h.script("fs", script{tools: []string{"ls"}, probeFails: &mcpvisor.Error{Kind: kind, Outcome: mcpvisor.OutcomeUnknown}})
			spec := probing(30 * time.Second)
			spec.Policy = supervisor.Retry(3, time.Hour)
			h.register(spec)
			time.Sleep(31*time.Second + 2*probePause - 2*time.Second)
			require.Equal(t, supervisor.StateReady, h.state("fs"), "refusals of a moment are not the end")
			time.Sleep(2 * time.Second)
			require.Equal(t, want, h.state("fs"))
			require.Len(t, h.session("fs").probed(), 3)
		})
	}
}

func TestProbeOnlyWhenReadyAndEnabled(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}, openAfter: 25 * time.Second, listAfter: 25 * time.Second})
		started := time.Now()
		h.register(probing(time.Second))
		require.Equal(t, 50*time.Second, time.Since(started))
		require.Empty(t, h.session("fs").probed())
		time.Sleep(time.Second)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.session("fs").probed(), 1)
	})
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(-1))
		h.session("fs").hang()
		time.Sleep(10 * time.Hour)
		require.Empty(t, h.session("fs").probed())
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})
}

func TestProbePanicIsAFailedProbe(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{tools: []string{"ls"}, probePanics: true}, script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		time.Sleep(31*time.Second + 2*probePause)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
		require.Len(t, h.sessions("fs"), 2)
		require.Equal(t, supervisor.CauseProbe, h.rt.Snapshot().Server("fs").Cause.Kind)
	})
}

// A probe that a limit of the host keeps from being asked neither fails nor excuses those that failed.
func TestProbe_limit_of_the_host(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		p := &prober{port: &portRef{rt: h.rt, inc: h.rt.Snapshot().Server("fs").current}, failed: 2}
		defer p.stop()
		p.onProbed(&messages.Probed{Err: syscall.EMFILE})
		require.Equal(t, 2, p.failed)
		require.NotNil(t, p.timer, "it is asked again")
		p.stop()
		p.onProbed(&messages.Probed{Err: syscall.EADDRNOTAVAIL})
		require.Equal(t, 3, p.failed, "an address without a route is no limit")
		require.Equal(t, supervisor.CauseProbe, h.session("fs").Cause().Kind)
	})
}

// The pause after a refusal does not delay the end of a server that is silent.
func TestProbe_short_timeout(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		spec := probing(30 * time.Second)
		spec.Probe.Timeout = 100 * time.Millisecond
		h.register(spec)
		h.session("fs").hang()
		time.Sleep(30*time.Second + 3*spec.Probe.Timeout)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
	})
}

// Only failed probes in a row count.
func TestProbeAnswerResetsFailures(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		s := h.session("fs")
		for range 5 {
			probes := len(s.probed())
			s.hang()
			for range 40 {
				if time.Sleep(time.Second); len(s.probed()) > probes {
					break
				}
			}
			require.Len(t, s.probed(), probes+1)
			s.mu.Lock()
			s.hung = false // it answers again after that one probe
			s.mu.Unlock()
			time.Sleep(time.Minute)
		}
		require.Len(t, h.sessions("fs"), 1)
		require.Equal(t, supervisor.StateReady, h.state("fs"))
	})
}

// A session that keeps wall-clock time seems to have received a message in the future
// when that clock is set back.
func TestProbe(t *testing.T) {
	runWithHarness(t, "wall_clock_set_back", func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(probing(30 * time.Second))
		hung := h.session("fs")
		hung.hang()
		hung.mu.Lock()
		hung.lastReceived = time.Now().Round(0).Add(time.Hour)
		hung.mu.Unlock()
		time.Sleep(60 * time.Second)
		require.Equal(t, supervisor.StateBackoff, h.state("fs"))
		require.Equal(t, supervisor.CauseProbe, h.rt.Snapshot().Server("fs").Cause.Kind)
	})
}
