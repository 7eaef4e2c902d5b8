package transport

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
)

func newStdioDialer(spec mcpvisor.ServerSpec, opts Options) Dialer {
	redactor := stdioRedactor(spec.Stdio, spec.Secrets...)
	d := newPipedDialer(spec, opts, func() (process.Process, *supervisor.Cause) {
		return process.Start(spec.Stdio, process.Options{StderrLines: spec.Limits.MaxStderrLines, Redact: redactor})
	})
	d.redactor = redactor
	return d
}
