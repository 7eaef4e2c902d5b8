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
func (doctorCmd) Run(sh *shell) error {
	file, err := sh.load()
	if err != nil {
		return err
	}
	findings, code := entries(file)
	specs := file.Specs()
	if len(specs) > 0 {
		quiet := *sh
		quiet.err = io.Discard
		c, stop, err := quiet.begin(file, specs)
		if err != nil {
			return err
		}
		all, heard, err := quiet.listen(c)
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
	case sh.json:
		err = printJSON(sh.out, map[string]any{"findings": findings})
	default:
		err = sh.explain(findings)
	}
	switch {
	case err != nil:
		return err
	case len(specs) == 0:
		return noServer(file)
	case code != exitFine:
		return &exit{code: code}
	}
	return nil
}

// entries are the findings that the file alone yields.
func entries(file *config.File) (found []diagnosis, code int) {
	for _, p := range file.Problems {
		d := diagnosis{Server: p.Server, OK: true, Level: levelWarn, Kind: "config", Target: p.File, Summary: terms(p.String())}
		if p.Severity == config.Error {
			code = exitUsage
			d.OK, d.Level = false, levelFail // the problem says what to do
		}
		found = append(found, d)
	}
	return found, code
}

// listenEvery is how often the junk of servers that start is counted. With the
// session of one that fails, its count goes.
const listenEvery = 50 * time.Millisecond

// listen waits like settle. It returns how the servers stand, and how many
// lines each has sent so far that are no JSON-RPC.
func (sh *shell) listen(c *started) (all []mcpvisor.ServerStatus, heard map[string]uint64, err error) {
	heard = map[string]uint64{}
	count := func() {
		all = c.Status()
		for _, s := range all {
			heard[s.Name] = max(heard[s.Name], junk(s))
		}
	}
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		err = sh.settle(c)
	}()
	tick := time.NewTicker(listenEvery)
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

// explain prints findings for people.
func (sh *shell) explain(findings []diagnosis) error {
	var b strings.Builder
	for _, d := range findings {
		fmt.Fprintf(&b, "%-4s  %s: %s\n", marks[d.Level], d.Server, line(d.Summary, 400))
		detail := func(label, text string) {
			if text != "" {
				fmt.Fprintf(&b, "      %-8s %s\n", label, line(text, 400))
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
	_, err := sh.out.Write([]byte(b.String()))
	return err
}
