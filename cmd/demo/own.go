package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
)

// runOwn kills, stops and restarts copies of the servers of files, and calls no tool. A server that does not start is left
// out. It returns the exit code: 2 if the files have no server that can be used.
func runOwn(ctx context.Context, p *printer, s settings) int {
	file, err := config.LoadFiles(s.files)
	if err != nil {
		p.printLine(red, "demo: %v", err)
		return 2
	}
	for _, problem := range file.Problems {
		p.printLine(yellow, "%s", display.Line(problem.String()))
	}
	specs := file.Specs()
	if len(specs) == 0 {
		p.printLine(red, "demo: %s has no server that can be used here; mcpvisor init writes an example", file.Path)
		return 2
	}
	for _, spec := range specs {
		p.nameWidth = max(p.nameWidth, min(len(spec.Name), maxNameWidth))
	}
	p.printLine(bold, "%s of %s · copies of your own are started, and killed · no tool is called", display.Count(len(specs), "server"), file.Path)
	report, err := chaos.Run(ctx, specs, chaos.Options{Duration: 2 * s.storm, Seed: uint64(s.seed), ListsOnly: true, Progress: func(step chaos.Step) {
		if step.Finding == "" { // the report has the findings
			p.printFact(bold, strings.ToUpper(step.Fault), step.Server, "%s", step.Text)
		}
	}})
	return printOwn(p, report, err, s.seed)
}

// printOwn prints what was found about each server, and returns the exit code. failed says why the faults have ended early;
// nil: they have not.
func printOwn(p *printer, report chaos.Report, failed error, seed int64) int {
	passed, injected := 0, 0
	for _, server := range report.Servers {
		for _, f := range server.Findings {
			if f.Kind == chaos.FindingNotStarted {
				p.printFact(red, "skip", server.Server, "✗ left out: %s", display.Line(f.Text))
			} else {
				failed = errors.Join(failed, fmt.Errorf("%s: %s", server.Server, display.Line(f.Text)))
			}
		}
		if server.Passed {
			passed++
			var faults []string
			for _, name := range slices.Sorted(maps.Keys(server.Faults)) {
				faults = append(faults, fmt.Sprintf("%s %d", name, server.Faults[name]))
				injected += server.Faults[name]
			}
			p.printFact(green, "back", server.Server, "%s · ready again within %s of a kill", strings.Join(faults, " · "), roundedDuration(server.Ready.Max))
		}
	}
	if failed == nil && passed == 0 {
		failed = errors.New("no server is ready; mcpvisor doctor explains each")
	}
	if failed != nil {
		p.printLine(red, "FAIL  %v", failed)
		p.printLine(dim, "again go run ./cmd/demo --config … --seed %d; mcpvisor chaos says more", seed)
		return 1
	}
	p.printLine(green, "PASS  what was killed came back with its lists · no orphan process (%d faults)", injected)
	return 0
}
