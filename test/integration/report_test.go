//go:build linux

package integration

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
)

// report sums up the rounds of a storm.
type report struct {
	rounds, calls, events int
	faults                map[string]int
	outcomes              map[string]int
	// detection is the time from a kill -9 to the down event, recovery the time to the
	// next ready event, the restart delay included.
	detection, recovery []time.Duration
	samples             []sample
}

// sample is what this process holds between rounds, while no server is registered.
type sample struct{ routines, descriptors, heap, rss int }

func takeSample() sample {
	runtime.GC()
	runtime.GC() // finalizers that the first one ran may free more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := sample{routines: runtime.NumGoroutine(), descriptors: len(descriptors()), heap: int(m.HeapAlloc >> 10)}
	if fields, err := os.ReadFile("/proc/self/statm"); err == nil {
		if pages, err := strconv.Atoi(string(bytes.Fields(fields)[1])); err == nil {
			s.rss = pages * os.Getpagesize() >> 10
		}
	}
	return s
}

// add adds one round.
func (r *report) add(ev evidence, injected []chaos.Injection, acts map[string]int) {
	r.rounds++
	r.calls += len(ev.records)
	r.events += len(ev.events)
	for act, n := range acts {
		r.faults[act] += n
	}
	for kind, n := range countErrors(ev.records) {
		r.outcomes[kind] += n
	}
	r.outcomes["answered"] += len(ev.records) - len(slices.DeleteFunc(slices.Clone(ev.records), func(c *record) bool { return c.err == nil }))
	for _, i := range injected {
		r.faults[i.Fault]++
	}
	noticed, ready := chaos.Recovery(injected, ev.events)
	r.detection, r.recovery = append(r.detection, noticed...), append(r.recovery, ready...)
}

// quarterMean returns the mean of one quarter of the samples, 0 (the first) to 3 (the
// last).
func (r *report) quarterMean(n int) (mean sample) {
	from, to := n*len(r.samples)/4, (n+1)*len(r.samples)/4
	if to == from {
		return r.samples[from]
	}
	for _, s := range r.samples[from:to] {
		mean.routines += s.routines
		mean.descriptors += s.descriptors
		mean.heap += s.heap
		mean.rss += s.rss
	}
	k := to - from
	return sample{mean.routines / k, mean.descriptors / k, mean.heap / k, mean.rss / k}
}

func (r *report) String() string {
	var b strings.Builder
	list := func(what string, counts map[string]int) {
		fmt.Fprintf(&b, "%-10s", what)
		for _, k := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, " %s %d,", k, counts[k])
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d rounds, %d calls, %d events\n", r.rounds, r.calls, r.events)
	list("faults", r.faults)
	list("outcomes", r.outcomes)
	times := func(what string, d []time.Duration) {
		if len(d) == 0 {
			return
		}
		slices.Sort(d)
		fmt.Fprintf(&b, "%-10s %d measured: median %v, p99 %v, worst %v\n", what, len(d), d[len(d)/2], d[len(d)*99/100], d[len(d)-1])
	}
	times("detection", r.detection)
	times("recovery", r.recovery)
	if len(r.samples) >= 4 {
		for _, n := range []int{0, 3} {
			q := r.quarterMean(n)
			fmt.Fprintf(&b, "%-10s %d goroutines, %d descriptors, %d KiB heap, %d KiB RSS\n",
				[]string{"first", "", "", "last"}[n]+" qtr.", q.routines, q.descriptors, q.heap, q.rss)
		}
	}
	return b.String()
}

// requireNoGrowth compares the last quarter of the samples with the first. Goroutines
// and descriptors must be equal except for two; memory fluctuates and includes what the
// test records.
func (r *report) requireNoGrowth(t *testing.T) {
	if len(r.samples) < 8 {
		return
	}
	first, last := r.quarterMean(0), r.quarterMean(3)
	require.LessOrEqual(t, last.routines, first.routines+2, "goroutines grow")
	require.LessOrEqual(t, last.descriptors, first.descriptors+2, "descriptors grow")
	require.LessOrEqual(t, last.heap, first.heap*5/4+8<<10, "the heap grows")
	if raceDetector { // the race detector itself keeps memory for all that it has seen
		return
	}
	require.LessOrEqual(t, last.rss, first.rss*3/2+32<<10, "resident memory grows")
}
