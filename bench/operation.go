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
	Took  time.Duration
	Bytes float64
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

// operationColumns are the columns of a table of operations, after those of the label.
var operationColumns = []string{"client", "ms", "ms × go-sdk", "ms × bare", "KB allocated"}

// compareOperations runs the operations in turn, round after round, and prints a row for
// each: medians, and medians of the ratios of the same round.
func compareOperations(ctx context.Context, t *table, label string, rounds int, columns []string, operations ...operation) error {
	got := make([][][]measurement, len(operations))
	var names []string
	for _, o := range operations {
		names = append(names, o.name)
	}
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
		row := label + ", " + column
		ms := func(client, round int) float64 { return got[client][round][c].Took.Seconds() * 1e3 }
		recordRatios(row, figureTime, names, rounds, ms)
		for i, name := range names {
			var took, bytes []float64
			for r := range rounds {
				took, bytes = append(took, ms(i, r)), append(bytes, got[i][r][c].Bytes)
			}
			kb := "–"
			if median(bytes) > 0 {
				kb = fmt.Sprintf("%.0f", median(bytes)/1e3)
			}
			record(row, name, figureTime, median(took))
			record(row, name, figureKB, median(bytes)/1e3)
			t.row(label, column, name, fmt.Sprintf("%.3g", median(took)), ratioTo(row, name, clientSDK, figureTime), ratioTo(row, name, clientBare, figureTime), kb)
		}
	}
	return nil
}

// ratioTo shows a ratio that recordRatios has noted in the section that runs.
func ratioTo(row, client, to, figure string) string {
	if client == to {
		return "1.00"
	}
	if v, ok := figures[key(currentSection, row, client, over(figure, to))]; ok {
		return fmt.Sprintf("%.2f", v)
	}
	return "–"
}
