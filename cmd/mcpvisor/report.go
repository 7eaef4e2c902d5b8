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

// The kinds of complaints that are no [mcpvisor.ErrorKind].
const (
	kindWarning = "warning" // the command goes on
	kindUsage   = "usage"   // the command line or the configuration is wrong
	kindFailed  = "failed"  // anything else
)

// errorReport is what goes to stderr: a line of text or, with --json, an object in
// one line. stdout is for the answer alone, so that nobody takes an error for one.
type errorReport struct {
	Kind    mcpvisor.ErrorKind `json:"kind"`
	Outcome mcpvisor.Outcome   `json:"outcome,omitempty"`
	Server  string             `json:"server,omitempty"`
	Message string             `json:"message"`
}

// warn tells of what does not end the command.
func (inv *invocation) warn(server, format string, args ...any) {
	text := configTerms(fmt.Sprintf(format, args...))
	if !inv.json {
		fmt.Fprintln(inv.err, display.Text(text))
		return
	}
	inv.writeReport(errorReport{Kind: kindWarning, Server: server, Message: text})
}

// reportError tells what ended the command, unless that has been said already.
func (inv *invocation) reportError(err error) {
	switch {
	case err == nil || err.Error() == "":
	case inv.json:
		inv.writeReport(reportOf(err))
	default:
		fmt.Fprintln(inv.err, "mcpvisor:", display.Text(reportOf(err).Message))
	}
}

func (inv *invocation) writeReport(c errorReport) {
	data, err := json.Marshal(c)
	if err == nil {
		err = printRaw(inv.err, data)
	}
	if err != nil { // stderr is where it would be told
		return
	}
}

func reportOf(err error) (c errorReport) {
	var own *exitError
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &own):
		c = own.errorReport
	case errors.As(err, &e):
		c = errorReport{e.Kind, e.Outcome, e.Server, err.Error()}
	case errors.Is(err, context.Canceled):
		c = errorReport{Kind: mcpvisor.KindCanceled, Message: err.Error()}
	default:
		c = errorReport{Kind: kindFailed, Message: err.Error()}
	}
	c.Message = configTerms(c.Message)
	return c
}

// errInterrupted is the end of a command whose user did not want to wait.
var errInterrupted = &exitError{exitFailed, errorReport{Kind: mcpvisor.KindCanceled, Message: "interrupted before the servers were ready"}}

// exitError is an error with a code of its own. Without a message, everything has
// been said already.
type exitError struct {
	code int
	errorReport
}

func (e *exitError) Error() string { return e.Message }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, errorReport{Kind: kindUsage, Message: fmt.Sprintf(format, args...)}}
}

// unavailableError is the error about a server that did not come up. No request has
// reached it.
func unavailableError(s mcpvisor.ServerStatus, format string, args ...any) error {
	kind := mcpvisor.KindUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = mcpvisor.KindAuthRequired
	}
	return &exitError{exitUnavailable, errorReport{kind, mcpvisor.OutcomeNotSent, s.Name, fmt.Sprintf(format, args...)}}
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
