package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// finding is what doctor finds out about one server, or about one entry of
// the file.
type finding struct {
	Server   string   `json:"server"`
	OK       bool     `json:"ok"` // not levelFail
	Level    level    `json:"level"`
	Summary  string   `json:"summary"`
	Kind     string   `json:"kind,omitempty"`
	Target   string   `json:"target,omitempty"`
	ExitCode *int     `json:"exitCode,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// NotPassed are variables that the server speaks of, and that are set here and
	// not in its environment.
	NotPassed []string `json:"notPassed,omitempty"`
	Advice    string   `json:"advice,omitempty"`
}

// level is how bad a finding is.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn" // the entry is used, and something in it is not
	levelFail level = "fail"
)

// levelLabels are the levels for people: what needs work stands out.
var levelLabels = map[level]string{levelOK: "ok", levelWarn: "warn", levelFail: "FAIL"}

// diagnose explains how a server stands after one try. heard is how many lines
// it sent that are no JSON-RPC.
func diagnose(s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec, heard uint64) finding {
	d := finding{Server: s.Name, Target: s.Target, Level: levelFail}
	for _, w := range s.Catalog.Warnings {
		d.Warnings = append(d.Warnings, w.String())
	}
	if heard > 0 {
		d.Warnings = append(d.Warnings, malformedText(s, heard))
	}
	if s.Session != nil && s.Session.StrayOutput.Text != "" {
		d.Warnings = append(d.Warnings, fmt.Sprintf("its stdout says %q: %s", s.Session.StrayOutput.Text, s.Session.StrayOutput.Reason))
	}
	if s.Session != nil && s.Session.Deprecated != "" {
		d.Warnings = append(d.Warnings, s.Session.Deprecated)
	}
	if s.State == supervisor.StateReady {
		d.OK, d.Level = true, levelOK
		d.Summary = fmt.Sprintf("%s %s speaks %s: %s, %s, %s", s.Session.ServerName, s.Session.ServerVersion, s.Session.ProtocolVersion,
			display.Count(s.Catalog.Tools, "tool"), display.Count(s.Catalog.Resources+s.Catalog.Templates, "resource"), display.Count(s.Catalog.Prompts, "prompt"))
		return d
	}
	d.Stderr = stderrOf(s)
	if c := s.LastCause; c != nil {
		d.Kind, d.Summary, d.ExitCode, d.Signal = string(c.Kind), c.Error(), c.ExitCode, c.Signal
		d.Advice = advice(s, spec)
	} else {
		d.Kind, d.Summary = "timeout", "it was not ready in time"
		d.Advice = "raise --wait, or leave it out, to see how its start ends"
	}
	if heard > 0 && s.Transport == "stdio" && (d.Kind == "timeout" || d.Kind == "handshake") {
		d.Advice = "see that the command starts an MCP server, and that it writes nothing but JSON-RPC to stdout"
	}
	if names := missingVariables(spec.Stdio, append(slices.Clone(d.Stderr), d.Summary)); len(names) > 0 {
		d.NotPassed = names
		d.Advice = missingVariablesAdvice(names)
	}
	return d
}

// advice says what to do about a failed start.
func advice(s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec) string {
	cause := s.LastCause
	switch kind := cause.Kind; kind {
	case supervisor.CauseConfig, supervisor.CauseSpawn:
		if s.Transport == "http" {
			return "check the URL, and that the server is running"
		}
		if strings.Contains(cause.Message, "directory") {
			return "correct \"cwd\", or create the directory"
		}
		return "check \"command\": it has to be installed, and found in PATH or given in full"
	case supervisor.CauseExit, supervisor.CauseSignal:
		return "run the command by hand; what it says on stderr is the best hint. Look for missing arguments and environment variables"
	case supervisor.CauseClosed:
		return "the server ended the connection by itself; look into its log"
	case supervisor.CauseHandshake, supervisor.CauseProtocol:
		if serverAnswered(cause) {
			return "the server runs, and answered with this error: what it needs may be missing, as a network, a service or a login"
		}
		if s.Transport == "http" {
			return httpAdvice(cause)
		}
		return "this does not look like an MCP server; check the command"
	case supervisor.CauseTimeout:
		return timeoutAdvice(cause)
	case supervisor.CauseVersion:
		return "update the server"
	case supervisor.CauseAuth:
		var auth *mcpvisor.OAuth
		if spec.HTTP != nil {
			auth = spec.HTTP.Auth
		}
		return authAdvice(s, auth)
	}
	return "try again; if it stays, report it"
}

// httpAdvice is about an endpoint that answered with something else than MCP. Most
// causes say by themselves what to do, behind a semicolon.
func httpAdvice(cause *supervisor.Cause) string {
	if strings.Contains(cause.Message, "; ") {
		return ""
	}
	return "check that the URL is the server's MCP endpoint, and look at the server's log"
}

// serverAnswered reports whether a start failed because of an error that the server
// serverAnswered with.
func serverAnswered(cause *supervisor.Cause) bool {
	var rpc *jsonrpc.Error
	return errors.As(cause.Err, &rpc)
}

// timeoutAdvice is about a start that one of the server's own clocks ended. What
// it says on stderr is the likelier reason.
func timeoutAdvice(cause *supervisor.Cause) string {
	raise := "raise \"timeouts\": {\"start\": \"2m\"} if it is slow to start, for instance because it downloads first"
	if strings.Contains(cause.Message, `"list"`) {
		raise = "raise \"timeouts\": {\"list\": \"2m\"} if it is slow to list what it offers"
	}
	if len(cause.Stderr) > 0 {
		return "see what it says on stderr; " + raise
	}
	return raise
}

// authAdvice says how a server gets the ones that it wants.
func authAdvice(s mcpvisor.ServerStatus, auth *mcpvisor.OAuth) string {
	var required *mcpvisor.AuthRequired
	switch {
	case s.Transport != "http":
		return "put valid credentials into \"env\""
	case auth == nil:
		return "put valid credentials into \"headers\"; if it authorizes by OAuth, \"auth\": {} and mcpvisor authorize " + s.Name
	case auth.Grant != "" && auth.Grant != mcpvisor.GrantAuthorizationCode:
		return "correct what \"auth\" says of this client"
	case errors.As(s.LastCause, &required) && required.URL == "": // nobody could consent
		return "correct \"auth\" as the message says, then run mcpvisor authorize " + s.Name
	case errors.As(s.LastCause, &required):
		return "run mcpvisor authorize " + s.Name
	}
	return "run mcpvisor authorize " + s.Name + "; if it refuses that token too, ask who runs it for access"
}

// malformedCount is how much of what a server sent in its current session is no JSON-RPC.
func malformedCount(s mcpvisor.ServerStatus) uint64 {
	if s.Session == nil {
		return 0
	}
	return s.Session.Discarded.Malformed
}

// malformedText tells of n pieces of junk, and what to do about them.
func malformedText(s mcpvisor.ServerStatus, n uint64) string {
	if s.Transport != "stdio" {
		return fmt.Sprintf("%d of its messages are no JSON-RPC; look at the server's log", n)
	}
	return fmt.Sprintf("lines on its stdout that are no JSON-RPC: %d; a stdio server must keep stdout for JSON-RPC, and log to stderr", n)
}
