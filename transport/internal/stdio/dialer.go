package stdio

import (
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/memory"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// pipedDialer makes sessions with processes behind a pair of streams: stdio
// and in memory. It remembers the era of the server.
type pipedDialer struct {
	spec     mcpvisor.ServerSpec
	opts     transport.Options
	asked    *inbound.HandlerPool
	spawn    func() (process.Process, *supervisor.Cause)
	buffer   *budget.Budget
	redactor redact.Redactor // of what the server was given in confidence
	era      atomic.Value    // mcpvisor.Era
	// doubts counts starts in a row that leave open whether the server is still modern.
	doubts atomic.Int32
	// hanging counts starts that were given up and still hang in the operating system.
	hanging atomic.Int32
}

// faith is how many such starts are taken for crashes, which they are most of
// the time, before they are taken for the answer "no".
const faith = 2

func newPipedDialer(spec mcpvisor.ServerSpec, opts transport.Options, spawn func() (process.Process, *supervisor.Cause)) *pipedDialer {
	d := &pipedDialer{spec: spec, opts: opts, asked: inbound.NewHandlerPool(spec.Name, opts), spawn: spawn, buffer: budget.New(spec.Limits.MaxBufferBytes, opts.Buffer)}
	d.era.Store(spec.Era)
	return d
}

// NewSession implements Dialer.
func (d *pipedDialer) NewSession() transport.Session {
	s := &pipedSession{Lifetime: jsonrpc.NewLifetime(), dialer: d}
	s.Redact = d.redactor
	return s
}

// heedLate remembers for the next incarnation that a server is modern which was
// too slow to say so in time.
func (d *pipedDialer) heedLate(l *link) {
	p := l.control.probed()
	if p.state != probeGivenUp && !p.late {
		return
	}
	go func() {
		select {
		case <-p.answered:
		case <-l.Dead():
		}
		if p := l.control.probed(); p.late && p.result {
			d.era.Store(mcpvisor.EraModern)
		}
	}()
}

// NewDialer makes the sessions of a server behind a pair of streams: a process
// (spec.Stdio) or a goroutine (spec.InMemory).
func NewDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	spec = spec.WithDefaults()
	if spec.InMemory != nil {
		return newMemoryDialer(spec, opts)
	}
	return newStdioDialer(spec, opts)
}

func newMemoryDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	var secrets secret.List
	secrets.Add(spec.Secrets...)
	redactor := redact.New(&secrets)
	d := newPipedDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return memory.Start(spec.InMemory, spec.Limits.MaxStderrLines, redactor), nil
	})
	d.redactor = redactor
	return d
}

func newStdioDialer(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer {
	redactor := stdioRedactor(spec.Stdio, spec.Secrets...)
	d := newPipedDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return process.Start(spec.Stdio, process.Options{StderrLines: spec.Limits.MaxStderrLines, Redact: redactor})
	})
	d.redactor = redactor
	return d
}
