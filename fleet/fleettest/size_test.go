//go:build linux

package fleettest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// TestThroughput is line 8 of the table in docs/fleet.md: short calls, long results and many of them at a time, from
// node to node, and the memory that they cost.
func TestThroughput(t *testing.T) {
	t.Run("in the process of the node", func(t *testing.T) {
		f := startPair(t, Options{InMemory: true})
		one, many := f.rate(1), f.rate(64)
		require.Greater(t, one, 10_000/factor(1, 20), "calls a second of one caller")
		require.Greater(t, many, 40_000/factor(1, 20), "calls a second of 64 callers")
	})
	t.Run("processes", func(t *testing.T) {
		f := startPair(t, Options{})
		f.rate(1)
		f.rate(64)
		longResults(t, f)
	})
}

// startPair starts node a, and node b with servers.
func startPair(t *testing.T, o Options) *Fleet {
	t.Helper()
	o.TTL, o.Nodes, o.Labels = ttl(), 2, true
	f := Start(t, o)
	all := Servers(8, 0)
	for i := range all {
		all[i].Labels = map[string]string{"node": "b"}
	}
	f.Apply(all)
	f.answers(f.Nodes["a"], "after the start", time.Minute)
	return f
}

// shortCall has about 100 bytes.
var shortCall = arguments{Text: strings.Repeat("x", 80)}

// rate returns how many short calls a second callers make.
func (f *Fleet) rate(callers int) int {
	f.t.Helper()
	d := pick(time.Second, 5*time.Second)
	a, b := f.Nodes["a"].PID(), f.Nodes["b"].PID()
	caller, owner := procfs.ReadStat(a).CPU, procfs.ReadStat(b).CPU
	l := must[*Load](f.Nodes["a"], "burst", burstOptions{Names: f.Names(), Callers: callers, For: d, Tool: toolCall, Args: shortCall})
	rate := int(float64(l.Calls) / d.Seconds())
	each := time.Duration(max(l.Calls, 1))
	f.t.Logf("%d callers, 100 bytes: %d calls/s (bound %d); %v; CPU of a call: caller %v, owner %v", callers, rate, map[int]int{1: 10_000, 64: 40_000}[callers], l,
		(procfs.ReadStat(a).CPU-caller)/each, (procfs.ReadStat(b).CPU-owner)/each)
	require.Zero(f.t, l.Failed(), l.Samples)
	return rate
}

func longResults(t *testing.T, f *Fleet) {
	t.Helper()
	a, b := f.Nodes["a"], f.Nodes["b"]
	resident := func(when string) {
		caller, owner := peakBytes(a.PID())>>20, peakBytes(b.PID())>>20
		t.Logf("most resident memory %s: caller %d MB, owner %d MB (bound 300)", when, caller, owner)
		require.Less(t, max(caller, owner), factor(300, 2), "MB of memory %s", when)
	}
	resident("at rest")
	for _, c := range []struct{ calls, bytes int }{{pick(2, 8), 100_000}, {1, 5_000_000}} {
		begun := boottime.Now()
		l := must[*Load](a, "burst", burstOptions{Names: f.Names(), Callers: 256, For: time.Minute, Calls: c.calls, Tool: toolBlob, Args: arguments{Bytes: c.bytes}})
		t.Logf("256 callers, %d bytes: %.0f calls/s; %v", c.bytes, float64(l.Calls)/(boottime.Now()-begun).Seconds(), l)
		require.Zero(t, l.Failed(), "%v %v", l, l.Samples)
		require.Equal(t, 256*c.calls, l.Calls)
		resident("after that")
	}
	// Beside long results of one server, short calls of another one.
	neighbour := func() *Load {
		return must[*Load](a, "burst", burstOptions{Names: f.Names()[1:2], Callers: 1, For: pick(time.Second, 3*time.Second), Tool: toolCall, Args: shortCall})
	}
	alone := neighbour()
	type outcome struct {
		load *Load
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		l, err := ask[*Load](a, "burst", burstOptions{Names: f.Names()[:1], Callers: 1, For: pick(time.Second, 3*time.Second), Tool: toolBlob, Args: arguments{Bytes: 20_000_000}})
		done <- outcome{l, err}
	}()
	beside := neighbour()
	ended := <-done
	require.NoError(t, ended.err)
	long := ended.load
	require.Zero(t, long.Failed(), long.Samples)
	require.Zero(t, beside.Failed(), beside.Samples)
	t.Logf("short calls alone: %v", alone)
	t.Logf("short calls beside %d results of 20 MB: %v", long.Calls, beside)
	within(t, "what results of 20 MB add to the median of short calls", beside.P50-alone.P50, 5*time.Millisecond)
}

// factor is n; times margin where other work may be done.
func factor(n, margin int) int {
	if *strict {
		return n
	}
	return n * margin
}

// TestManyNames is line 9 of the table in docs/fleet.md: many names are placed at the start, and move when a node dies.
func TestManyNames(t *testing.T) {
	f := Start(t, Options{TTL: ttl(), InMemory: true})
	f.Apply(Servers(pick(300, 2000), 0))
	begun := boottime.Now()
	a := f.Nodes["a"]
	within(t, "all names answer after the start", f.answers(a, "after the start", 2*time.Minute)-begun, 10*time.Second)
	calls := must[[]Call](a, "probe", probeCommand{f.Names(), time.Minute})
	count := map[int]int{}
	for _, c := range calls {
		count[c.PID]++
	}
	t.Logf("names of each node: %v", slices.Sorted(maps.Values(count)))
	moving := count[f.Nodes["c"].PID()]
	require.Greater(t, moving, len(f.servers)/6)
	killed := f.Nodes["c"].Kill()
	last := f.answers(a, "after a node is dead", 2*time.Minute)
	t.Logf("%d names move", moving)
	within(t, "all names answer after a node is dead", last-killed, 5*time.Second)
}
