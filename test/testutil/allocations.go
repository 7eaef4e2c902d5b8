package testutil

import (
	"runtime"
	"runtime/debug"
)

// collectAbove is the size of the heap, in bytes, from which Allocations collects garbage.
const collectAbove = 1 << 30

// Allocations returns the allocations and the bytes of one call of f in this process, in
// all goroutines together, as means over n calls. A tenth of n calls come before, so that
// pools are filled, and garbage is not collected meanwhile, which would empty them again. The
// race detector allocates by itself, and empties pools at random.
func Allocations(n int, f func()) (allocs, bytes float64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(collectAbove))
	for range n / 10 {
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}
