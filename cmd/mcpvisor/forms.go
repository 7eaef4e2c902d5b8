package main

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/facade"
)

// askForms lets servers ask the user during the command, if it has a terminal. Otherwise, and
// with --json, servers learn that this client asks nothing.
func (inv *invocation) askForms() {
	inv.forms = true
	inv.progress = inv.progressLine()
}

// asksUser reports whether the error of a tool is about elicitation. A server of 2025-11-25
// learns that the client asks nothing before or during the call, and says so in its own words.
func asksUser(content []json.RawMessage) bool {
	return slices.ContainsFunc(content, func(block json.RawMessage) bool {
		return bytes.Contains(bytes.ToLower(block), []byte("elicit"))
	})
}

// formAdvice says how the user can answer the form that a tool needs; empty if this command
// has asked the user already.
func (inv *invocation) formAdvice(attached bool) string {
	switch {
	case attached:
		return "; if it needs a form, mcpvisor --fresh call asks you on a terminal, and mcpvisor run asks nothing"
	case len(inv.formOptions()) == 0:
		return "; if it needs a form, call it on a terminal, and without --json"
	}
	return ""
}

// formOptions returns the handlers of elicitation. Only servers that the command starts
// itself get them: those of `mcpvisor run` have a client without a user.
func (inv *invocation) formOptions() []facade.Option {
	in, out, ok := inv.questionTerminal()
	if !ok || !inv.forms || inv.JSON {
		return nil
	}
	terminal := form.New(in, out, inv.progress.pause)
	return []facade.Option{facade.WithElicitationHandler(terminal.Fill), facade.WithURLElicitationHandler(terminal.Visit)}
}
