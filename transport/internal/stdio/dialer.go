package stdio

import (
	"strings"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/custom"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/memory"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// dialer makes the sessions of one server behind a pair of streams. It remembers which
// era the server speaks. Safe for concurrent use.
type dialer struct {
	// Set by newDialer, constant afterwards.
	spec     mcpvisor.ServerSpec
	opts     transport.Options
	handlers *inbound.HandlerPool
	spawn    func(epoch uint64) (process.Process, *supervisor.Cause)
	buffer   *budget.Budget
	redactor redact.Redactor // hides the secrets that the server was given
	keeper   *process.Keeper // nil for a goroutine

	// Shared by all sessions of the dialer.
	era           atomic.Value // mcpvisor.Era: what the next session tries first
	probeExits    atomic.Int32 // consecutive starts in which a modern server exited on server/discover
	hangingStarts atomic.Int32 // abandoned starts that have not returned from the operating system
}

// maxProbeExits is how many consecutive exits on server/discover count as crashes of a
// modern server. Most of them are. After the next one the server counts as legacy.
const maxProbeExits = 2

// NewDialer makes the sessions of a server behind a pair of streams: a process
// (spec.Stdio), a goroutine (spec.InMemory), or a connection of the host (spec.Transport).
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	return newDialer(spec.WithDefaults(), opts)
}

func newDialer(spec mcpvisor.ServerSpec, opts transport.Options) *dialer {
	d := &dialer{spec: spec, opts: opts, handlers: inbound.NewHandlerPool(spec.Name, opts), buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
	d.era.Store(spec.Era)
	switch {
	case spec.Stdio != nil:
		d.redactor, d.keeper = stdioRedactor(spec.Stdio, spec.Secrets...), new(process.Keeper)
		d.spawn = func(epoch uint64) (process.Process, *supervisor.Cause) {
			return process.Start(d.spec.Stdio, epoch, d.spec.Limits.MaxStderrLines, d.redactor)
		}
		return d
	case spec.InMemory != nil:
		d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
			return memory.Start(d.spec.InMemory, d.spec.Limits.MaxStderrLines, d.redactor), nil
		}
	}
	var secrets secret.List
	secrets.Add(spec.Secrets...)
	d.redactor = redact.New(&secrets)
	if spec.Transport != nil {
		connector := custom.NewConnector(spec.Transport, d.redactor)
		d.spawn = func(uint64) (process.Process, *supervisor.Cause) { return connector.Start() }
	}
	return d
}

// NewSession implements [transport.Dialer].
func (d *dialer) NewSession() transport.Session {
	s := &session{lifetime: jsonrpc.NewLifetime(), dialer: d}
	s.notifications.Redact = d.redactor
	return s
}

// Keep implements [transport.Keeper].
func (d *dialer) Keep() { d.keeper.Keep() }

// Idle implements [transport.Keeper].
func (d *dialer) Idle() (finish func()) { return d.keeper.Release() }

// stdioRedactor hides the secrets that a stdio server was given: variables of its
// environment and arguments that are secrets by their name or their form, and secrets
// within them. Servers print them in errors ("invalid key sk-…"), and errors are shown,
// logged and passed to models. Other values stay visible: an error about a path is of
// no use without the path.
//
// It uses the whole environment at the time of the call, with inherited variables: the
// URL of a proxy holds a password, and with InheritEnv the server gets all secrets of
// the host.
func stdioRedactor(s *mcpvisor.Stdio, secrets ...string) redact.Redactor {
	var found secret.List
	found.Add(secrets...)
	found.AddEnv(process.Environ(s))
	found.AddArgs(append(strings.Fields(s.Command)[min(1, len(strings.Fields(s.Command))):], s.Args...))
	return redact.New(&found)
}
