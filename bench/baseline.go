package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

// guardSection is the section whose figures are compared with a baseline. Of all of them
// less is better.
const guardSection = "guard"

// guarded returns the figures of this run that a baseline holds: those of mcpvisor. The
// figures of others are not its to guard.
func guarded() map[string]float64 {
	out := map[string]float64{}
	for name, value := range figures {
		if part := strings.Split(name, "/"); part[0] == guardSection && strings.HasPrefix(part[2], clientOurs) {
			out[name] = value
		}
	}
	return out
}

// readBaseline reads a file that writeBaseline has written.
func readBaseline(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the baseline cannot be read; make one with -baseline: %w", err)
	}
	var baseline map[string]float64
	if err := json.Unmarshal(text, &baseline); err != nil {
		return nil, fmt.Errorf("the baseline %s is not what -baseline writes: %w", file, err)
	}
	return baseline, nil
}

// baselineRuns is how many runs a baseline is the median of.
const baselineRuns = 7

// writeBaseline measures again and again, and writes the medians.
func writeBaseline(file string, measure func(labels ...string) error) error {
	runs := map[string][]float64{}
	for range baselineRuns {
		if err := measure(); err != nil {
			return err
		}
		for name, value := range guarded() {
			runs[name] = append(runs[name], value)
		}
	}
	medians := map[string]float64{}
	for name, values := range runs {
		medians[name] = math.Round(median(values)*1000) / 1000
	}
	return saveFigures(file, medians)
}

// allocationSlack is how many allocations per call more than the baseline are not a
// regression: pools that a garbage collection has emptied, and calls at the edges.
const allocationSlack = 0.4

// worseThan returns the figures that are worse than the baseline by more than the tolerance,
// which is a fraction, and how many it has compared.
func worseThan(baseline map[string]float64, tolerance float64) (worse []string, compared int) {
	got := guarded()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		want, known := baseline[name]
		if !known {
			continue
		}
		compared++
		limit := want * (1 + tolerance)
		if strings.HasSuffix(name, figureAllocs) {
			limit = want + allocationSlack
		}
		if got[name] > limit {
			worse = append(worse, fmt.Sprintf("%s: %.2f, and the baseline is %.2f", name, got[name], want))
		}
	}
	return worse, compared
}

// maxAttempts is how often a figure is measured that is worse than the baseline. The noise
// of a busy machine comes and goes; what a change costs is there each time.
const maxAttempts = 3

// checkFigures compares the figures with a baseline. again measures the loads of these
// labels once more; of several measurements the best counts.
func checkFigures(file string, tolerance float64, again func(labels ...string) error) error {
	baseline, err := readBaseline(file)
	if err != nil {
		return err
	}
	worse, compared := worseThan(baseline, tolerance)
	for attempt := 1; len(worse) > 0 && attempt < maxAttempts; attempt++ {
		fmt.Printf("\nmeasured again, because these are worse than the baseline:\n%s\n", strings.Join(worse, "\n"))
		var labels []string
		for _, name := range worse {
			labels = append(labels, strings.Split(name, "/")[1])
		}
		before := guarded()
		if err := again(labels...); err != nil {
			return err
		}
		for name, value := range before {
			figures[name] = min(value, figures[name])
		}
		worse, compared = worseThan(baseline, tolerance)
	}
	switch {
	case compared == 0:
		return fmt.Errorf("nothing that ran is in the baseline %s; run the section %s", file, guardSection)
	case len(worse) > 0:
		return fmt.Errorf("worse than %s by more than %.0f %%; if that is the price of the change, write a new one with -baseline:\n%s",
			file, 100*tolerance, strings.Join(worse, "\n"))
	}
	fmt.Printf("\n%d figures are no worse than %s by more than %.0f %%\n", compared, file, 100*tolerance)
	return nil
}
