package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// readBaseline reads a file that updateBaseline has written.
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

// updateBaseline writes the worse of the figures of this run and of those in the file, if
// there is one. So the baseline of several runs bears the noise of the machine.
func updateBaseline(file string) error {
	worst, err := readBaseline(file)
	if errors.Is(err, fs.ErrNotExist) {
		worst, err = map[string]float64{}, nil
	}
	if err != nil {
		return err
	}
	for name, value := range guarded() {
		worst[name] = max(worst[name], value)
	}
	return saveFigures(file, worst)
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

// checkFigures compares the figures with a baseline. again measures them once more, for
// figures that are worse only once are the machine's.
func checkFigures(file string, tolerance float64, again func() error) error {
	baseline, err := readBaseline(file)
	if err != nil {
		return err
	}
	worse, compared := worseThan(baseline, tolerance)
	if len(worse) > 0 {
		fmt.Printf("\nmeasured again, because these are worse than the baseline:\n%s\n", strings.Join(worse, "\n"))
		before := guarded()
		if err := again(); err != nil {
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
		return fmt.Errorf("worse than %s by more than %.0f %%:\n%s", file, 100*tolerance, strings.Join(worse, "\n"))
	}
	fmt.Printf("\n%d figures are no worse than %s by more than %.0f %%\n", compared, file, 100*tolerance)
	return nil
}
