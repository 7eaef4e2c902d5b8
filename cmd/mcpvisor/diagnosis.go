package main

import (
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/facade"
)

// diagnosis is what doctor finds out about one server, or about one entry of
// the file.
type diagnosis struct {
	Server   string   `json:"server"`
	OK       bool     `json:"ok"` // not levelFail
	Level    level    `json:"level"`
	Summary  string   `json:"summary"`
	Kind     string   `json:"kind,omitempty"`
	Target   string   `json:"target,omitempty"`
	ExitCode *int     `json:"exit_code,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Advice   string   `json:"advice,omitempty"`
}

// level is how bad a finding is.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn" // the entry is used, and something in it is not
	levelFail level = "fail"
)

// marks are the levels for people: what needs work stands out.
var marks = map[level]string{levelOK: "ok", levelWarn: "warn", levelFail: "FAIL"}

// diagnose explains how a server stands after one try. heard is how many lines
// it sent that are no JSON-RPC.
func diagnose(s facade.ServerStatus, auth *facade.OAuth, heard uint64) diagnosis {
	d := diagnosis{Server: s.Name, Target: s.Target, Level: levelFail, Warnings: s.Catalog.Warnings}
	if heard > 0 {
		d.Warnings = append(d.Warnings, chatter(s, heard))
	}
	if s.Session != nil && s.Session.Deprecated != "" {
		d.Warnings = append(d.Warnings, s.Session.Deprecated)
	}
	c := s.LastCause
	switch {
	case s.State == facade.Ready:
		d.OK, d.Level = true, levelOK
		d.Summary = fmt.Sprintf("%s %s speaks %s: %d tools, %d resources, %d prompts", s.Session.ServerName, s.Session.ServerVersion,
			s.Session.ProtocolVersion, s.Catalog.Tools, s.Catalog.Resources+s.Catalog.Templates, s.Catalog.Prompts)
		return d
	case c == nil:
		d.Kind, d.Summary = "timeout", "it was not ready in time"
		d.Advice = "raise --wait if it is slow to start"
	default:
		d.Kind, d.Summary, d.ExitCode, d.Signal, d.Stderr = string(c.Kind), c.Error(), c.ExitCode, c.Signal, c.Stderr
		d.Advice = advice(s, d.Kind, auth)
	}
	if heard > 0 && s.Transport == "stdio" && (d.Kind == "timeout" || d.Kind == "handshake") {
		d.Advice = "see that the command starts an MCP server, and that it writes nothing but JSON-RPC to stdout"
	}
	return d
}

// advice says what to do about a failed start.
func advice(s facade.ServerStatus, kind string, auth *facade.OAuth) string {
	switch kind {
	case "config", "spawn":
		if s.Transport == "http" {
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
		return credentials(s, auth)
	}
	return "try again; if it stays, report it"
}

// credentials says how a server gets the ones that it wants.
func credentials(s facade.ServerStatus, auth *facade.OAuth) string {
	var required *facade.AuthRequired
	switch {
	case s.Transport != "http":
		return "put valid credentials into \"env\""
	case auth == nil:
		return "put valid credentials into \"headers\"; if it authorizes by OAuth, \"auth\": {} and mcpvisor authorize " + s.Name
	case auth.Grant != "" && auth.Grant != facade.GrantCode:
		return "correct what \"auth\" says of this client"
	case errors.As(s.LastCause, &required) && required.URL == "": // nobody could consent
		return "correct \"auth\" as the message says, then run mcpvisor authorize " + s.Name
	case errors.As(s.LastCause, &required):
		return "run mcpvisor authorize " + s.Name
	}
	return "run mcpvisor authorize " + s.Name + "; if it refuses that token too, ask who runs it for access"
}

// junk is how much of what a server sent in its current session is no JSON-RPC.
func junk(s facade.ServerStatus) uint64 {
	if s.Session == nil {
		return 0
	}
	return s.Session.Noise.Junk
}

// chatter tells of n pieces of junk, and what to do about them.
func chatter(s facade.ServerStatus, n uint64) string {
	if s.Transport != "stdio" {
		return fmt.Sprintf("%d of its messages are no JSON-RPC; look at the server's log", n)
	}
	return fmt.Sprintf("lines on its stdout that are no JSON-RPC: %d; a stdio server must keep stdout for JSON-RPC, and log to stderr", n)
}
