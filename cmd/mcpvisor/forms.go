package main

import (
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/facade"
)

// askForms lets servers ask the user during the command, if it has a terminal. Otherwise, and
// with --json, servers learn that this client asks nothing.
func (inv *invocation) askForms() {
	inv.forms = true
	inv.progress = inv.progressLine()
}

// formOptions returns the handlers of elicitation. Only servers that the command starts
// itself get them: those of `mcpvisor run` have a client without a user.
func (inv *invocation) formOptions() []facade.Option {
	in, out, ok := inv.questionTerminal()
	if !ok || !inv.forms || inv.json {
		return nil
	}
	terminal := form.New(in, out, inv.progress.pause)
	return []facade.Option{facade.WithElicitationHandler(terminal.Fill), facade.WithURLElicitationHandler(terminal.Visit)}
}
