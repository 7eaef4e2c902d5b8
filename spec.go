package mcpvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ServerSpec says how one MCP server is reached and how it is looked after.
// Exactly one of Stdio, HTTP and InMemory is set. A spec is a value: it is
// copied on registration, and later changes to it have no effect.
type ServerSpec struct {
	// Name is the server's name in this client and the first half of every
	// qualified name ("fs" in "fs/list_directory"). Required; see [CheckServerName].
	Name string
	// Stdio runs the server as a subprocess.
	Stdio *Stdio
	// HTTP reaches a server over Streamable HTTP.
	HTTP *HTTP
	// InMemory runs a Go server inside this process.
	InMemory *InMemory

	// Policy is what happens after the session ends by itself. The zero value is
	// supervisor.NoRetry: the server is evicted.
	Policy supervisor.Policy
	// StartSupervised makes Register return at once and lets Retry look after
	// the very first start too. Without it, a first start that fails is an error
	// of Register and leaves nothing behind.
	StartSupervised bool

	// Standby keeps a second process of the server at hand, started and listed
	// ahead. When the one in service ends by itself, it takes over at once,
	// without the delay of Retry; that delay comes before the next standby, and
	// each takeover spends an attempt. For Stdio and InMemory, with a policy that
	// retries. It costs the memory of the second process; and a server that holds
	// something exclusively (a port, a lock on a file) cannot run twice.
	Standby bool

	// Tools says which of the server's tools are offered; the zero value offers all.
	Tools ToolFilter
	// Secrets are texts that are hidden in whatever the server says outside of
	// results, beside those that are found by their name or their form in the
	// environment, arguments, headers and URL. One of less than 6 bytes is not
	// hidden: the text around it would go with it.
	Secrets []string
	// Era fixes the generation of the protocol; the zero value negotiates it.
	Era Era
	// Timeouts are this server's clocks; zero fields take the documented defaults.
	Timeouts Timeouts
	// Limits bound what the server may cost; zero fields take the documented defaults.
	Limits Limits
	// Probe says how the liveness of a ready server is checked.
	Probe Probe
}

// Stdio describes a server that is a subprocess speaking newline-delimited
// JSON-RPC on its stdin and stdout.
//
// The process gets an environment of its own: a short allow-list of the
// host's variables (PATH, HOME, locale, temporary directories and the like),
// then Env on top. It runs in its own process group, which is ended with it.
type Stdio struct {
	// Command is the program, looked up in PATH. Required.
	Command string
	Args    []string
	// Env is added to the child's environment and wins over it.
	Env map[string]string
	// InheritEnv passes the host's whole environment. By default a server gets of it
	// only HOME, USER, LOGNAME, SHELL, PATH, TERM, TZ, LANG, LANGUAGE, LC_*, TMPDIR,
	// TMP, TEMP, XDG_*, DISPLAY, WAYLAND_DISPLAY, XAUTHORITY, KUBECONFIG, the proxies
	// (HTTP_PROXY, HTTPS_PROXY, FTP_PROXY, ALL_PROXY, NO_PROXY, in either case), and
	// SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE and
	// CURL_CA_BUNDLE; on Windows also what the system sets. Name others in Env.
	InheritEnv bool
	// Dir is the working directory; empty means the host's.
	Dir string
	// KeepDaemons leaves alone, at the server's end, what has left its process
	// group. By default that is ended with the server too: on Linux it is known by
	// a variable in its environment and a number in its limits, elsewhere it is out
	// of reach. Set it for a server that starts daemons which are meant to stay.
	KeepDaemons bool
}

// HTTP describes a server that speaks Streamable HTTP, or the transport before it,
// HTTP+SSE.
type HTTP struct {
	// URL is the MCP endpoint, http or https. Required.
	URL string
	// Headers are sent with every request to the endpoint's origin, and to no
	// other origin. They are secrets: they appear in no log, error or status.
	Headers map[string]string
	// Client, if set, supplies the RoundTripper, jar and proxy settings. Its
	// Timeout is not used (it would cut event streams), nor is its CheckRedirect.
	Client *http.Client
	// Auth, if set, makes OAuth tokens of its own for the server. Without it
	// there are only the Headers.
	Auth *OAuth
	// SSE says that the server speaks the deprecated HTTP+SSE transport of
	// 2024-11-05, and that URL is the address of its event stream. Without it
	// Streamable HTTP is tried first, and HTTP+SSE when the server refuses
	// initialize with status 400, 404 or 405; what was found is remembered for the
	// next session of the registration. So SSE only saves the first try.
	SSE bool
}

// InMemory describes a server that runs as a goroutine of this process.
type InMemory struct {
	// Serve runs one incarnation, reading newline-delimited JSON-RPC from stdin
	// and writing it to stdout, until stdin ends or ctx is done. What it returns
	// is the cause of the end, as an exit status is for a process. It is called
	// anew, in its own goroutine, for every incarnation. Required.
	Serve func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error
}

// Era is a generation of the protocol. The break between the two is version
// 2026-07-28, which has no initialize, no session and no ping.
type Era string

const (
	// EraAuto probes with server/discover and falls back to initialize. What
	// was found is remembered for the next incarnation.
	EraAuto Era = ""
	// EraLegacy sends initialize at once: versions 2024-11-05 to 2025-11-25.
	EraLegacy Era = "legacy"
	// EraModern speaks 2026-07-28 or newer only.
	EraModern Era = "modern"
)

// Timeouts are the separate clocks of one server. In each field 0 means the
// default and a negative value means no bound, save for Shutdown, which must
// have one, and for Call and HardMax, which cannot be switched off together.
type Timeouts struct {
	// Start bounds spawn or connect and negotiation together. Default 60 s:
	// package runners such as npx may have to download first.
	Start time.Duration
	// Negotiate bounds the wait for an answer to server/discover before
	// initialize is tried. Default 3 s.
	Negotiate time.Duration
	// List bounds the discovery of all four lists together. Default 30 s.
	List time.Duration
	// Call bounds one call, unless the call sets its own. Default 60 s.
	Call time.Duration
	// CallTotal bounds one call whatever else is set. Default 10 min.
	CallTotal time.Duration
	// Shutdown bounds the polite part of ending a process: after half of it
	// without an exit, stdin being closed, the group gets SIGTERM, after all of
	// it SIGKILL. Default 2 s.
	Shutdown time.Duration
}

// The defaults of [Timeouts].
const (
	DefaultStartTimeout     = 60 * time.Second
	DefaultNegotiateTimeout = 3 * time.Second
	DefaultListTimeout      = 30 * time.Second
	DefaultCallTimeout      = 60 * time.Second
	DefaultCallTotalTimeout = 10 * time.Minute
	DefaultShutdownTimeout  = 2 * time.Second
)

// Probe says how a ready server is asked whether it still lives. Any traffic
// from the server counts as an answer, so a busy server is never probed.
type Probe struct {
	// Interval is the longest silence before a probe. 0 means 30 s; negative means
	// no probes.
	Interval time.Duration
	// Timeout bounds one probe. 0 means 10 s.
	Timeout time.Duration
	// Failures is how many probes in a row must fail before the session is given
	// up. 0 means 3.
	Failures int
}

// The defaults of [Probe].
const (
	DefaultProbeInterval = 30 * time.Second
	DefaultProbeTimeout  = 10 * time.Second
	DefaultProbeFailures = 3
)

// WithDefaults returns the spec with every zero clock, limit and probe field
// replaced by its default.
func (s ServerSpec) WithDefaults() ServerSpec {
	orDuration := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	orInt := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	orDuration(&s.Timeouts.Start, DefaultStartTimeout)
	orDuration(&s.Timeouts.Negotiate, DefaultNegotiateTimeout)
	orDuration(&s.Timeouts.List, DefaultListTimeout)
	orDuration(&s.Timeouts.Call, DefaultCallTimeout)
	orDuration(&s.Timeouts.CallTotal, DefaultCallTotalTimeout)
	orDuration(&s.Timeouts.Shutdown, DefaultShutdownTimeout)
	s.Limits = s.Limits.withDefaults()
	orDuration(&s.Probe.Interval, DefaultProbeInterval)
	orDuration(&s.Probe.Timeout, DefaultProbeTimeout)
	orInt(&s.Probe.Failures, DefaultProbeFailures)
	return s
}

// Clone returns a copy that shares no slice or map with s.
func (s ServerSpec) Clone() ServerSpec {
	s.Tools, s.Secrets = s.Tools.clone(), slices.Clone(s.Secrets)
	s.Secrets = slices.Clone(s.Secrets)
	if s.Stdio != nil {
		c := *s.Stdio
		c.Args, c.Env = slices.Clone(c.Args), maps.Clone(c.Env)
		s.Stdio = &c
	}
	if s.HTTP != nil {
		c := *s.HTTP
		c.Headers, c.Auth = maps.Clone(c.Headers), c.Auth.Clone()
		s.HTTP = &c
	}
	if s.InMemory != nil {
		c := *s.InMemory
		s.InMemory = &c
	}
	return s
}

// TransportKind names the transport that the spec asks for: "stdio", "http",
// "memory", or "" if none is set.
func (s ServerSpec) TransportKind() string {
	switch {
	case s.Stdio != nil:
		return "stdio"
	case s.HTTP != nil:
		return "http"
	case s.InMemory != nil:
		return "memory"
	}
	return ""
}

// Target says in one line what the spec runs or reaches, without secrets: the
// command without its arguments' values, or the URL without user, query and
// fragment, and with *** for a token in its path.
func (s ServerSpec) Target() string {
	switch {
	case s.Stdio != nil:
		return secret.Command(s.Stdio.Command)
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "(unreadable URL)"
		}
		return secret.URL(u)
	case s.InMemory != nil:
		return "(in this process)"
	}
	return ""
}

// Validate reports everything in the spec that cannot work, each with the way
// to mend it. It looks at the spec alone: whether a command exists is found
// out at start.
func (s ServerSpec) Validate() error {
	var errs []error
	if err := CheckServerName(s.Name); err != nil {
		errs = append(errs, err)
	}
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
		if s.InMemory.Serve == nil {
			errs = append(errs, errors.New("in-memory transport: Serve is nil; set the function that runs the server"))
		}
	}
	switch {
	case set == 0:
		errs = append(errs, errors.New("no transport: set one of Stdio, HTTP and InMemory"))
	case set > 1:
		errs = append(errs, fmt.Errorf("%d transports: set only one of Stdio, HTTP and InMemory", set))
	}
	switch s.Era {
	case EraAuto, EraLegacy, EraModern:
	default:
		errs = append(errs, fmt.Errorf("era %q is unknown; use \"legacy\", \"modern\", or leave it empty", s.Era))
	}
	if s.Era == EraModern && s.HTTP != nil && s.HTTP.SSE {
		errs = append(errs, errors.New("era is \"modern\", which the transport HTTP+SSE does not know; remove one of them"))
	}
	if s.Timeouts.Call < 0 && s.Timeouts.CallTotal < 0 {
		errs = append(errs, errors.New("timeouts: Call and HardMax are both switched off, so a call could hang for ever; bound one of them"))
	}
	if s.Timeouts.Shutdown < 0 {
		errs = append(errs, errors.New("timeouts: Shutdown is negative, so ending the server could take for ever; set a positive bound"))
	}
	errs = append(errs, s.Tools.validate()...)
	if err := s.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case s.Standby && s.HTTP != nil:
		errs = append(errs, errors.New("standby: a server over HTTP has no process that could be kept at hand; remove Standby"))
	case s.Standby && s.Policy.MaxAttempts == 0:
		errs = append(errs, errors.New("standby: the policy never retries, so nothing may take over; set Retry, or remove Standby"))
	}
	return errors.Join(errs...)
}

func (c *Stdio) validate() (errs []error) {
	if strings.TrimSpace(c.Command) == "" {
		errs = append(errs, errors.New("stdio transport: Command is empty; name the program to run"))
	}
	for _, text := range append([]string{c.Command, c.Dir}, c.Args...) {
		if strings.ContainsRune(text, 0) {
			errs = append(errs, errors.New("stdio transport: command, argument or directory holds a NUL byte; remove it"))
			break
		}
	}
	for name, value := range c.Env {
		if strings.ContainsRune(value, 0) {
			errs = append(errs, fmt.Errorf("stdio transport: the value of environment variable %q holds a NUL byte; remove it", name))
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, fmt.Errorf("stdio transport: environment variable name %q is not usable; it must not be empty or hold '='", name))
		}
	}
	return errs
}

func (c *HTTP) validate() (errs []error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		errs = append(errs, errors.New("http transport: URL cannot be parsed; write it as https://host/path"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		errs = append(errs, errors.New("http transport: URL must begin with http:// or https:// and name a host"))
	}
	for name, value := range c.Headers {
		if name == "" || strings.ContainsFunc(name, noToken) || strings.ContainsFunc(value, isControl) {
			errs = append(errs, fmt.Errorf("http transport: header %q is not usable; names hold letters, digits and '-', no spaces or colons, values no line breaks or other control characters", name))
		}
	}
	return append(errs, c.Auth.validate(c)...)
}

// noToken reports what no header name may hold (RFC 9110, 5.6.2).
func noToken(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// isControl reports what no header value may hold (RFC 9110, 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
