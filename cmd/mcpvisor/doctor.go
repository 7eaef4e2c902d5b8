package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

type doctorCmd struct{}

// diagnosis is what doctor finds out about one server, or about one entry that
// cannot be started at all.
type diagnosis struct {
	Server   string   `json:"server"`
	OK       bool     `json:"ok"`
	Summary  string   `json:"summary"`
	Kind     string   `json:"kind,omitempty"`
	Target   string   `json:"target,omitempty"`
	ExitCode *int     `json:"exit_code,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Advice   string   `json:"advice,omitempty"`
}

// Run implements kong's command.
func (doctorCmd) Run(sh *shell) error {
	file, err := sh.load()
	if err != nil {
		return err
	}
	findings, code := entries(file)
	if len(file.Specs()) > 0 {
		c, stop, err := (&shell{ctx: sh.ctx, in: sh.in, out: sh.out, err: io.Discard, config: sh.config, wait: sh.wait}).start()
		if err != nil {
			return err
		}
		for _, s := range c.Status() {
			d := diagnose(s)
			if !d.OK {
				code = max(code, exitUnavailable)
			}
			findings = append(findings, d)
		}
		stop()
	}
	if sh.json {
		err = printJSON(sh.out, findings)
	} else {
		err = sh.explain(findings)
	}
	if err == nil && code != exitFine {
		err = &exit{code: code}
	}
	return err
}

// entries are the findings that the file alone yields.
func entries(file *config.File) (found []diagnosis, code int) {
	for _, p := range file.Problems {
		d := diagnosis{Server: p.Server, OK: p.Severity == config.Warning, Kind: "config", Target: p.File, Summary: p.String()}
		if !d.OK {
			code = exitUsage
			d.Advice = "correct the file"
		}
		found = append(found, d)
	}
	return found, code
}

// diagnose explains how a server stands after one try.
func diagnose(s facade.ServerStatus) diagnosis {
	d := diagnosis{Server: s.Name, Target: s.Target, Warnings: s.Catalog.Warnings}
	if s.State == facade.Ready {
		d.OK = true
		d.Summary = fmt.Sprintf("%s %s speaks %s: %d tools, %d resources, %d prompts", s.Session.ServerName, s.Session.ServerVersion,
			s.Session.ProtocolVersion, s.Catalog.Tools, s.Catalog.Resources+s.Catalog.Templates, s.Catalog.Prompts)
		if n := s.Session.Noise.Junk; n > 0 {
			d.Warnings = append(d.Warnings, fmt.Sprintf("%d lines on its stdout are not JSON-RPC; it should log to stderr", n))
		}
		return d
	}
	if s.LastCause == nil {
		d.Kind, d.Summary = "timeout", "it was not ready in time"
		d.Advice = "raise --wait if it is slow to start"
		return d
	}
	c := s.LastCause
	d.Kind, d.Summary, d.ExitCode, d.Signal, d.Stderr = string(c.Kind), c.Error(), c.ExitCode, c.Signal, c.Stderr
	d.Advice = advice(s.Transport, d.Kind)
	return d
}

// advice says what to do about a failed start.
func advice(transport, kind string) string {
	switch kind {
	case "config", "spawn":
		if transport == "http" {
			return "check the URL, and that the server is running"
		}
		return "check \"command\": it has to be installed, and found in PATH or given in full"
	case "exit", "signal":
		return "run the command by hand; what it says on stderr is the best hint. Look for missing arguments and environment variables"
	case "closed":
		return "the server ended the connection by itself; look into its log"
	case "handshake", "protocol":
		return "this does not look like an MCP server; check the command, or that the URL is its MCP endpoint"
	case "timeout":
		return "raise \"timeouts\": {\"start\": \"2m\"} if it is slow to start, for instance because it downloads first"
	case "version":
		return "update the server"
	case "auth":
		return "put valid credentials into \"headers\" or \"env\""
	}
	return "try again; if it stays, report it"
}

// explain prints findings for people.
func (sh *shell) explain(findings []diagnosis) error {
	var b strings.Builder
	for _, d := range findings {
		mark := "ok  "
		if !d.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", mark, d.Server, line(d.Summary, 400))
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
			detail("advice", d.Advice)
		}
		for _, text := range d.Warnings {
			detail("warning", text)
		}
	}
	_, err := sh.out.Write([]byte(b.String()))
	return err
}
