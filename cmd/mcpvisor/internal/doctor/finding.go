package doctor

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/environ"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// finding is what doctor says about one server, or about one problem of the file.
type finding struct {
	Server string `json:"server"`
	// Entry is the name in the file, if the server's name is derived from it.
	Entry string `json:"entry,omitempty"`
	// OK is true for the levels "ok" and "warn".
	OK      bool   `json:"ok"`
	Level   level  `json:"level"`
	Summary string `json:"summary"`
	// Kind is the kind of the cause that ended the start, or "timeout", "canceled" or
	// "config".
	Kind     string   `json:"kind,omitempty"`
	Target   string   `json:"target,omitempty"`
	ExitCode *int     `json:"exitCode,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stderr   []string `json:"stderr,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// NotPassed are environment variables that the server mentions, and that are set
	// here and not passed to it.
	NotPassed []string `json:"notPassed,omitempty"`
	Advice    string   `json:"advice,omitempty"`
}

// level is how bad a finding is.
type level string

const (
	levelOK      level = "ok"
	levelWarn    level = "warn"    // the entry is used, and something in it is not
	levelFail    level = "fail"    // the server does not start, or the entry is not used
	levelUnknown level = "unknown" // the command was interrupted before it knew
)

// levelLabels are the levels as text. Failures are in capitals.
var levelLabels = map[level]string{levelOK: "ok", levelWarn: "warn", levelFail: "FAIL", levelUnknown: "????"}

// diagnose explains the state of a server after one attempt. malformed is how many
// of its messages were not JSON-RPC.
func diagnose(inv *servers.Opener, s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec, malformed uint64) finding {
	f := finding{Server: s.Name, Target: s.Target, Level: levelFail, Warnings: serverWarnings(s, malformed)}
	if s.State == supervisor.StateReady {
		f.OK, f.Level = true, levelOK
		f.Summary = fmt.Sprintf("%s %s speaks %s: %s, %s, %s", s.Session.ServerName, s.Session.ServerVersion, s.Session.ProtocolVersion,
			toolsText(s), display.Count(s.Catalog.Resources+s.Catalog.Templates, "resource"), display.Count(s.Catalog.Prompts, "prompt"))
		return f
	}
	f.Stderr = servers.Stderr(s)
	switch c := s.LastCause; {
	case c != nil:
		f.Kind, f.Summary, f.ExitCode, f.Signal = string(c.Kind), c.Error(), c.ExitCode, c.Signal
		if f.Advice = prescription(s, spec); f.Advice != "" {
			break
		}
		f.Advice = causeAdvice(s, spec)
		if malformed > 0 && s.Transport == "stdio" && (c.Kind == supervisor.CauseTimeout || c.Kind == supervisor.CauseHandshake) {
			f.Advice = notOnlyMessages
		}
	case inv.Context.Err() != nil:
		f.Level, f.Kind, f.Summary = levelUnknown, "canceled", "interrupted before it was ready"
		return f
	default:
		f.Kind, f.Summary = "timeout", "not ready in time"
		f.Advice = "raise --wait, or leave it out, to see how its start ends"
		if malformed > 0 && s.Transport == "stdio" {
			f.Advice = notOnlyMessages
		}
	}
	if names := missingVariables(spec.Stdio, append(slices.Clone(f.Stderr), f.Summary)); len(names) > 0 {
		f.NotPassed = names
		f.Advice = missingVariablesAdvice(names)
	}
	return f
}

// toolsText says how many tools a server that is ready has. One that does not declare tools is not asked for them.
func toolsText(s mcpvisor.ServerStatus) string {
	if c := s.Session.Capabilities; c == nil || c.Tools == nil {
		return "no tools, because it does not declare the capability \"tools\""
	}
	return fmt.Sprintf("%s (about %s)", display.Count(s.Catalog.Tools, "tool"), display.Count(s.Catalog.Tokens, "token"))
}

const notOnlyMessages = "check that the command starts an MCP server, and that it writes only JSON-RPC to stdout"

// prescription returns what the table of rules says about the cause of a server; "" if no rule
// knows it.
func prescription(s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec) string {
	if spec.Stdio == nil {
		return "" // the messages about addresses say what to do
	}
	f := failure{kind: string(s.LastCause.Kind), message: s.LastCause.Error(), stderr: s.LastCause.Stderr, command: spec.Stdio.Command, args: spec.Stdio.Args,
		has: func(name string) bool {
			return spec.Stdio.Env[name] != "" || (spec.Stdio.InheritEnv || environ.Inherits(name)) && os.Getenv(name) != ""
		}}
	advice, _ := f.prescribe()
	return advice
}

// serverWarnings returns what is odd about a server, whether it is ready or not.
func serverWarnings(s mcpvisor.ServerStatus, malformed uint64) (warnings []string) {
	for _, w := range s.Catalog.Warnings {
		warnings = append(warnings, w.String())
	}
	if costs := servers.CostText(&s); costs != "" {
		warnings = append(warnings, costs)
	}
	if malformed > 0 {
		warnings = append(warnings, servers.MalformedText(s, malformed))
	}
	if s.Session == nil {
		return warnings
	}
	if stray := s.Session.StrayOutput; stray.Text != "" {
		warnings = append(warnings, fmt.Sprintf("its stdout says %q: %s", stray.Text, stray.Reason))
	}
	if s.Session.Deprecated != "" {
		warnings = append(warnings, s.Session.Deprecated)
	}
	return warnings
}

// variableNames matches words that may be names of environment variables.
var variableNames = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b[A-Z]{4,}\b`)

// missingVariables returns the environment variables that the server's output
// mentions, and that are set here and not passed to the server.
func missingVariables(s *mcpvisor.Stdio, lines []string) (names []string) {
	if s == nil || s.InheritEnv {
		return nil
	}
	for _, text := range lines {
		for _, name := range variableNames.FindAllString(text, -1) {
			_, given := s.Env[name]
			if os.Getenv(name) != "" && !given && !environ.Inherits(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missingVariablesAdvice says how to pass variables to the server.
func missingVariablesAdvice(names []string) string {
	verb, them := "is", "it"
	if len(names) > 1 {
		verb, them = "are", "them"
	}
	return fmt.Sprintf("%s %s set in your shell and not passed to the server; add %s to \"env\" (\"%s\": \"${%s}\"), or set \"inherit_env\": true",
		strings.Join(names, ", "), verb, them, names[0], names[0])
}

// causeAdvice says what to do about the cause that ended a server's start.
func causeAdvice(s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec) string {
	cause := s.LastCause
	switch kind := cause.Kind; kind {
	case supervisor.CauseConfig, supervisor.CauseSpawn:
		if s.Transport != "stdio" {
			return remoteAdvice(cause, "check the URL, and that the server is running")
		}
		switch {
		case strings.Contains(cause.Message, "is not a directory"):
			return "correct \"cwd\", or create the directory"
		case strings.Contains(cause.Message, "(it begins at"):
			return "write \"${workspaceFolder}/…\" for a program beside the file"
		}
		return "check \"command\": it has to be installed, and be in PATH or be a full path"
	case supervisor.CauseClosed:
		return "the server closed the connection; look at the server's log"
	case supervisor.CauseHandshake, supervisor.CauseProtocol:
		if serverAnswered(cause) {
			return "the server runs, and answered with this error; it may lack a network, a service or a login"
		}
		if s.Transport != "stdio" {
			return remoteAdvice(cause, "check that the URL is the server's MCP endpoint, and look at the server's log")
		}
		return "this does not look like an MCP server; check the command"
	case supervisor.CauseTimeout:
		return timeoutAdvice(cause)
	case supervisor.CauseVersion:
		return "update the server"
	case supervisor.CauseAuth:
		var auth mcpvisor.Auth
		if spec.HTTP != nil {
			auth = spec.HTTP.Auth
		}
		return authAdvice(s, auth)
	default:
	}
	return "try again; if the error stays, report it"
}

// remoteAdvice returns an advice about an endpoint, unless the cause says itself, after a
// semicolon, what to do.
func remoteAdvice(cause *supervisor.Cause, advice string) string {
	if strings.Contains(cause.Message, "; ") {
		return ""
	}
	return advice
}

// serverAnswered reports whether the server ended its start with a JSON-RPC error.
func serverAnswered(cause *supervisor.Cause) bool {
	var rpc *jsonrpc.Error
	return errors.As(cause.Err, &rpc)
}

// timeoutAdvice is about a start that one of the server's own timeouts ended. Its
// stderr, if it has any, is the likelier reason.
func timeoutAdvice(cause *supervisor.Cause) string {
	raise := "raise \"timeouts\": {\"start\": \"2m\"} if it is slow to start, for instance because it downloads first"
	if strings.Contains(cause.Message, `"list"`) {
		raise = "raise \"timeouts\": {\"list\": \"2m\"} if it is slow to list what it offers"
	}
	if len(cause.Stderr) > 0 {
		return "read its stderr; " + raise
	}
	return raise
}

// authAdvice says how a server gets the credentials that it wants. auth is nil
// without OAuth.
func authAdvice(s mcpvisor.ServerStatus, auth mcpvisor.Auth) string {
	config, _ := auth.(*oauth.Config)
	var required *mcpvisor.AuthRequired
	switch {
	case s.Transport == "stdio":
		return "put valid credentials into \"env\""
	case s.Transport != "http": // a WebSocket
		return "put valid credentials into \"headers\""
	case auth == nil:
		return "put valid credentials into \"headers\"; if the server authorizes by OAuth, set \"auth\": {} and run mcpvisor authorize " + s.Name
	case config == nil:
		return "run the program of \"headers_command\" by hand: the server refuses what it prints"
	case config.Grant != "" && config.Grant != oauth.GrantAuthorizationCode:
		return "correct the client in \"auth\""
	case errors.As(s.LastCause, &required) && required.URL == "": // the user cannot consent
		return "correct \"auth\" as the message says, then run mcpvisor authorize " + s.Name
	case errors.As(s.LastCause, &required):
		return "run mcpvisor authorize " + s.Name
	}
	return "run mcpvisor authorize " + s.Name + "; if the server rejects that token too, ask its operator for access"
}
