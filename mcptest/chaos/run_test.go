//go:build linux

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// readable are tools of which one may be called: it says that it is read-only.
var readable = []mcptest.ToolDef{
	{Name: "look", As: "echo", Annotations: json.RawMessage(`{"readOnlyHint":true}`)},
	{Name: "count", Annotations: json.RawMessage(`{"readOnlyHint":false}`)},
	{Name: "crash"},
}

func scripted(t *testing.T, name string, faults ...mcptest.Fault) mcpvisor.ServerSpec {
	t.Helper()
	return mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(mcptest.Script{Tools: readable, StateDir: t.TempDir(), Faults: faults})}
}

func hostileOne(t *testing.T, name, misbehaviour string) mcpvisor.ServerSpec {
	t.Helper()
	m, ok := hostile.MisbehaviourNamed(misbehaviour)
	require.True(t, ok, misbehaviour)
	return mcpvisor.ServerSpec{Name: name, Stdio: m.Stdio(t.TempDir())}
}

func later(from, to int) (starts []int) {
	for n := from; n <= to; n++ {
		starts = append(starts, n)
	}
	return starts
}

// kindsOf returns the kinds of the findings of one server.
func kindsOf(s chaos.ServerReport) (kinds []chaos.FindingKind) {
	for _, f := range s.Findings {
		kinds = append(kinds, f.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

func TestRun_verdicts(t *testing.T) {
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	tool := `{"name":"more","inputSchema":{"type":"object"}}`
	specs := []mcpvisor.ServerSpec{
		scripted(t, "good"),
		scripted(t, "changes", mcptest.Fault{At: mcptest.StageList, Method: "tools/list", Do: mcptest.ActionBadTool, Text: tool, Starts: later(2, 99)}),
		scripted(t, "lost", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 3, Starts: later(2, 99)}),
		scripted(t, "unstartable", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 4}),
		scripted(t, "parent", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild}),
		scripted(t, "daemon", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"}),
		scripted(t, "fragile", mcptest.Fault{At: mcptest.StageCall, Nth: 30, Do: mcptest.ActionExit, Code: 5}),
		hostileOne(t, "twice", "call/twice"),
		hostileOne(t, "orphans", "process/grandchild-detached"),
		{Name: "memory", InMemory: mcptest.InMemory(mcptest.Script{Tools: readable})},
		{Name: "remote", HTTP: &mcpvisor.HTTP{URL: web.URL}},
	}
	want := map[string][]chaos.FindingKind{
		"changes": {chaos.FindingListsDiffer}, "lost": {chaos.FindingNotRestarted}, "unstartable": {chaos.FindingNotStarted},
		"parent": {chaos.FindingLeftBehind}, "daemon": {chaos.FindingLeftBehind}, "fragile": {chaos.FindingDied},
		"twice": {chaos.FindingUnasked}, "orphans": {chaos.FindingDied, chaos.FindingLeftBehind},
	}
	report, err := chaos.Run(t.Context(), specs, chaos.Options{Duration: 4 * time.Second, Seed: 7,
		Tools: []chaos.ToolCall{{Tool: "twice/" + hostile.BadTool}, {Tool: "orphans/" + hostile.BadTool}}})
	require.NoError(t, err)
	require.EqualValues(t, 7, report.Seed)
	require.False(t, report.Passed())
	require.Len(t, report.Servers, len(specs))
	require.True(t, slices.IsSortedFunc(report.Servers, func(a, b chaos.ServerReport) int { return strings.Compare(a.Server, b.Server) }))
	for _, s := range report.Servers {
		require.Equal(t, want[s.Server], kindsOf(s), "%s: %+v", s.Server, s)
		require.Equal(t, len(s.Findings) == 0, s.Passed)
		switch s.Server {
		case "good":
			require.Equal(t, []string{"good/look"}, s.Tools, "a tool that does not say it is read-only was called")
			require.Positive(t, s.Calls.OK)
			require.Zero(t, s.Calls.ToolErrors)
			require.Equal(t, s.Noticed.Count, s.Faults[chaos.FaultKill])
			require.GreaterOrEqual(t, s.Ready.Max, s.Ready.Median)
		case "remote":
			for _, harmful := range []string{chaos.FaultKill, chaos.FaultStop, chaos.FaultStopKill, chaos.FaultFlood} {
				require.Zero(t, s.Faults[harmful])
			}
		}
	}
	requireNoCopies(t)
}

// requireNoCopies requires that no process of a copy is left that runs this program.
func requireNoCopies(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dirs, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, dir := range dirs {
		isCopy := func() bool {
			environ, err := os.ReadFile("/proc/" + dir.Name() + "/environ")
			program, _ := os.Readlink("/proc/" + dir.Name() + "/exe")
			return err == nil && program == self && strings.Contains(string(environ), "MCPVISOR_CHAOS_COPY=")
		}
		require.Eventually(t, func() bool { return !isCopy() }, 10*time.Second, time.Millisecond, "process %s runs", dir.Name())
	}
}

// A seed decides about the order of faults. Each of them comes once before any comes again.
func TestInject_seed_decides_order(t *testing.T) {
	order := func(seed uint64) (names []string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		target := chaos.Target{Server: "s", MaxPause: time.Microsecond, After: func(i chaos.Injection) bool {
			names = append(names, i.Fault)
			return len(names) < 40
		}}
		for n := range 10 {
			target.Faults = append(target.Faults, chaos.Fault{Name: fmt.Sprint(n), Weight: n,
				Inject: func(context.Context, *rand.Rand) (int, bool) { return 0, true }})
		}
		require.Len(t, chaos.Inject(ctx, seed, target), 40)
		return names
	}
	first := order(1)
	require.Equal(t, first, order(1))
	require.NotEqual(t, first, order(2))
	slices.Sort(first[:10])
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, first[:10])
}

// Recovery counts kills only, and none that hit a server which had ended already.
func TestRecovery(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	event := func(ms int, kind mcpvisor.EventKind, epoch uint64, pid int, cause supervisor.CauseKind) mcpvisor.Event {
		return mcpvisor.Event{Server: "s", Gen: 1, Epoch: epoch, Kind: kind, PID: pid, Time: at(ms), Cause: &supervisor.Cause{Kind: cause}}
	}
	events := []mcpvisor.Event{
		event(0, mcpvisor.EventReady, 1, 100, ""), event(15, mcpvisor.EventDown, 1, 0, supervisor.CauseSignal),
		event(50, mcpvisor.EventReady, 2, 200, ""), event(60, mcpvisor.EventDown, 2, 0, supervisor.CauseExit),
		event(90, mcpvisor.EventReady, 3, 300, ""),
	}
	kill := func(ms, pid int) chaos.Injection {
		return chaos.Injection{Server: "s", Fault: chaos.FaultKill, Time: at(ms), PID: pid}
	}
	noticed, ready := chaos.Recovery([]chaos.Injection{kill(10, 100), kill(55, 200), kill(95, 300), kill(95, 400),
		{Server: "s", Fault: chaos.FaultStop, Time: at(10), PID: 100}}, events)
	require.Equal(t, []time.Duration{5 * time.Millisecond}, noticed)
	require.Equal(t, []time.Duration{40 * time.Millisecond}, ready)
}

func TestRun_refuses(t *testing.T) {
	good := []mcpvisor.ServerSpec{{Name: "one", InMemory: mcptest.InMemory(mcptest.Script{})}}
	for name, c := range map[string]struct {
		specs []mcpvisor.ServerSpec
		calls []chaos.ToolCall
		want  string
	}{
		"invalid spec":   {[]mcpvisor.ServerSpec{{Name: "one"}}, nil, "one"},
		"unknown server": {good, []chaos.ToolCall{{Tool: "two/echo"}}, `tool "two/echo" is of no server here`},
		"no object":      {good, []chaos.ToolCall{{Tool: "one/echo", Arguments: json.RawMessage(`[1]`)}}, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chaos.Run(t.Context(), c.specs, chaos.Options{Tools: c.calls})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A Run whose context ends reports what it has found so far, and leaves nothing behind.
func TestRun_canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	report, err := chaos.Run(ctx, []mcpvisor.ServerSpec{scripted(t, "good")},
		chaos.Options{Progress: func(chaos.Step) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, report.Servers, 1)
	requireNoCopies(t)
}

// What a server leaves behind that never started is ended, too.
func TestRun_failed_start_leaves_nothing(t *testing.T) {
	report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{scripted(t, "failing",
		mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"}, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 4})},
		chaos.Options{})
	require.NoError(t, err)
	require.Equal(t, []chaos.FindingKind{chaos.FindingNotStarted}, kindsOf(report.Servers[0]))
	requireNoCopies(t)
}
