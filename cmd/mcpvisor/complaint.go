package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The kinds of complaints that are no [messages.ErrorKind].
const (
	kindWarning = "warning" // the command goes on
	kindUsage   = "usage"   // the command line or the configuration is wrong
	kindFailed  = "failed"  // anything else
)

// complaint is what goes to stderr: a line of text or, with --json, an object in
// one line. stdout is for the answer alone, so that nobody takes an error for one.
type complaint struct {
	Kind    messages.ErrorKind `json:"kind"`
	Outcome messages.Outcome   `json:"outcome,omitempty"`
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
	var e *messages.Error
	switch {
	case errors.As(err, &own):
		c = own.complaint
	case errors.As(err, &e):
		c = complaint{e.Kind, e.Outcome, e.Server, err.Error()}
	case errors.Is(err, context.Canceled):
		c = complaint{Kind: messages.KindCanceled, Message: err.Error()}
	default:
		c = complaint{Kind: kindFailed, Message: err.Error()}
	}
	c.Message = terms(c.Message)
	return c
}

// errInterrupted is the end of a command whose user did not want to wait.
var errInterrupted = &exit{exitFailed, complaint{Kind: messages.KindCanceled, Message: "interrupted before the servers were ready"}}

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
func unavailable(s messages.ServerStatus, format string, args ...any) error {
	kind := messages.KindUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = messages.KindAuthRequired
	}
	return &exit{exitUnavailable, complaint{kind, messages.OutcomeNotSent, s.Name, fmt.Sprintf(format, args...)}}
}

func exitCode(err error) int {
	var own *exit
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, messages.ErrUnknownTool), errors.Is(err, messages.ErrUnknownServer), errors.Is(err, messages.ErrInvalid):
		return exitUsage
	case errors.Is(err, messages.ErrUnavailable), errors.Is(err, messages.ErrEvicted), errors.Is(err, messages.ErrStart),
		errors.Is(err, messages.ErrAuthRequired), errors.Is(err, messages.ErrClosed):
		return exitUnavailable
	}
	return exitFailed
}
