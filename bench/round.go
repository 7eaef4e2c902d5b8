package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sample is one measurement of one arm.
type sample struct {
	perSecond float64 // calls, or megabytes
	cpuMicros float64 // client CPU per call
	allocs    float64 // per call
	bytes     float64 // per call
}

// work is what is measured: one call by one of many callers.
type work struct {
	size int // of a blob; 0: an echo
	do   func(ctx context.Context, a arm, t target, caller, n int) (units float64, err error)
}

var echoWork = work{do: echoOnce}

func echoOnce(ctx context.Context, a arm, t target, caller, n int) (float64, error) {
	text := "c" + strconv.Itoa(caller) + "-" + strconv.Itoa(n)
	got, err := a.echo(ctx, text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", a.name(), err)
	}
	return 1, check(a, t, text, got)
}

func blobWork(size int) work {
	return work{size, func(ctx context.Context, a arm, _ target, _, _ int) (float64, error) {
		got, err := a.blob(ctx, size)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", a.name(), err)
		}
		return float64(size) / 1e6, checkBlob(a, size, got)
	}}
}

// mixedWork counts the small calls of all callers but the first, which asks for
// 10 MB again and again.
var mixedWork = work{do: func(ctx context.Context, a arm, t target, caller, n int) (float64, error) {
	if caller > 0 {
		return echoOnce(ctx, a, t, caller, n)
	}
	const size = 10_000_000
	got, err := a.blob(ctx, size)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", a.name(), err)
	}
	return 0, checkBlob(a, size, got)
}}

// measure lets callers work for a while.
func measure(ctx context.Context, a arm, t target, callers int, d time.Duration, w work) (sample, error) {
	if own, ok := a.(*tsArm); ok {
		return own.measure(t, callers, d, w)
	}
	var (
		calls   atomic.Int64
		units   = make([]float64, callers)
		failure atomic.Pointer[error]
		wg      sync.WaitGroup
		before  runtime.MemStats
		after   runtime.MemStats
	)
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	end := start.Add(d)
	for c := range callers {
		wg.Go(func() {
			n := 0
			for ; failure.Load() == nil; n++ {
				if n%8 == 0 && !time.Now().Before(end) && n > 0 {
					break
				}
				u, err := w.do(ctx, a, t, c, n)
				if err != nil {
					failure.Store(&err)
					return
				}
				units[c] += u
			}
			calls.Add(int64(n))
		})
	}
	wg.Wait()
	took := time.Since(start)
	spent := cpuTime() - cpu
	runtime.ReadMemStats(&after)
	if err := failure.Load(); err != nil {
		return sample{}, *err
	}
	n, total := float64(calls.Load()), 0.0
	for _, u := range units {
		total += u
	}
	return sample{
		perSecond: total / took.Seconds(),
		cpuMicros: float64(spent.Microseconds()) / n,
		allocs:    float64(after.Mallocs-before.Mallocs) / n,
		bytes:     float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compare measures all arms in turn, round after round, so that whatever else
// the machine does hits all of them alike.
func compare(ctx context.Context, arms []arm, t target, callers, rounds int, d time.Duration, w work) ([][]sample, error) {
	out := make([][]sample, len(arms))
	for _, a := range arms {
		if _, err := measure(ctx, a, t, callers, d/4, w); err != nil { // warm up
			return nil, err
		}
	}
	for r := range rounds {
		for i := range arms {
			i := (i + r) % len(arms)
			s, err := measure(ctx, arms[i], t, callers, d, w)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], s)
		}
	}
	return out, nil
}

func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	if len(xs) == 0 {
		return 0
	}
	return xs[len(xs)/2]
}

func field(s []sample, f func(sample) float64) []float64 {
	out := make([]float64, len(s))
	for i := range s {
		out[i] = f(s[i])
	}
	return out
}

// ratios pairs the rounds of two arms.
func ratios(of, to []sample) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = of[i].perSecond / to[i].perSecond
	}
	return out
}
