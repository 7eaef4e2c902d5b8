package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// episode is something that is done once and takes a while: connecting,
// listing, recovering.
type episode struct {
	name string
	// run does it once and reports what it measured, in the order of the table's
	// columns.
	run func(ctx context.Context) ([]reading, error)
}

// reading is one time and what was allocated meanwhile; bytes may be 0.
type reading struct {
	took  time.Duration
	bytes float64
}

// timed measures f.
func timed(f func() error) (reading, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return reading{took, float64(after.TotalAlloc - before.TotalAlloc)}, err
}

// contest runs the episodes in turn, round after round, and prints a row for
// each: medians, and ratios to the first one as medians of paired rounds.
func contest(ctx context.Context, t *table, label string, rounds int, columns []string, episodes ...episode) error {
	got := make([][][]reading, len(episodes))
	for r := range rounds {
		for i := range episodes {
			i := (i + r) % len(episodes)
			m, err := episodes[i].run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", episodes[i].name, err)
			}
			got[i] = append(got[i], m)
		}
	}
	for c, column := range columns {
		for i, e := range episodes {
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
			t.row(label, column, e.name, fmt.Sprintf("%.3g", median(took)), fmt.Sprintf("%.2f", median(faster)), kb, less)
		}
	}
	return nil
}
