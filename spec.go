package mcpvisor

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ServerSpec says how one MCP server is reached and how it is supervised. Name and
// exactly one of Stdio, HTTP, InMemory and Transport are required; all other fields have
// defaults. A spec is a value: Register copies it, and later changes of the original
// have no effect.
//
//	mcpvisor.ServerSpec{
//		Name:   "fs",
//		Stdio:  &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"}},
//		Policy: supervisor.Retry(3, 500*time.Millisecond),
//	}
type ServerSpec struct {
	// Name identifies the server in its client and is the first half of every
	// qualified name ("fs" in "fs/list_directory"). 1 to 64 characters of
	// [A-Za-z0-9_.-], the first a letter or a digit. Required.
	Name string
	// Origin says where the server was configured, for operators, as in ".mcp.json:12".
	// Package config sets it to file and line. Optional; it has no effect, and is shown as
	// it is, so it must hold no secret.
	Origin string
	// Stdio runs the server as a subprocess.
	Stdio *Stdio
	// HTTP reaches a remote server over Streamable HTTP, or over HTTP+SSE if it is old.
	HTTP *HTTP
	// InMemory runs a Go server inside this process.
	InMemory *InMemory
	// Transport reaches a server over any transport of the go-sdk.
	Transport *Transport

	// Policy decides what follows when the session ends by itself: how often the
	// server is started again, and after which delays. The zero value is
	// supervisor.NoRetry, which evicts the server. Use supervisor.Retry to make one. A
	// start that fails twice in the same way may evict the server before its attempts are
	// spent: it has never been ready, and its process exits before the handshake is
	// complete, with the same exit status and the same lines on stderr. Policies that park
	// or are unlimited retry that, too.
	Policy supervisor.Policy
	// StartSupervised makes Register return at once and applies Policy to the first
	// start, too. Without it, a first start that fails is an error of Register and
	// leaves nothing behind.
	StartSupervised bool
	// Standby keeps a second process of the server running, started and listed in
	// advance. When the process in service ends by itself, the standby takes over without
	// a start: its tools stay listed. Calls that come before the takeover is complete
	// fail with ErrUnavailable and a RetryAfter of 100 ms, unless they are made with
	// facade.WithWaitReady. The delay of Policy comes before the next standby is started,
	// at least 50 ms, and each takeover uses up one attempt. It needs Stdio, InMemory or
	// Transport, and a Policy with
	// MaxAttempts other than 0. It costs the memory of a second process, and does not work
	// with servers that hold something exclusively, such as a port or a file lock.
	Standby bool

	// Tools selects the tools that are offered. The zero value offers all.
	Tools ToolFilter
	// Secrets are texts that are replaced by *** in everything the server says outside
	// of results: stderr, log messages, errors. Values in Stdio.Env, Args, Headers and
	// URL that look like secrets are found without it. Texts shorter than 6 bytes are
	// not replaced, because they would make other text unreadable.
	Secrets []string
	// Era restricts the protocol versions that are negotiated. The zero value,
	// EraAuto, allows all.
	Era Era
	// Timeouts bound start, discovery, calls and shutdown.
	Timeouts Timeouts
	// Limits bound memory, list sizes and concurrent calls.
	Limits Limits
	// Probe says how the liveness of the server is checked while it is silent.
	Probe Probe
}

// Era is a generation of the MCP protocol. Version 2026-07-28 separates the two: it
// has no initialize, no session and no ping.
type Era string

const (
	// EraAuto asks with server/discover, and sends initialize if the server does not
	// know that. The result is remembered for the next incarnation. The default.
	EraAuto Era = ""
	// EraLegacy sends initialize at once: versions 2024-11-05 to 2025-11-25.
	EraLegacy Era = "legacy"
	// EraModern speaks version 2026-07-28 or newer only.
	EraModern Era = "modern"
)

// WithDefaults returns the spec with every zero field of Timeouts, Limits and Probe
// replaced by its default.
func (s ServerSpec) WithDefaults() ServerSpec {
	s.Timeouts = s.Timeouts.withDefaults()
	s.Limits = s.Limits.withDefaults()
	s.Probe = s.Probe.withDefaults()
	return s
}

// Clone returns a copy that shares no slice and no map with s. Functions, token
// stores and the http.Client are shared.
func (s ServerSpec) Clone() ServerSpec {
	s.Tools, s.Secrets = s.Tools.clone(), slices.Clone(s.Secrets)
	s.Stdio, s.HTTP, s.InMemory, s.Transport = s.Stdio.clone(), s.HTTP.clone(), s.InMemory.clone(), s.Transport.clone()
	return s
}

// TransportKind names the transport that is set: "stdio", "http", "memory" or "custom", or
// "" if none is.
func (s ServerSpec) TransportKind() string {
	switch {
	case s.Stdio != nil:
		return "stdio"
	case s.HTTP != nil:
		return "http"
	case s.InMemory != nil:
		return "memory"
	case s.Transport != nil:
		return "custom"
	}
	return ""
}

// Target describes in one line, without secrets, what the spec runs or reaches: the
// command without its arguments, the URL without user, query and fragment and with *** in
// place of a token in its path, or Transport.Target, each without Secrets.
func (s ServerSpec) Target() string {
	target := s.plainTarget()
	for _, text := range s.Secrets {
		if len(text) >= secret.MinLength {
			target = strings.ReplaceAll(target, text, "***")
		}
	}
	return target
}

// plainTarget is Target without a look at Secrets.
func (s ServerSpec) plainTarget() string {
	switch {
	case s.Stdio != nil:
		return secret.RedactCommand(s.Stdio.Command)
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "(unreadable URL)"
		}
		return secret.RedactURL(u)
	case s.InMemory != nil:
		return "(in this process)"
	case s.Transport != nil:
		return s.Transport.target()
	}
	return ""
}

// Validate reports everything in the spec that cannot work, each with the way to
// correct it, joined by errors.Join. It looks at the spec alone: whether a command
// exists is known when it is started.
func (s ServerSpec) Validate() error {
	var errs []error
	if err := CheckServerName(s.Name); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, s.validateTransport()...)
	switch s.Era {
	case EraAuto, EraLegacy, EraModern:
	default:
		errs = append(errs, fmt.Errorf("era %q is unknown; use \"legacy\", \"modern\", or leave it empty", s.Era))
	}
	if s.Era == EraModern && s.HTTP != nil && s.HTTP.SSE {
		errs = append(errs, errors.New("era is \"modern\", which the transport HTTP+SSE does not know; remove one of them"))
	}
	errs = append(errs, s.Timeouts.validate()...)
	errs = append(errs, s.Limits.validate()...)
	errs = append(errs, s.Probe.validate()...)
	errs = append(errs, s.Tools.validate()...)
	if err := s.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case s.Standby && s.HTTP != nil:
		errs = append(errs, errors.New("standby: a server over HTTP has no process to keep in reserve; remove ServerSpec.Standby"))
	case s.Standby && s.Policy.MaxAttempts == 0:
		errs = append(errs, errors.New("standby: Policy.MaxAttempts is 0, so the standby could not take over; set ServerSpec.Policy, or remove ServerSpec.Standby"))
	}
	return errors.Join(errs...)
}

// validateTransport checks that exactly one transport is set, and each that is.
func (s ServerSpec) validateTransport() (errs []error) {
	set := 0
	if s.Stdio != nil {
		set++
		errs = append(errs, s.Stdio.validate()...)
	}
	if s.HTTP != nil {
		set++
		errs = append(errs, s.HTTP.validate()...)
	}
	if s.InMemory != nil {
		set++
		errs = append(errs, s.InMemory.validate()...)
	}
	if s.Transport != nil {
		set++
		errs = append(errs, s.Transport.validate()...)
	}
	switch {
	case set == 0:
		errs = append(errs, errors.New("no transport: set one of Stdio, HTTP, InMemory and Transport"))
	case set > 1:
		errs = append(errs, fmt.Errorf("%d transports: set only one of Stdio, HTTP, InMemory and Transport", set))
	}
	return errs
}
