package mcpvisor

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/pattern"
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
//		Policy: mcpvisor.Retry(3, 500*time.Millisecond),
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
	// NoRetry, which evicts the server. Use Retry to make one.
	Policy supervisor.Policy
	// StartSupervised makes Register return at once and applies Policy to the first
	// start, too. Without it, a first start that fails is an error of Register and
	// leaves nothing behind.
	StartSupervised bool
	// Standby keeps a second process of the server running, started and listed in advance. When
	// the process in service ends by itself, the standby takes over without a start: its tools
	// stay listed. Calls in flight fail as after any crash. Calls that come before the takeover
	// is complete fail with ErrUnavailable and a RetryAfter of 100 ms, unless they are made with
	// facade.WithWaitReady. The next standby starts after the delay of Policy, at least 50 ms,
	// and each takeover uses up one attempt. It needs Stdio, InMemory or Transport, and a Policy
	// with MaxAttempts other than 0. It costs the memory of a second process, and does not work
	// with servers that hold something exclusively, such as a port or a file lock.
	Standby bool
	// Overlap says that two processes of this server may run at the same time. Then facade.Client.Apply starts a
	// changed server beside the old one, which gets the calls until the new one is ready, so that no call waits.
	// Servers over HTTP and those with Standby do that anyway; others are ended before they are started again,
	// since they may hold a port or a lock. It excludes Exclusive.
	Overlap bool
	// Exclusive says that at most one process of this server may exist among all hosts that share
	// a configuration: it holds a browser profile, a lock or a licence. A single client ends every
	// incarnation before it starts the next one anyway; it refuses a copy (relay.Methods.CopyServer), and
	// does not know whether a spec of another name runs the same program. The
	// fleet places such servers by leases, and fences them when a lease is lost. It excludes
	// Standby and Overlap, which are a second process.
	Exclusive bool

	// After names servers and groups (see [Group]) of the same client that must be ready before this server starts.
	// One of them that is asleep or resting is woken; for one that is stopped or not registered this server waits,
	// in the state "waiting", which is no failure. This server ends before they do. When one of them fails later,
	// this server continues: to restart it with them, make both members of a group.
	After []string
	// Transient is a restart type of OTP: the server may exit with 0 while it is ready and no call is in flight. It
	// has done its work then, which is no failure: it rests, is listed, and starts again when it is wanted. It needs
	// Stdio.
	Transient bool
	// Start says when the server starts. Default StartEager.
	Start StartMode
	// IdleStop ends a server that nothing has used for that long: it sleeps, is listed, and starts again when it is
	// wanted. A call in flight, a subscription, an open task, a copy, and a server that comes after it and runs are
	// use. Default, and 0: never. At least one second.
	IdleStop time.Duration

	// Tools selects the tools that are offered. The zero value offers all.
	Tools ToolFilter
	// ToolSettings change how single tools are offered: their names, descriptions, arguments and timeouts. The keys
	// are the server's own names of the tools. Every view of the server shows the tools as they are offered.
	ToolSettings map[string]ToolSetting
	// Secrets are texts that are replaced by *** in everything the server says outside of
	// results: stderr, log messages, errors. Values in Stdio.Env, Args, Headers and URL that look
	// like secrets are replaced without being listed here. Texts shorter than 6 bytes are not
	// replaced, because they would make other text unreadable.
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

// StartMode says when a server starts.
type StartMode string

const (
	// StartEager: at once. The default.
	StartEager StartMode = ""
	// StartLazy: when it is wanted: by a call, a read, a subscription, a completion, facade.Client.Start, or a server
	// that comes after it. It is listed as it was listed when it last ran (facade.WithCatalogStore); if that is not
	// known, it starts once, is listed, and ends.
	StartLazy StartMode = "lazy"
)

// WithDefaults returns the spec with every zero field of Timeouts, Limits and Probe
// replaced by its default.
func (s ServerSpec) WithDefaults() ServerSpec {
	s.Timeouts = s.Timeouts.withDefaults()
	s.Limits = s.Limits.withDefaults()
	s.Probe = s.Probe.withDefaults()
	return s
}

// Clone returns a copy that shares no slice and no map with s. InMemory, Transport, HTTP.Auth and
// HTTP.Client are shared, because copies of functions cannot be compared (see
// [ServerSpec.Equal]): do not change them, make new ones.
func (s ServerSpec) Clone() ServerSpec {
	s.Tools, s.Secrets, s.After = s.Tools.clone(), slices.Clone(s.Secrets), slices.Clone(s.After)
	s.Stdio, s.HTTP = s.Stdio.clone(), s.HTTP.clone()
	s.ToolSettings = maps.Clone(s.ToolSettings)
	for name, setting := range s.ToolSettings {
		s.ToolSettings[name] = setting.clone()
	}
	return s
}

// TransportKind names the transport that is set: "stdio", "http", "memory", or Transport.Kind,
// by default "custom". It is "" if none is.
func (s ServerSpec) TransportKind() string {
	switch {
	case s.Stdio != nil:
		return "stdio"
	case s.HTTP != nil:
		return "http"
	case s.InMemory != nil:
		return "memory"
	case s.Transport != nil:
		return s.Transport.kind()
	}
	return ""
}

// Target describes in one line what the spec runs or reaches. For npx, docker, node, python and
// similar commands it is the package or script that they run; for other commands, the command
// without its arguments; for HTTP, the URL without user, query and fragment and with *** in place
// of a token in its path; for Transport, Transport.Target. It holds none of the Secrets.
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
		var secrets secret.List
		secrets.AddArgs(s.Stdio.Args)
		shown := display.Command(s.Stdio.Command, s.Stdio.Args)
		if secrets.Replacer().Replace(shown) != shown { // what looks like a package is a secret
			shown = s.Stdio.Command
		}
		return secret.RedactCommand(shown)
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "(unreadable URL)"
		}
		if s.HTTP.Socket != "" {
			return secret.RedactURL(u) + " at " + s.HTTP.Socket
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
	errs = append(errs, s.validateToolSettings()...)
	if err := s.Policy.Validate(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, s.validateSupervision()...)
	switch {
	case s.Standby && s.HTTP != nil:
		errs = append(errs, errors.New("standby: a server over HTTP has no process to keep in reserve; remove ServerSpec.Standby"))
	case s.Standby && s.Exclusive:
		errs = append(errs, errors.New("standby: a standby is a second process, and the server is exclusive; remove ServerSpec.Standby or ServerSpec.Exclusive"))
	case s.Overlap && s.Exclusive:
		errs = append(errs, errors.New("overlap: the server is exclusive, so no second process may run beside it; remove ServerSpec.Overlap or ServerSpec.Exclusive"))
	case s.Standby && s.Policy.MaxAttempts == 0:
		errs = append(errs, errors.New("standby: Policy.MaxAttempts is 0, so the standby could not take over; set ServerSpec.Policy, or remove ServerSpec.Standby"))
	}
	return errors.Join(errs...)
}

// validateSupervision checks when the server starts and rests.
func (s ServerSpec) validateSupervision() (errs []error) {
	for _, name := range s.After {
		if err := CheckServerName(name); err != nil {
			errs = append(errs, fmt.Errorf("after: %w", err))
		} else if name == s.Name {
			errs = append(errs, fmt.Errorf("after: %q waits for itself; remove it", name))
		}
	}
	if s.Start != StartEager && s.Start != StartLazy {
		errs = append(errs, fmt.Errorf("start %q is unknown; use \"lazy\", or leave it empty", s.Start))
	}
	if s.IdleStop != 0 && s.IdleStop < time.Second {
		errs = append(errs, fmt.Errorf("idle stop is %v; use 0 for never, or at least 1s", s.IdleStop))
	}
	switch {
	case s.Transient && s.Stdio == nil:
		errs = append(errs, errors.New("transient: only a process exits with a code; remove ServerSpec.Transient, or use Stdio"))
	case s.Standby && (s.Transient || s.Start == StartLazy || s.IdleStop > 0):
		errs = append(errs, errors.New("standby: a server that may rest or sleep needs no process in reserve; remove ServerSpec.Standby, or ServerSpec.Transient, ServerSpec.Start and ServerSpec.IdleStop"))
	}
	return errs
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

// Equal reports whether two specs start and treat a server in the same way, so that a server with
// one spec need not be restarted for the other. facade.Client.Apply uses it.
//
// Origin is not compared. Zero fields of Timeouts, Limits and Probe equal their defaults,
// and an empty list or map equals none. The values behind Stdio, HTTP, InMemory and Transport
// are compared, not their addresses. HTTP.Client is equal only if it is the same pointer.
// HTTP.Auth is compared by its method Equal.
//
// Go cannot compare functions, so two functions are equal only if both are nil. A struct with
// a function (InMemory, Transport, an HTTP with a HeaderFunc) equals only itself: make it
// once, and use the same pointer in each spec. Package config does so for equal entries.
func (s ServerSpec) Equal(other ServerSpec) bool {
	a, b := s.WithDefaults(), other.WithDefaults()
	a.Origin, b.Origin = "", ""
	return equalValues(reflect.ValueOf(a), reflect.ValueOf(b))
}

// equalValues compares two values of one type, as Equal says.
func equalValues(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return equalMaps(a, b)
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return true
		}
		own := a.Type().Elem().PkgPath() == reflect.TypeFor[ServerSpec]().PkgPath()
		return own && !a.IsNil() && !b.IsNil() && equalValues(a.Elem(), b.Elem())
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	case reflect.Interface:
		x, _ := a.Interface().(Auth) // no other field of a spec is an interface
		y, _ := b.Interface().(Auth)
		return x == nil && y == nil || x != nil && x.Equal(y)
	default: // the others are comparable
		return a.Equal(b)
	}
}

// equalMaps compares maps, as Equal says.
func equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for entries := a.MapRange(); entries.Next(); {
		v := b.MapIndex(entries.Key())
		if !v.IsValid() || !equalValues(v, entries.Value()) {
			return false
		}
	}
	return true
}

// Policy says what follows the end of a server: how often and how soon it is started again,
// and what happens when that fails. The zero value is [NoRetry]. See [supervisor.Policy] for
// its fields.
type Policy = supervisor.Policy

// Retry returns a policy that starts a server again after base, 2·base, 4·base, …, at most 5
// minutes, and gives it up after maxAttempts attempts in a row. Once a session has stayed ready
// for 10 seconds, attempts are counted from 0 again. Package supervisor has the options:
// WithMaxDelay, WithJitter, WithStableAfter, WithParking, WithIntensity.
//
//	mcpvisor.Retry(3, 500*time.Millisecond) // after 500 ms, 1 s, 2 s; then the server is evicted
//	mcpvisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithJitter(0.2))
func Retry(maxAttempts int, base time.Duration, opts ...supervisor.RetryOption) Policy {
	return supervisor.Retry(maxAttempts, base, opts...)
}

// NoRetry returns the policy that gives a server up at the first end of its session.
func NoRetry() Policy { return supervisor.NoRetry() }

// Timeouts bound the operations of one server. In each field 0 means the default and a negative
// value means no bound. Three exceptions are errors of [ServerSpec.Validate]: a negative Shutdown,
// a negative Drain, and Call and CallTotal both negative.
type Timeouts struct {
	// Start bounds a start: spawning the process or connecting, and the handshake.
	// Register then fails with ErrStart; a later start counts as a failed attempt of the
	// policy. Default 60 s, because package runners such as npx may have to download first.
	Start time.Duration
	// Negotiate bounds the wait for an answer to server/discover, the handshake of
	// protocol version 2026-07-28, before initialize is sent. Negative: only Start bounds
	// it, so a server that never answers server/discover does not start. It has no effect
	// with EraLegacy and EraModern, which send only one of the two. Default 3 s.
	Negotiate time.Duration
	// List bounds the reading of all four lists together. When it expires, the start fails as
	// with Start. Default 30 s.
	List time.Duration
	// MaxListAge is the maximum age of a list whose changes the server does not announce (no
	// listChanged capability, no ttlMs). Then the list is read again, and EventChanged reports
	// what changed. Each list gets a random age, up to a quarter less, but at least 10 s. Default
	// 0, and for negative values: such a list is read only at each start and by
	// facade.Client.Refresh, because the lists of most such servers never change, and each
	// reading costs one request a page. An hour suits a remote server, which may be replaced
	// behind its address while the session continues.
	MaxListAge time.Duration
	// Call bounds the time without progress of one call: each progress notification
	// of the server starts it again. facade.WithTimeout overrides it for a call.
	// Default 60 s.
	Call time.Duration
	// CallTotal bounds one call as a whole, whatever its progress and its other
	// timeouts. It begins when the server is ready: the wait of facade.WithWaitReady does
	// not count, and only the call's context ends that. If CallTotal is negative, a call
	// with a negative facade.WithTimeout and no deadline of its context fails with
	// ErrInvalid. Default 10 min.
	CallTotal time.Duration
	// Shutdown bounds the end of a process. Its stdin is closed first; after half of
	// Shutdown its process group gets SIGTERM, and after all of it SIGKILL. With InMemory
	// the context of Serve ends instead of the signals. With HTTP it bounds the end of
	// the session, with the request that deletes it. Default 2 s.
	Shutdown time.Duration
	// Drain bounds how long the calls in flight may take when the server is replaced or removed by
	// facade.Client.Apply, or ended with facade.WithDrain, before it is ended. No further call is sent to
	// it then. It cannot be negative. Default 30 s.
	Drain time.Duration
}

// withDefaults returns the timeouts with every zero field replaced by its default.
func (t Timeouts) withDefaults() Timeouts {
	setDefaultDuration(&t.Start, defaults.StartTimeout)
	setDefaultDuration(&t.Negotiate, defaults.NegotiateTimeout)
	setDefaultDuration(&t.List, defaults.ListTimeout)
	setDefaultDuration(&t.Call, defaults.CallTimeout)
	setDefaultDuration(&t.CallTotal, defaults.CallTotalTimeout)
	setDefaultDuration(&t.Shutdown, defaults.ShutdownTimeout)
	setDefaultDuration(&t.Drain, defaults.DrainTimeout)
	return t
}

func (t Timeouts) validate() (errs []error) {
	if t.Call < 0 && t.CallTotal < 0 {
		errs = append(errs, errors.New("timeouts: Timeouts.Call and Timeouts.CallTotal are both switched off, so a call might never end; bound one of them"))
	}
	if t.Shutdown < 0 {
		errs = append(errs, errors.New("timeouts: Timeouts.Shutdown is negative, so the end of the server might never come; set a positive bound"))
	}
	if t.Drain < 0 {
		errs = append(errs, errors.New("timeouts: Timeouts.Drain is negative; set a positive bound, as short as you like"))
	}
	return errs
}

// setDefaultDuration replaces a zero duration.
func setDefaultDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Limits bound what one server may cost this process. In each field 0 means the
// default. A negative value is an error of [ServerSpec.Validate], except in MaxQueued.
type Limits struct {
	// MaxMessageBytes is the longest JSON-RPC message accepted from the server, in
	// bytes. A longer message is skipped and counted in Discarded.Oversize; the call
	// that it answers fails with ErrProtocol, if its id is within 512 bytes of either end
	// of the message. Default 64 MiB; more than 1 GiB is an error.
	MaxMessageBytes int
	// MaxBufferBytes bounds the memory of large messages (those that need a buffer of 64 KiB or
	// more) while they are read and decoded, in bytes, for all calls of the server together. One
	// message may exceed it, so that a large result is never impossible; further ones wait, and
	// the timeouts of their calls keep running. With Stdio or InMemory, a message that finds no
	// room is skipped when none was returned for 3 s, or after 15 s, and its call fails with
	// ErrOverloaded and OutcomeAnswered. Default 64 MiB, or an eighth of the memory that this process may
	// use by GOMEMLIMIT or its cgroup, if that is less.
	MaxBufferBytes int
	// MaxElements bounds the JSON values (members, elements, scalars) in a result that
	// is decoded. A result with more fails its call with ErrProtocol; CallToolRaw
	// returns it undecoded. Results shorter than 64 KiB are not counted.
	// Default 1,000,000.
	MaxElements int
	// MaxDecodedBytes bounds the memory that a decoded result may take, in bytes,
	// estimated from its text before it is decoded. It applies as MaxElements does.
	// Default 256 MiB, or an eighth of that memory.
	MaxDecodedBytes int
	// MaxItems bounds the entries taken from each of the four lists (tools, resources,
	// resource templates, prompts). The rest is left out with a warning in the status.
	// Default 10,000.
	MaxItems int
	// MaxPages bounds the pages read of each list. The rest is left out with a warning in
	// the status. Default 1,000.
	MaxPages int
	// MaxCatalogBytes bounds the memory of all four lists together, in bytes of JSON
	// as the server sent them. The rest is left out with a warning in the status.
	// Default 256 MiB.
	MaxCatalogBytes int
	// MaxInFlight is how many calls the server works on at once. Further calls queue.
	// Default 1,024.
	MaxInFlight int
	// MaxQueued is how many calls may queue behind MaxInFlight, first come, first
	// served. Their timeouts run while they queue. Further calls fail at once with
	// ErrOverloaded. Principals and clients of a gateway are served in turn, and in a full
	// queue the call of a client that has few of them takes the place of the last one of
	// the client that has most. Calls that wait for a server that is not ready (facade.WithWaitReady)
	// are neither counted nor bounded. Default 1,024; a negative value means no queue. (In
	// a configuration file max_queued 0 means no queue, and no key means the default.)
	MaxQueued int
	// MaxStderrLines is how many lines of the server's stderr are kept for causes and
	// errors: the first third and the last two thirds, with a line between them that
	// counts the omitted ones. Default 30. At least one line is kept.
	MaxStderrLines int
}

// maxMessageBytes is the largest MaxMessageBytes: a length that fits a 32-bit int, with
// room for the buffers around it.
const maxMessageBytes = 1 << 30

func (l Limits) validate() (errs []error) {
	for _, field := range []struct {
		name  string
		value int
	}{
		{"MaxMessageBytes", l.MaxMessageBytes}, {"MaxBufferBytes", l.MaxBufferBytes},
		{"MaxElements", l.MaxElements}, {"MaxDecodedBytes", l.MaxDecodedBytes},
		{"MaxItems", l.MaxItems}, {"MaxPages", l.MaxPages}, {"MaxCatalogBytes", l.MaxCatalogBytes},
		{"MaxInFlight", l.MaxInFlight}, {"MaxStderrLines", l.MaxStderrLines},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("limits: Limits.%s is %d; set a positive number, or leave it 0 for the default", field.name, field.value))
		}
	}
	if l.MaxMessageBytes > maxMessageBytes {
		errs = append(errs, fmt.Errorf("limits: Limits.MaxMessageBytes is %d; set at most %d (1 GiB)", l.MaxMessageBytes, maxMessageBytes))
	}
	return errs
}

// withDefaults returns the limits with every zero field replaced by its default.
// Values that validate refuses are moved into their range.
func (l Limits) withDefaults() Limits {
	setDefault := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	setDefault(&l.MaxMessageBytes, defaults.MaxMessageBytes)
	l.MaxMessageBytes = min(l.MaxMessageBytes, maxMessageBytes)
	setDefault(&l.MaxBufferBytes, defaults.Within(defaults.MaxBufferBytes, 8))
	setDefault(&l.MaxElements, defaults.MaxElements)
	setDefault(&l.MaxDecodedBytes, defaults.Within(defaults.MaxDecodedBytes, 8))
	setDefault(&l.MaxItems, defaults.MaxItems)
	setDefault(&l.MaxPages, defaults.MaxPages)
	setDefault(&l.MaxCatalogBytes, defaults.MaxCatalogBytes)
	setDefault(&l.MaxInFlight, defaults.MaxInFlight)
	if l.MaxQueued == 0 { // negative switches the queue off
		l.MaxQueued = defaults.MaxQueued
	}
	setDefault(&l.MaxStderrLines, defaults.MaxStderrLines)
	return l
}

// Probe says how the liveness of a ready server is checked: by a ping, or by
// server/discover where the protocol has no ping. Any complete message from the server
// counts as an answer, so a busy server is not probed. In each field 0 means the default. A
// negative Timeout or Failures is an error of [ServerSpec.Validate].
type Probe struct {
	// Interval is how long the server must be silent before it is probed. Default
	// 30 s; a negative value switches probes off.
	Interval time.Duration
	// Timeout bounds the wait for the answer to one probe. Default 10 s.
	Timeout time.Duration
	// Failures is how many probes must fail in a row before the session is ended and
	// the server's policy decides what follows. Default 3.
	Failures int
}

func (p Probe) validate() (errs []error) {
	if p.Timeout < 0 {
		errs = append(errs, fmt.Errorf("probe: Probe.Timeout is %v; set a positive bound, or leave it 0 for the default; a negative Probe.Interval switches probes off", p.Timeout))
	}
	if p.Failures < 0 {
		errs = append(errs, fmt.Errorf("probe: Probe.Failures is %d; set a positive number, or leave it 0 for the default", p.Failures))
	}
	return errs
}

// withDefaults returns the probe with every zero field replaced by its default.
func (p Probe) withDefaults() Probe {
	setDefaultDuration(&p.Interval, defaults.ProbeInterval)
	setDefaultDuration(&p.Timeout, defaults.ProbeTimeout)
	if p.Failures <= 0 {
		p.Failures = defaults.ProbeFailures
	}
	return p
}

// ToolFilter selects the tools of a server that are offered. The others are hidden:
// they are neither listed nor suggested, and calls of them fail with ErrUnknownTool
// before anything is sent. Resources and prompts are not affected. The zero value
// hides nothing.
//
// Patterns are compared with the server's own name of the tool ("list_directory", not
// "fs/list_directory"), or the name that ToolSetting.Name gives it, case-sensitively. "*" matches any text, the empty one
// included, and "?" one character. An empty pattern is an error of
// [ServerSpec.Validate]. A pattern that matches no tool of the server is a warning in the
// status.
type ToolFilter struct {
	// Allow holds patterns of which one must match. Empty: every tool is allowed.
	Allow []string
	// Deny holds patterns of which none may match. It takes precedence over Allow.
	Deny []string
}

// IsZero reports whether the filter hides nothing.
func (f ToolFilter) IsZero() bool { return len(f.Allow) == 0 && len(f.Deny) == 0 }

// Allows reports whether the tool of that name is offered.
func (f ToolFilter) Allows(name string) bool {
	matches := func(glob string) bool { return pattern.Glob(glob, name) }
	return !slices.ContainsFunc(f.Deny, matches) && (len(f.Allow) == 0 || slices.ContainsFunc(f.Allow, matches))
}

func (f ToolFilter) clone() ToolFilter {
	return ToolFilter{Allow: slices.Clone(f.Allow), Deny: slices.Clone(f.Deny)}
}

func (f ToolFilter) validate() (errs []error) {
	if slices.Contains(f.Allow, "") || slices.Contains(f.Deny, "") {
		errs = append(errs, errors.New("tools: a pattern is empty and matches no tool; remove it, or write \"*\" for all"))
	}
	return errs
}
