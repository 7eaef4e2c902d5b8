package servers

import (
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/facade"
)

// AskForms lets servers ask the user during the command, if it has a terminal. Otherwise, and
// with --json, servers learn that this client asks nothing.
func (o *Opener) AskForms() {
	o.Forms = true
	o.Progress = o.progressLine()
}

// FormAdvice says how the user can answer the form that a tool needs; empty if this command
// has asked the user already.
func (o *Opener) FormAdvice(attached bool) string {
	switch {
	case attached:
		return "; if it needs a form, mcpvisor --fresh call asks you on a terminal, and mcpvisor run asks nothing"
	case len(o.formOptions()) == 0:
		return "; if it needs a form, call it on a terminal, and without --json"
	}
	return ""
}

// formOptions returns the handlers of elicitation. Only servers that the command starts
// itself get them: those of `mcpvisor run` have a client without a user.
func (o *Opener) formOptions() []facade.Option {
	in, out, ok := o.questionTerminal()
	if !ok || !o.Forms || o.JSON {
		return nil
	}
	terminal := form.New(in, out, o.Progress.pause)
	return []facade.Option{facade.WithElicitationHandler(terminal.Fill), facade.WithURLElicitationHandler(terminal.Visit)}
}
