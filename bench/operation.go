package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// operation is measured as a whole: connecting, listing, recovering.
type operation struct {
	name string
	// run does it once and returns a measurement for each row of the table.
	run func(ctx context.Context) ([]measurement, error)
}

// measurement is one duration and the bytes allocated meanwhile, 0 if not measured.
type measurement struct {
	took  time.Duration
	bytes float64
}

// timed measures f.
func timed(f func() error) (measurement, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return measurement{took, float64(after.TotalAlloc - before.TotalAlloc)}, err
}

// compareOperations runs the operations in turn, round after round, and prints a row for
// each: medians, and medians of the ratios to the first operation of the same round.
func compareOperations(ctx context.Context, t *table, label string, rounds int, columns []string, operations ...operation) error {
	got := make([][][]measurement, len(operations))
	for r := range rounds {
		for i := range operations {
			i := (i + r) % len(operations)
			m, err := operations[i].run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", operations[i].name, err)
			}
			got[i] = append(got[i], m)
		}
	}
	for c, column := range columns {
		for i, e := range operations {
			var took, bytes, faster, leaner []float64
			for r := range got[i] {
				m, base := got[i][r][c], got[0][r][c]
				took, bytes = append(took, m.took.Seconds()*1e3), append(bytes, m.bytes)
				faster, leaner = append(faster, base.took.Seconds()/m.took.Seconds()), append(leaner, base.bytes/max(m.bytes, 1))
			}
			kb, less := "–", "–"
			if median(bytes) > 0 {
				kb, less = fmt.Sprintf("%.0f", median(bytes)/1e3), fmt.Sprintf("%.2f", median(leaner))
			}
			record(label+", "+column, e.name, "× "+operations[0].name, median(faster))
			t.row(label, column, e.name, fmt.Sprintf("%.3g", median(took)), fmt.Sprintf("%.2f", median(faster)), kb, less)
		}
	}
	return nil
}
