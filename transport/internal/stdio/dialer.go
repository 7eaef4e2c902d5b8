package stdio

import (
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
	spawn    func() (process.Process, *supervisor.Cause)
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

func newDialer(spec mcpvisor.ServerSpec, opts transport.Options, spawn func() (process.Process, *supervisor.Cause)) *dialer {
	d := &dialer{spec: spec, opts: opts, handlers: inbound.NewHandlerPool(spec.Name, opts), spawn: spawn, buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
	d.era.Store(spec.Era)
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

// NewDialer makes the sessions of a server behind a pair of streams: a process
// (spec.Stdio), a goroutine (spec.InMemory), or a connection of the host (spec.Transport).
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	spec = spec.WithDefaults()
	switch {
	case spec.InMemory != nil:
		return newMemoryDialer(spec, opts)
	case spec.Transport != nil:
		return newCustomDialer(spec, opts)
	}
	return newStdioDialer(spec, opts)
}

// specRedactor hides the secrets that the specification names.
func specRedactor(spec mcpvisor.ServerSpec) redact.Redactor {
	var secrets secret.List
	secrets.Add(spec.Secrets...)
	return redact.New(&secrets)
}

func newCustomDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	redactor := specRedactor(spec)
	connector := custom.NewConnector(spec.Transport, redactor)
	d := newDialer(spec, opts, func() (process.Process, *supervisor.Cause) { return connector.Start() })
	d.redactor = redactor
	return d
}

func newMemoryDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	redactor := specRedactor(spec)
	server, lines := spec.InMemory, spec.Limits.MaxStderrLines // the function keeps these, not the specification
	d := newDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return memory.Start(server, lines, redactor), nil
	})
	d.redactor = redactor
	return d
}

func newStdioDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	redactor := stdioRedactor(spec.Stdio, spec.Secrets...)
	command, lines := spec.Stdio, spec.Limits.MaxStderrLines // the function keeps these, not the specification
	d := newDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return process.Start(command, process.Options{StderrLines: lines, Redact: redactor})
	})
	d.redactor, d.keeper = redactor, new(process.Keeper)
	return d
}
