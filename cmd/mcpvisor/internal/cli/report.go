package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// These are kinds of reports beside those of [mcpvisor.ErrorKind].
const (
	KindWarning = "warning" // the command continues
	KindUsage   = "usage"   // the command line or the configuration is wrong
	KindFailed  = "failed"  // anything else
	KindNote    = "note"    // not about a failure
)

// Report is what stderr gets: a line of text or, with --json, an object in
// one line. stdout gets only the answer, so that no program takes an error for one.
type Report struct {
	Kind    mcpvisor.ErrorKind `json:"kind"`
	Outcome mcpvisor.Outcome   `json:"outcome,omitempty"`
	Server  string             `json:"server,omitempty"`
	Message string             `json:"message"`

	// Details are lines below the message; --json leaves them out.
	Details string `json:"-"`
}

// Warn reports something that does not end the command.
func (inv *Invocation) Warn(server, format string, args ...any) {
	text := ConfigTerms(fmt.Sprintf(format, args...))
	if !inv.JSON {
		fmt.Fprintln(inv.Err, display.Text(text))
		return
	}
	inv.WriteReport(Report{Kind: KindWarning, Server: server, Message: text})
}

// Note says on stderr something that is neither an answer nor a warning. With --json stderr
// has no such lines.
func (inv *Invocation) Note(format string, args ...any) {
	if !inv.JSON {
		fmt.Fprintln(inv.Err, display.Text(fmt.Sprintf(format, args...)))
	}
}

// Hint is Note for what only a user at a terminal wants to know. It is dim there, and a
// file or a program does not get it. A hint that was given is not repeated.
func (inv *Invocation) Hint(format string, args ...any) {
	text := display.Text(fmt.Sprintf(format, args...))
	if inv.JSON || inv.hinted == text || !table.IsTerminal(inv.Err) {
		return
	}
	inv.hinted = text
	if table.Colored(inv.Err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(inv.Err, text)
}

// ReportError reports the error that ended the command, unless it has no message.
func (inv *Invocation) ReportError(err error) {
	switch {
	case err == nil || err.Error() == "":
	case inv.JSON:
		inv.WriteReport(ReportOf(err))
	default:
		r := ReportOf(err)
		fmt.Fprintln(inv.Err, "mcpvisor:", display.Text(r.Message))
		fmt.Fprint(inv.Err, display.Text(r.Details))
	}
}

// WriteReport writes a report to stderr as an object in one line.
func (inv *Invocation) WriteReport(r Report) {
	data, err := json.Marshal(r)
	if err == nil {
		err = PrintRaw(inv.Err, data)
	}
	if err != nil { // stderr is where it would be reported
		return
	}
}

// ReportOf returns the report of the error of a command, in the words of the command line.
func ReportOf(err error) (r Report) {
	var own *ExitError
	var e *mcpvisor.Error
	switch {
	case errors.As(err, &own):
		r = own.Report
	case errors.As(err, &e):
		r = Report{Kind: e.Kind, Outcome: e.Outcome, Server: e.Server, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		r = Report{Kind: mcpvisor.KindCanceled, Message: err.Error()}
	default:
		r = Report{Kind: KindFailed, Message: err.Error()}
	}
	r.Message = ConfigTerms(r.Message)
	return r
}

// ErrInterrupted is the error of a command that a signal ended while it waited.
var ErrInterrupted = &ExitError{Code: ExitFailed, Report: Report{Kind: mcpvisor.KindCanceled, Message: "interrupted before the servers were ready"}}

// ExitError is an error with its exit code. It has no message if everything has been
// printed already.
type ExitError struct {
	Code int
	Report
}

func (e *ExitError) Error() string { return e.Message }

// UsageError is an error about the command line or the configuration.
func UsageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Report: Report{Kind: KindUsage, Message: fmt.Sprintf(format, args...)}}
}

// UnavailableError is the error about a server that did not become ready. No request
// was sent to it.
func UnavailableError(s mcpvisor.ServerStatus, format string, args ...any) error {
	kind := mcpvisor.KindUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = mcpvisor.KindAuthRequired
	}
	return &ExitError{Code: ExitUnavailable, Report: Report{Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Server: s.Name, Message: fmt.Sprintf(format, args...)}}
}

// ExitCode returns the exit code of a command that ended with an error, or with nil.
func ExitCode(err error) int {
	var own *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &own):
		return own.Code
	case errors.Is(err, mcpvisor.ErrUnknownTool), errors.Is(err, mcpvisor.ErrUnknownServer), errors.Is(err, mcpvisor.ErrInvalid):
		return ExitUsage
	case errors.Is(err, mcpvisor.ErrUnavailable), errors.Is(err, mcpvisor.ErrEvicted), errors.Is(err, mcpvisor.ErrStart),
		errors.Is(err, mcpvisor.ErrAuthRequired), errors.Is(err, mcpvisor.ErrClosed):
		return ExitUnavailable
	}
	return ExitFailed
}

// PrintJSON prints a value as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return PrintRaw(w, data)
}

// PrintIndented prints JSON text as PrintJSON prints its value.
func PrintIndented(w io.Writer, data []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return err
	}
	return PrintRaw(w, indented.Bytes())
}

// PrintRaw prints JSON text as it is. It escapes characters that would change what
// a terminal shows.
func PrintRaw(w io.Writer, data []byte) error {
	_, err := fmt.Fprintln(w, plaintext.JSON(string(data)))
	return err
}
