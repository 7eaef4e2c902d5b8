package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// These are kinds of reports beside those of [mcpvisor.ErrorKind].
const (
	kindWarning = "warning" // the command goes on
	kindUsage   = "usage"   // the command line or the configuration is wrong
	kindFailed  = "failed"  // anything else
	kindNote    = "note"    // not about a failure
)

// errorReport is what stderr gets: a line of text or, with --json, an object in
// one line. stdout gets only the answer, so that no program takes an error for one.
type errorReport struct {
	Kind    mcpvisor.ErrorKind `json:"kind"`
	Outcome mcpvisor.Outcome   `json:"outcome,omitempty"`
	Server  string             `json:"server,omitempty"`
	Message string             `json:"message"`

	details string // lines below the message; --json leaves them out
}

// warn reports something that does not end the command.
func (inv *invocation) warn(server, format string, args ...any) {
	text := configTerms(fmt.Sprintf(format, args...))
	if !inv.json {
		fmt.Fprintln(inv.err, display.Text(text))
		return
	}
	inv.writeReport(errorReport{Kind: kindWarning, Server: server, Message: text})
}

// reportError reports the error that ended the command, unless it has no message.
func (inv *invocation) reportError(err error) {
	switch {
	case err == nil || err.Error() == "":
	case inv.json:
		inv.writeReport(reportOf(err))
	default:
		r := reportOf(err)
		fmt.Fprintln(inv.err, "mcpvisor:", display.Text(r.Message))
		fmt.Fprint(inv.err, display.Text(r.details))
	}
}

func (inv *invocation) writeReport(r errorReport) {
	data, err := json.Marshal(r)
	if err == nil {
		err = printRaw(inv.err, data)
	}
	if err != nil { // stderr is where it would be reported
		return
	}
}

func reportOf(err error) (r errorReport) {
	var own *exitError
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &own):
		r = own.errorReport
	case errors.As(err, &e):
		r = errorReport{Kind: e.Kind, Outcome: e.Outcome, Server: e.Server, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		r = errorReport{Kind: mcpvisor.KindCanceled, Message: err.Error()}
	default:
		r = errorReport{Kind: kindFailed, Message: err.Error()}
	}
	r.Message = configTerms(r.Message)
	return r
}

// errInterrupted is the error of a command that a signal ended while it waited.
var errInterrupted = &exitError{exitFailed, errorReport{Kind: mcpvisor.KindCanceled, Message: "interrupted before the servers were ready"}}

// exitError is an error with its exit code. It has no message if everything has been
// printed already.
type exitError struct {
	code int
	errorReport
}

func (e *exitError) Error() string { return e.Message }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, errorReport{Kind: kindUsage, Message: fmt.Sprintf(format, args...)}}
}

// unavailableError is the error about a server that did not become ready. No request
// was sent to it.
func unavailableError(s mcpvisor.ServerStatus, format string, args ...any) error {
	kind := mcpvisor.KindUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = mcpvisor.KindAuthRequired
	}
	return &exitError{exitUnavailable, errorReport{Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Server: s.Name, Message: fmt.Sprintf(format, args...)}}
}

func exitCode(err error) int {
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, mcpvisor.ErrUnknownTool), errors.Is(err, mcpvisor.ErrUnknownServer), errors.Is(err, mcpvisor.ErrInvalid):
		return exitUsage
	case errors.Is(err, mcpvisor.ErrUnavailable), errors.Is(err, mcpvisor.ErrEvicted), errors.Is(err, mcpvisor.ErrStart),
		errors.Is(err, mcpvisor.ErrAuthRequired), errors.Is(err, mcpvisor.ErrClosed):
		return exitUnavailable
	}
	return exitFailed
}
