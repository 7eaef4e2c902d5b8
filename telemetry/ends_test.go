package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Each kind of cause, driven by a fault, moves its own series of mcpvisor.server.ends by
// one, and no other.
func TestEnds_of_each_cause(t *testing.T) {
	fault := func(at mcptest.Stage, do mcptest.Action) mcptest.Script {
		return mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{{At: at, Do: do}}}
	}
	process := func(script mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Era: mcpvisor.EraLegacy}
	}
	inMemory := func(script mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script), Era: mcpvisor.EraLegacy}
	}
	rows := map[supervisor.CauseKind]struct {
		spec func(t *testing.T) mcpvisor.ServerSpec
		// act leads to the end of a server that is ready. Without it the start fails.
		act func(f *fixture)
	}{
		supervisor.CauseSpawn: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1/mcp"}}
		}},
		supervisor.CauseConfig: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "s", Stdio: &mcpvisor.Stdio{Command: "no-such-command-of-mcpvisor"}}
		}},
		supervisor.CauseHandshake: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageInitialize, mcptest.ActionError))
		}},
		supervisor.CauseVersion: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageInitialize, mcptest.ActionRefuseVersion))
		}},
		supervisor.CauseAuth: {spec: func(t *testing.T) mcpvisor.ServerSpec {
			web := mcptest.NewHTTP(mcptest.Script{})
			t.Cleanup(web.Close)
			web.Refuse(401, 401, 401, 401, 401, 401)
			return mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}}
		}},
		supervisor.CauseProtocol: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageList, mcptest.ActionError)) // all four
		}},
		supervisor.CauseTimeout: {spec: func(*testing.T) mcpvisor.ServerSpec {
			spec := inMemory(fault(mcptest.StageInitialize, mcptest.ActionHang))
			spec.Timeouts.Start = 50 * time.Millisecond
			return spec
		}},
		supervisor.CauseExit: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return process(fault(mcptest.StageCall, mcptest.ActionExit)) },
			act:  func(f *fixture) { f.callFails() },
		},
		supervisor.CauseSignal: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return process(fault(mcptest.StageCall, mcptest.ActionDie)) },
			act:  func(f *fixture) { f.callFails() },
		},
		supervisor.CauseClosed: {
			spec: func(*testing.T) mcpvisor.ServerSpec {
				return process(fault(mcptest.StageCall, mcptest.ActionCloseStdout))
			},
			act: func(f *fixture) { f.callFails() },
		},
		supervisor.CauseProbe: {spec: func(*testing.T) mcpvisor.ServerSpec {
			spec := inMemory(fault(mcptest.StagePing, mcptest.ActionHangAll))
			spec.Probe = mcpvisor.Probe{Interval: 20 * time.Millisecond, Timeout: 50 * time.Millisecond, Failures: 1}
			return spec
		}, act: func(*fixture) {}},
		supervisor.CauseRequested: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Unregister(f.t.Context(), "s")) },
		},
		supervisor.CauseRestart: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Restart(f.t.Context(), "s")) },
		},
		supervisor.CauseMoved: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act: func(f *fixture) {
				require.NoError(f.t, f.client.RestartFor(f.t.Context(), "s", &supervisor.Cause{Kind: supervisor.CauseMoved}))
			},
		},
		supervisor.CauseFenced: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Fence(f.t.Context(), "s", "")) },
		},
	}
	for _, kind := range causeKinds {
		row, driven := rows[kind]
		if kind == supervisor.CausePanic {
			require.False(t, driven)
			continue // no known fault leads to one; TestEnds_of_a_panic
		}
		require.True(t, driven, "no fault drives cause %s", kind)
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t)
			spec := row.spec(t)
			spec.StartSupervised = row.act == nil
			f.register(spec)
			if row.act != nil {
				row.act(f)
			}
			eventually(t, func() bool { return f.sum(nameEnds) > 0 })
			f.requireEnds(kind)
			// The status counts an incarnation when it is released, which is after the event.
			var ends map[supervisor.CauseKind]int64
			eventually(t, func() bool {
				s, ok := f.client.ServerStatus("s")
				ends = s.Totals.Ends
				return !ok || len(ends) > 0
			})
			if len(ends) > 0 {
				require.Equal(t, map[supervisor.CauseKind]int64{kind: 1}, ends, "the status agrees")
			}
			failed := !(&supervisor.Cause{Kind: kind}).Asked()
			if row.act == nil {
				require.EqualValues(t, 1, f.sum(nameStart, keyErrorType.String(string(kind))))
				require.Zero(t, f.sum(nameSession))
				return
			}
			require.NotZero(t, f.sum(nameStart))
			require.EqualValues(t, 1, f.sum(nameSession))
			require.Equal(t, failed, f.sum(nameSession, keyErrorType.String(string(kind))) == 1)
		})
	}
}

// callFails calls a tool of a server that ends with the call.
func (f *fixture) callFails() {
	_, err := f.client.CallTool(f.t.Context(), "s/echo", map[string]any{"text": "x"})
	require.Error(f.t, err)
}

// requireEnds fails unless one incarnation of server s has ended, by a cause of that kind.
func (f *fixture) requireEnds(kind supervisor.CauseKind) {
	f.t.Helper()
	all := f.series(nameEnds, keyServer.String("s"))
	require.Len(f.t, all, len(causeKinds), "each kind has a series, that it may have a rate")
	for _, p := range all {
		want := int64(0)
		if p.text(keyCause) == string(kind) {
			want = 1
		}
		require.Equal(f.t, want, p.value, "%s", p.text(keyCause))
	}
}

// The supervision of a server panics: the manager removes it.
func TestEnds_of_a_panic(t *testing.T) {
	f := newFixture(t)
	l := newLifecycle(f.tel.instruments)
	at := time.Now()
	for i, e := range []mcpvisor.Event{
		{Kind: mcpvisor.EventRegistered}, {Kind: mcpvisor.EventConnecting, Epoch: 1}, {Kind: mcpvisor.EventReady, Epoch: 1},
		{Kind: mcpvisor.EventUnregistered, Cause: &supervisor.Cause{Kind: supervisor.CausePanic}},
	} {
		e.Server, e.Gen, e.Time = "s", 1, at.Add(time.Duration(i)*time.Second)
		l.record(t.Context(), &e)
	}
	f.requireEnds(supervisor.CausePanic)
	require.EqualValues(t, 1, f.sum(nameSession, keyErrorType.String("panic")))
	require.Empty(t, l.servers)
}

// A restart that ends a start, a standby that is lost, and a removal without a session.
func TestEnds_without_events_of_their_own(t *testing.T) {
	f := newFixture(t)
	l := newLifecycle(f.tel.instruments)
	record := func(events ...mcpvisor.Event) {
		for _, e := range events {
			e.Server, e.Gen, e.Time = "s", 1, time.Now()
			l.record(t.Context(), &e)
		}
	}
	ends := func(kind supervisor.CauseKind) int64 { return f.sum(nameEnds, keyCause.String(string(kind))) }
	record(mcpvisor.Event{Kind: mcpvisor.EventConnecting}, mcpvisor.Event{Kind: mcpvisor.EventConnecting})
	require.EqualValues(t, 1, ends(supervisor.CauseRestart))
	record(mcpvisor.Event{Kind: mcpvisor.EventStandbyLost, Cause: &supervisor.Cause{Kind: supervisor.CauseExit}})
	require.EqualValues(t, 1, ends(supervisor.CauseExit))
	record(mcpvisor.Event{Kind: mcpvisor.EventStartFailed, Cause: &supervisor.Cause{Kind: supervisor.CauseSpawn}},
		mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Cause: &supervisor.Cause{Kind: supervisor.CauseRequested}})
	require.Zero(t, ends(supervisor.CauseRequested), "nothing ran when the server was removed")
	record(mcpvisor.Event{Kind: mcpvisor.EventConnecting}, mcpvisor.Event{Kind: mcpvisor.EventMissed}, mcpvisor.Event{Kind: mcpvisor.EventReady})
	require.Zero(t, f.sum(nameStart)-f.sum(nameStart, keyErrorType.String("spawn")), "a start of which events were missed has no duration")
}

// A standby that is withdrawn with its server is an end of its own. One that takes over is
// not.
func TestEnds_withdrawnStandby(t *testing.T) {
	for name, row := range map[string]struct {
		act  func(f *fixture)
		want map[supervisor.CauseKind]int64
	}{
		"unregister": {func(f *fixture) { require.NoError(f.t, f.client.Unregister(f.t.Context(), "s")) }, map[supervisor.CauseKind]int64{supervisor.CauseRequested: 2}},
		"restart":    {func(f *fixture) { require.NoError(f.t, f.client.Restart(f.t.Context(), "s")) }, map[supervisor.CauseKind]int64{supervisor.CauseRestart: 2}},
		"crash":      {func(f *fixture) { f.callFails() }, map[supervisor.CauseKind]int64{supervisor.CauseExit: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			script := mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionExit}}}
			f.register(mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Era: mcpvisor.EraLegacy, Standby: true,
				Policy: supervisor.Retry(5, time.Millisecond)})
			eventually(t, func() bool {
				s, ok := f.client.ServerStatus("s")
				return ok && s.Standby != nil
			})
			row.act(f)
			for kind, n := range row.want {
				eventually(t, func() bool { return f.sum(nameEnds, keyCause.String(string(kind))) >= n })
				require.Equal(t, n, f.sum(nameEnds, keyCause.String(string(kind))))
			}
			if s, ok := f.client.ServerStatus("s"); ok {
				require.Equal(t, row.want, s.Totals.Ends, "the status agrees")
			}
		})
	}
}
