// Package doctor has the command of mcpvisor that starts each server once and explains why it
// fails.
package doctor

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Command is `mcpvisor doctor`.
type Command struct {
	Servers []string `arg:"" optional:"" help:"Names of the servers; all without names." complete:"server" placeholder:"NAME"`
}

// Run implements kong's command. An interrupted command prints what it has found
// so far, and fails.
func (cmd *Command) Run(inv *servers.Opener) error {
	file, err := inv.LoadConfig(cmd.Servers...)
	if err != nil {
		return err
	}
	specs, err := servers.SelectSpecs(file, cmd.Servers)
	if err != nil {
		return err
	}
	if running := inv.BesideRun("doctor starts copies of its servers, because it must see a start"); running != nil {
		running.Stop()
	}
	findings, code := fileFindings(file, specs, cmd.Servers)
	var interrupted error
	if len(specs) > 0 {
		found, err := serverFindings(inv, file, specs)
		if err == nil {
			err = tryAgain(inv, file, specs, found)
		}
		switch {
		case errors.Is(err, cli.ErrInterrupted):
			interrupted = err
		case err != nil:
			return err
		}
		for _, f := range found {
			if !f.OK {
				code = max(code, cli.ExitUnavailable)
			}
		}
		findings = append(findings, found...)
	}
	if len(findings) > 0 {
		err = inv.Answer(map[string]any{"findings": findings}, func() error { return printFindings(inv, findings) })
	}
	switch {
	case err != nil:
		return err
	case interrupted != nil:
		return interrupted
	case len(specs) == 0:
		return servers.NoServerError(file)
	case code != cli.ExitOK:
		return &cli.ExitError{Code: code}
	}
	return nil
}

// fileFindings returns the findings about the file itself; if servers are named, only those
// about them.
func fileFindings(file *config.File, specs []mcpvisor.ServerSpec, names []string) (findings []finding, code int) {
	about := slices.Clone(names)
	for _, spec := range specs {
		about = append(about, servers.EntryName(file, spec.Name))
	}
	for _, p := range file.Problems {
		if len(names) > 0 && !slices.Contains(about, p.Server) {
			continue
		}
		f := finding{Server: p.Server, OK: true, Level: levelWarn, Kind: "config", Target: configfile.Target(p.File, p.Server), Summary: problemSummary(p)}
		if p.Severity == config.SeverityError {
			code = cli.ExitUsage
			f.OK, f.Level = false, levelFail // the problem says what to do
		}
		findings = append(findings, f)
	}
	return findings, code
}

// problemSummary says where a problem is and what it is. The finding names the server and
// the level already.
func problemSummary(p config.Problem) string {
	message := strings.TrimPrefix(p.Message, fmt.Sprintf("server %q ", p.Server))
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, cli.ConfigTerms(message))
}

// serverFindings starts servers, waits for them, stops them, and diagnoses each.
// Beside an cli.ErrInterrupted the findings are what is known so far.
func serverFindings(inv *servers.Opener, file *config.File, specs []mcpvisor.ServerSpec) (findings []finding, err error) {
	quiet := *inv
	quiet.Err = io.Discard // the problems of the file are findings already
	c, stop, err := quiet.StartServers(file, specs)
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		for _, spec := range specs {
			findings = append(findings, finding{Server: spec.Name, Level: levelUnknown, Kind: "canceled", Target: spec.Target(),
				Summary: "interrupted before it was started"})
		}
		return findings, err
	case err != nil:
		return nil, err
	}
	defer stop()
	findings, err = findingsOf(inv, file, c)
	for _, spec := range specs {
		if _, started := c.Specs[spec.Name]; !started {
			findings = append(findings, finding{Server: spec.Name, Level: levelUnknown, Kind: "exclusive", Target: spec.Target(),
				Summary: "not started, because it is exclusive and mcpvisor run has it; mcpvisor status tells how it is"})
		}
	}
	return findings, err
}

// tryAgain starts the servers of package runners that have failed beside others once more, one by one: together they
// may have been too slow, or have disturbed each other in one cache. It replaces the findings about them.
func tryAgain(inv *servers.Opener, file *config.File, specs []mcpvisor.ServerSpec, findings []finding) error {
	for i, f := range findings {
		at := slices.IndexFunc(specs, func(s mcpvisor.ServerSpec) bool { return s.Name == f.Server })
		if s := specs[at].Stdio; f.Level != levelFail || len(specs) == 1 || s == nil || display.PackageRunner(s.Command, s.Args) == "" {
			continue
		}
		inv.Note("%s has failed beside other servers; it is tried again alone", f.Server)
		again, err := serverFindings(inv, file, specs[at:at+1])
		if err != nil {
			return err
		}
		if findings[i] = again[0]; again[0].OK {
			findings[i].Warnings = append(findings[i].Warnings, "it failed at first, when it was started beside other servers: "+f.Summary)
		}
	}
	return nil
}

func findingsOf(inv *servers.Opener, file *config.File, c *servers.Copies) (findings []finding, err error) {
	all, malformed, err := observeStarts(inv, c)
	for _, s := range all {
		f := diagnose(inv, s, c.Specs[s.Name], malformed[s.Name])
		if entry := servers.EntryName(file, s.Name); entry != s.Name {
			f.Entry = entry
		}
		findings = append(findings, f)
	}
	return findings, err
}

// observeInterval is how often malformed messages of starting servers are counted.
// The count of a server is lost with its session.
const observeInterval = 50 * time.Millisecond

// observeStarts waits as awaitStarts does. It returns the states of the servers,
// and how many malformed messages each has sent so far.
func observeStarts(inv *servers.Opener, c *servers.Copies) (all []mcpvisor.ServerStatus, malformed map[string]uint64, err error) {
	malformed = map[string]uint64{}
	count := func() {
		all = c.Status()
		for _, s := range all {
			malformed[s.Name] = max(malformed[s.Name], servers.MalformedCount(s))
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = inv.AwaitStarts(c)
	}()
	tick := time.NewTicker(observeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			count()
		case <-done:
			count()
			return all, malformed, err
		}
	}
}

func printFindings(inv *servers.Opener, findings []finding) error {
	var b strings.Builder
	for _, f := range findings {
		subject := f.Server + ": "
		if f.Server == "" { // a problem of the file as a whole
			subject = ""
		}
		fmt.Fprintf(&b, "%-4s  %s%s\n", levelLabels[f.Level], subject, table.OneLine(f.Summary, table.MaxText))
		detail := func(label, text string) {
			if text != "" {
				fmt.Fprintf(&b, "      %-8s %s\n", label, table.OneLine(text, table.MaxText))
			}
		}
		if f.Entry != "" {
			detail("entry", f.Entry)
		}
		if !f.OK {
			detail("target", f.Target)
			for _, text := range f.Stderr {
				detail("stderr", text)
			}
		}
		for _, text := range f.Warnings {
			detail("warning", text)
		}
		detail("advice", f.Advice)
	}
	_, err := inv.Out.Write([]byte(b.String()))
	return err
}
