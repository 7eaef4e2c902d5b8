package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// guardLoad is one comparison of the section that guards against regressions.
type guardLoad struct {
	label   string
	server  string // "fast", or the kind of an HTTP server
	callers int
	load    workload
	floor   openFunc
}

var guardLoads = []guardLoad{
	{"stdio, 1 caller", "fast", 1, echoLoad, newPipeDriver},
	{"stdio, 64 callers", "fast", 64, echoLoad, newPromptPipeDriver},
	{"stdio, 1 MB", "fast", 1, blobLoad(1_000_000), newFreshPipeDriver},
	{"HTTP, 64 callers", "http", 64, echoLoad, newHTTPDriver},
	{"HTTP event streams, 64 callers", "stream", 64, echoLoad, newHTTPDriver},
}

const (
	guardRounds = 100
	guardSlice  = 15 * time.Millisecond
)

// guard measures what the committed baseline is compared with: the client's CPU time as a
// multiple of that of the floor, and allocations. It is made for busy machines. CPU time does not
// count what others run; one processor leaves out the scheduler's search for work, which
// depends on what is idle; and the lower quartile of many short slices leaves out those
// that were interrupted.
// It measures the loads of these labels, or all.
func guard(ctx context.Context, labels ...string) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := newTable("Guard: CPU time beside the floor, on one processor", "what", "client", figureCPU, over(figureCPU, clientBare), figureAllocs, figureBytes)
	for _, l := range guardLoads {
		if len(labels) > 0 && !slices.Contains(labels, l.label) {
			continue
		}
		if err := guardOne(ctx, w, l); err != nil {
			return fmt.Errorf("%s: %w", l.label, err)
		}
	}
	return w.end()
}

func guardOne(ctx context.Context, w *table, l guardLoad) error {
	t := stdioTarget("fast")
	if l.server != "fast" {
		var stop func()
		var err error
		if t, stop, err = httpTarget(l.server); err != nil {
			return err
		}
		defer stop()
	}
	drivers, closeAll, err := open(ctx, t, []openFunc{newFacadeDriver, newRawDriver, l.floor})
	if err != nil {
		return err
	}
	defer closeAll()
	got, err := compare(ctx, drivers, t, l.callers, guardRounds, guardSlice, l.load)
	if err != nil {
		return err
	}
	cpu := func(i int) float64 {
		return lowerQuartile(field(got[i], func(s sample) float64 { return s.cpuMicros }))
	}
	floor := len(drivers) - 1
	for i, a := range drivers {
		ratio := cpu(i) / cpu(floor)
		allocs := lowerQuartile(field(got[i], func(s sample) float64 { return s.allocs }))
		bytes := lowerQuartile(field(got[i], func(s sample) float64 { return s.bytes }))
		if l.callers > 1 || l.load.size > 0 { // one caller's small calls are mostly wake-ups, whose cost depends on other load
			record(l.label, a.name(), over(figureCPU, clientBare), ratio)
		}
		if l.load.size == 0 { // large results are so few in a slice that what surrounds them counts
			record(l.label, a.name(), figureAllocs, allocs)
		}
		record(l.label, a.name(), figureBytes, bytes)
		w.row(l.label, a.name(), fmt.Sprintf("%.2f", cpu(i)), fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.1f", allocs), fmt.Sprintf("%.0f", bytes))
	}
	return nil
}

func lowerQuartile(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/4]
}
