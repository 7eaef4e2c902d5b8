package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
)

type doctorCmd struct{}

// Run implements kong's command.
func (doctorCmd) Run(inv *invocation) error {
	file, err := inv.loadConfig()
	if err != nil {
		return err
	}
	findings, code := fileFindings(file)
	specs := file.Specs()
	if len(specs) > 0 {
		quiet := *inv
		quiet.err = io.Discard
		c, stop, err := quiet.startServers(file, specs)
		if err != nil {
			return err
		}
		all, heard, err := quiet.observeStarts(c)
		stop()
		if err != nil {
			return err
		}
		for _, s := range all {
			d := diagnose(s, c.specs[s.Name], heard[s.Name])
			if !d.OK {
				code = max(code, exitUnavailable)
			}
			findings = append(findings, d)
		}
	}
	switch {
	case len(findings) == 0:
	case inv.json:
		err = printJSON(inv.out, map[string]any{"findings": findings})
	default:
		err = inv.printFindings(findings)
	}
	switch {
	case err != nil:
		return err
	case len(specs) == 0:
		return noServerError(file)
	case code != exitOK:
		return &exitError{code: code}
	}
	return nil
}

// fileFindings are the findings that the file alone yields.
func fileFindings(file *config.File) (found []finding, code int) {
	for _, p := range file.Problems {
		d := finding{Server: p.Server, OK: true, Level: levelWarn, Kind: "config", Target: p.File, Summary: configTerms(p.String())}
		if p.Severity == config.SeverityError {
			code = exitUsage
			d.OK, d.Level = false, levelFail // the problem says what to do
		}
		found = append(found, d)
	}
	return found, code
}

// observeInterval is how often the junk of servers that start is counted. With the
// session of one that fails, its count goes.
const observeInterval = 50 * time.Millisecond

// observeStarts waits like settle. It returns how the servers stand, and how many
// lines each has sent so far that are no JSON-RPC.
func (inv *invocation) observeStarts(c *configuredClient) (all []mcpvisor.ServerStatus, heard map[string]uint64, err error) {
	heard = map[string]uint64{}
	count := func() {
		all = c.Status()
		for _, s := range all {
			heard[s.Name] = max(heard[s.Name], malformedCount(s))
		}
	}
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		err = inv.awaitStarts(c)
	}()
	tick := time.NewTicker(observeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			count()
		case <-settled:
			count()
			return all, heard, err
		}
	}
}

// printFindings prints findings for people.
func (inv *invocation) printFindings(findings []finding) error {
	var b strings.Builder
	for _, d := range findings {
		fmt.Fprintf(&b, "%-4s  %s: %s\n", levelLabels[d.Level], d.Server, oneLine(d.Summary, 400))
		detail := func(label, text string) {
			if text != "" {
				fmt.Fprintf(&b, "      %-8s %s\n", label, oneLine(text, 400))
			}
		}
		if !d.OK {
			detail("target", d.Target)
			for _, text := range d.Stderr {
				detail("stderr", text)
			}
		}
		for _, text := range d.Warnings {
			detail("warning", text)
		}
		detail("advice", d.Advice)
	}
	_, err := inv.out.Write([]byte(b.String()))
	return err
}
