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

// sample is one measurement of one driver.
type sample struct {
	perSecond float64 // calls, or megabytes
	cpuMicros float64 // client CPU per call
	allocs    float64 // per call
	bytes     float64 // per call
	calls     float64
}

// workload is what is measured: one call by one of many callers.
type workload struct {
	size int // of a blob; 0: an echo
	do   func(ctx context.Context, a driver, t target, caller, n int) (units float64, err error)
}

var echoLoad = workload{do: echoOnce}

func echoOnce(ctx context.Context, a driver, t target, caller, n int) (float64, error) {
	text := "c" + strconv.Itoa(caller) + "-" + strconv.Itoa(1000+n) // small numbers cost no allocation
	got, err := a.echo(ctx, text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", a.name(), err)
	}
	return 1, checkEcho(a, t, text, got)
}

func blobLoad(size int) workload {
	return workload{size, func(ctx context.Context, a driver, _ target, _, _ int) (float64, error) {
		got, err := a.blob(ctx, size)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", a.name(), err)
		}
		return float64(size) / 1e6, checkBlob(a, size, got)
	}}
}

// measure lets the callers call for the duration d.
func measure(ctx context.Context, a driver, t target, callers int, d time.Duration, w workload) (sample, error) {
	if own, ok := a.(*tsDriver); ok {
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
				if (n%8 == 0 || w.size > 0) && n > 0 && !time.Now().Before(end) {
					break
				}
				u, err := w.do(ctx, a, t, c, n)
				if err != nil {
					failed := err // so that err itself is not allocated for each call
					failure.Store(&failed)
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
		calls:     n,
	}, nil
}

// counted counts what f allocates.
func counted(f func() error) (sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	return sample{allocs: float64(after.Mallocs - before.Mallocs), bytes: float64(after.TotalAlloc - before.TotalAlloc)}, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compare measures all drivers in turn, round after round, so that other load on the
// machine affects them alike.
func compare(ctx context.Context, drivers []driver, t target, callers, rounds int, d time.Duration, w workload) ([][]sample, error) {
	out := make([][]sample, len(drivers))
	for _, a := range drivers {
		if _, err := measure(ctx, a, t, callers, d/4, w); err != nil { // warm up
			return nil, err
		}
	}
	for r := range rounds {
		for i := range drivers {
			i := (i + r) % len(drivers)
			s, err := measure(ctx, drivers[i], t, callers, d, w)
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
