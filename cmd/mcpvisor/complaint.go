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

// complaint is what goes to stderr: a line of text or, with --json, an object in
// one line. stdout is for the answer alone, so that nobody takes an error for one.
type complaint struct {
	Kind    mcpvisor.ErrorKind `json:"kind"`
	Outcome mcpvisor.Outcome   `json:"outcome,omitempty"`
	Server  string             `json:"server,omitempty"`
	Message string             `json:"message"`
}

// warn tells of what does not end the command.
func (sh *shell) warn(server, format string, args ...any) {
	text := terms(fmt.Sprintf(format, args...))
	if !sh.json {
		fmt.Fprintln(sh.err, display.Text(text))
		return
	}
	sh.object(complaint{Kind: kindWarning, Server: server, Message: text})
}

// fail tells what ended the command, unless that has been said already.
func (sh *shell) fail(err error) {
	switch {
	case err == nil || err.Error() == "":
	case sh.json:
		sh.object(complaintOf(err))
	default:
		fmt.Fprintln(sh.err, "mcpvisor:", display.Text(complaintOf(err).Message))
	}
}

func (sh *shell) object(c complaint) {
	data, err := json.Marshal(c)
	if err == nil {
		err = printRaw(sh.err, data)
	}
	if err != nil { // stderr is where it would be told
		return
	}
}

func complaintOf(err error) (c complaint) {
	var own *exit
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &own):
		c = own.complaint
	case errors.As(err, &e):
		c = complaint{e.Kind, e.Outcome, e.Server, err.Error()}
	case errors.Is(err, context.Canceled):
		c = complaint{Kind: mcpvisor.KindCanceled, Message: err.Error()}
	default:
		c = complaint{Kind: kindFailed, Message: err.Error()}
	}
	c.Message = terms(c.Message)
	return c
}

// errInterrupted is the end of a command whose user did not want to wait.
var errInterrupted = &exit{exitFailed, complaint{Kind: mcpvisor.KindCanceled, Message: "interrupted before the servers were ready"}}

// exit is an error with a code of its own. Without a message, everything has
// been said already.
type exit struct {
	code int
	complaint
}

func (e *exit) Error() string { return e.Message }

func usage(format string, args ...any) error {
	return &exit{exitUsage, complaint{Kind: kindUsage, Message: fmt.Sprintf(format, args...)}}
}

// unavailable is the error about a server that did not come up. No request has
// reached it.
func unavailable(s mcpvisor.ServerStatus, format string, args ...any) error {
	kind := mcpvisor.KindUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = mcpvisor.KindAuthRequired
	}
	return &exit{exitUnavailable, complaint{kind, mcpvisor.OutcomeNotSent, s.Name, fmt.Sprintf(format, args...)}}
}

func exitCode(err error) int {
	var own *exit
	switch {
	case err == nil:
		return exitFine
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
