package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/mcpvisor/mcpvisor/facade"
)

// crowdedDriver calls a server of a client that knows many tools.
type crowdedDriver struct {
	*facadeDriver
	label string
}

func (a *crowdedDriver) name() string { return a.label }

// newCrowded makes a client with that many servers of that many tools each.
func newCrowded(ctx context.Context, servers, tools int) (*crowdedDriver, error) {
	t := stdioTarget("fast")
	t.env = append(t.env, fmt.Sprintf("BENCH_TOOLS=%d", tools-3), "BENCH_PAGE=1000")
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	a := &crowdedDriver{&facadeDriver{t: t, c: c, tool: "s000/echo"}, fmt.Sprintf("%d tools on %d servers", servers*tools, servers)}
	return a, inParallel(servers, func(i int) error {
		s := spec(fmt.Sprintf("s%03d", i), t)
		s.Timeouts = longTimeouts
		return c.Register(ctx, s)
	})
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// scale compares calls among few tools with calls among many, and prints the memory per
// server and tool.
func scale(ctx context.Context) error {
	before := heap()
	few, err := newCrowded(ctx, 1, 10)
	if err != nil {
		return err
	}
	defer few.close()
	one := heap() - before
	before = heap()
	few20, err := newCrowded(ctx, 20, 10)
	if err != nil {
		return err
	}
	each := (heap() - before - one) / 19
	few20.close()
	before = heap()
	many, err := newCrowded(ctx, 5, 10_000)
	if err != nil {
		return err
	}
	defer many.close()
	tools := heap() - before
	t := newTable("Calls among few and among many tools", "callers", "client knows", "calls/s", "× few", "CPU µs/call")
	for _, n := range []int{1, 64} {
		got, err := compare(ctx, []driver{few, many}, few.t, n, *rounds, *duration, echoLoad)
		if err != nil {
			return err
		}
		recordRatios(fmt.Sprint(n), figureRate, []string{few.name(), many.name()}, *rounds, func(client, round int) float64 { return got[client][round].perSecond })
		for i, a := range []*crowdedDriver{few, many} {
			t.row(fmt.Sprint(n), a.name(), fmt.Sprintf("%.0f", median(field(got[i], func(s sample) float64 { return s.perSecond }))),
				ratioTo(fmt.Sprint(n), a.name(), few.name(), figureRate),
				fmt.Sprintf("%.1f", median(field(got[i], func(s sample) float64 { return s.cpuMicros }))))
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	fmt.Printf("\nMemory: %.0f KB for a client with its first server, %.0f KB for each further server,\n%.0f bytes for each tool (its JSON included).\n",
		one/1e3, each/1e3, tools/50_000)
	return nil
}
