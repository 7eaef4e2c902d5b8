package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// results are the figures of the report that a later run can be compared with, by
// "section/row/client/figure". They do not depend on how fast the machine is: ratios of
// paired rounds, and counts.
var results = map[string]float64{}

// currentSection is the name of the section that runs.
var currentSection string

// Figures of which less is better. Of all others more is better.
const (
	figureAllocs     = "allocs/call"
	figureBytes      = "B/call"
	figureGoroutines = "goroutines"
	figureHeap       = "heap KB"
)

func lessIsBetter(figure string) bool {
	return slices.Contains([]string{figureAllocs, figureBytes, figureGoroutines, figureHeap}, figure)
}

// record notes a figure of mcpvisor. Those of others are not its to guard.
func record(row, client, figure string, value float64) {
	if strings.HasPrefix(client, "mcpvisor") && value > 0 {
		results[strings.Join([]string{currentSection, row, client, figure}, "/")] = value
	}
}

// saveResults writes the results to a file.
func saveResults(file string) error {
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// checkResults compares the results with a file that saveResults wrote. It reports those
// that are worse by more than the tolerance, which is a fraction. Results that one of the
// two does not have are not compared.
func checkResults(file string, tolerance float64) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the baseline cannot be read; make one with -save: %w", err)
	}
	var baseline map[string]float64
	if err := json.Unmarshal(text, &baseline); err != nil {
		return fmt.Errorf("the baseline %s is not what -save writes: %w", file, err)
	}
	compared := 0
	var worse []string
	for _, key := range slices.Sorted(maps.Keys(results)) {
		want, known := baseline[key]
		if !known {
			continue
		}
		compared++
		got, figure := results[key], strings.SplitN(key, "/", 4)[3]
		if isWorse(figure, got, want, tolerance) {
			worse = append(worse, fmt.Sprintf("%s: %.2f, and the baseline is %.2f", key, got, want))
		}
	}
	if compared == 0 {
		return errors.New("nothing that ran is in the baseline " + file)
	}
	if len(worse) > 0 {
		return fmt.Errorf("worse than %s by more than %.0f %%:\n%s", file, 100*tolerance, strings.Join(worse, "\n"))
	}
	fmt.Printf("\n%d figures are no worse than %s by more than %.0f %%\n", compared, file, 100*tolerance)
	return nil
}

func isWorse(figure string, got, want, tolerance float64) bool {
	if lessIsBetter(figure) {
		return got > want*(1+tolerance)
	}
	return got < want*(1-tolerance)
}
