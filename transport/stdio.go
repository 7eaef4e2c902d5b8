package transport

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

func newStdioDialer(spec mcpvisor.ServerSpec, opts Options) Dialer {
	hidden := veilOf(spec.Stdio, spec.Secrets...)
	d := newPipedDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return process.Start(spec.Stdio, process.Options{StderrLines: spec.Limits.MaxStderrLines, Redact: redact.Redactor(hidden)})
	})
	d.veil = hidden
	return d
}
