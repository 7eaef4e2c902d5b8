package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withFigures replaces the figures for one test.
func withFigures(t *testing.T) {
	before, section := figures, currentSection
	figures, currentSection = map[string]float64{}, guardSection
	t.Cleanup(func() { figures, currentSection = before, section })
}

func TestCheckFigures(t *testing.T) {
	withFigures(t)
	cpu := over(figureCPU, clientBare)
	file := filepath.Join(t.TempDir(), "baseline.json")
	run := 0
	if err := writeBaseline(file, func(...string) error {
		run++
		record("64", clientOurs, cpu, 2+float64(run)*0.05/2) // the median is 2.1
		record("64", clientOurs, figureAllocs, 3)
		record("64", clientSDK, figureAllocs, 50)
		return nil
	}); err != nil || run != baselineRuns {
		t.Fatal(err, run)
	}
	for _, row := range []struct {
		name          string
		figure        string
		first, second float64
		repeated      int
		worse         string
	}{
		{"equal", cpu, 2.1, 0, 0, ""},
		{"within the tolerance", cpu, 2.3, 0, 0, ""},
		{"better", cpu, 1, 0, 0, ""},
		{"worse once", cpu, 3, 2.2, 1, ""},
		{"worse each time", cpu, 3, 2.5, 2, "guard/64/mcpvisor/" + cpu + ": 2.50"},
		{"fewer allocations", figureAllocs, 2, 0, 0, ""},
		{"one allocation more", figureAllocs, 4, 4, 2, "guard/64/mcpvisor/" + figureAllocs + ": 4.00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			withFigures(t)
			record("64", clientOurs, row.figure, row.first)
			repeated := 0
			err := checkFigures(file, 0.15, func(labels ...string) error {
				if repeated++; !slices.Equal(labels, []string{"64"}) {
					t.Errorf("measured %q again", labels)
				}
				record("64", clientOurs, row.figure, row.second)
				return nil
			})
			if (err == nil) != (row.worse == "") || err != nil && !strings.Contains(err.Error(), row.worse) {
				t.Errorf("got %v, want %q", err, row.worse)
			}
			if repeated != row.repeated {
				t.Errorf("measured again %d times, want %d", repeated, row.repeated)
			}
		})
	}
	withFigures(t)
	if checkFigures(file, 0.15, func(...string) error { return nil }) == nil {
		t.Error("a run without a figure of the baseline passed")
	}
	record("64", clientOurs, cpu, 1)
	if os.Remove(file); checkFigures(file, 0.15, func(...string) error { return nil }) == nil {
		t.Error("a missing baseline passed")
	}
}

func TestBar(t *testing.T) {
	for _, row := range []struct {
		bar  bar
		got  float64
		met  bool
		text string
	}{
		{atMost(figureTime, 0.5), 0.5, true, "≤ 0.5"},
		{atMost(figureTime, 0.5), 0.51, false, "≤ 0.5"},
		{atLeast(over(figureRate, clientSDK), 22), 23, true, "≥ 22 × go-sdk"},
		{atLeast(over(figureRate, clientSDK), 22), 21, false, "≥ 22 × go-sdk"},
	} {
		if row.bar.met(row.got) != row.met || row.bar.String() != row.text {
			t.Errorf("%+v with %v: met %v, %q", row.bar, row.got, row.bar.met(row.got), row.bar)
		}
	}
}
