package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
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
	if data, err := json.Marshal(r); err == nil {
		_ = PrintRaw(inv.Err, data) // stderr is where an error would be reported
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
		r = Report{Kind: mcpvisor.ErrCanceled, Message: err.Error()}
	default:
		r = Report{Kind: KindFailed, Message: err.Error()}
	}
	r.Message = ConfigTerms(r.Message)
	return r
}

// ErrInterrupted is the error of a command that a signal ended while it waited.
var ErrInterrupted = &ExitError{Code: ExitFailed, Report: Report{Kind: mcpvisor.ErrCanceled, Message: "interrupted before the servers were ready"}}

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

// NameOneOf is the end of an error about an unknown name: the names that it may stand for, or else all.
func NameOneOf(unknown string, names []string) string {
	if similar := nearest.Names(unknown, names); len(similar) > 0 {
		return "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return "name one of: " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// ParseHeader splits the value of a --header.
func ParseHeader(header string) (name, value string, err error) {
	name, value, found := strings.Cut(header, ":")
	if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !found || name == "" {
		err = UsageError("a --header has no colon; write it as 'Name: value'")
	}
	return name, value, err
}

// UnavailableError is the error about a server that did not become ready. No request
// was sent to it.
func UnavailableError(s mcpvisor.ServerStatus, format string, args ...any) error {
	kind := mcpvisor.ErrUnavailable
	if s.State == supervisor.StateUnauthorized {
		kind = mcpvisor.ErrAuthRequired
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

// The library's errors name what a Go program sets: fields, options and methods.
// The user of the command line sets keys of a file, and options of a command.
// configkeys.Terms replaces the fields; these replace the rest.
var (
	// fieldOrKey matches a field in a text that names the key behind it, too.
	fieldOrKey = regexp.MustCompile(`\b[A-Z]\w*\.[A-Z]\w*, in a file `)

	// phrasePairs are texts of the library, each followed by its replacement.
	phrasePairs = []string{
		`, or set WithTimeout for the call`, ``,
		`set a handler for it, see WithElicitationHandler, WithSamplingHandler, WithRoots and WithCallHandlers`, `use a client that can answer it (mcpvisor --fresh call asks on a terminal what a form or a URL needs)`,
		`; Refresh reads its lists`, ``,
		`; StartTask waits longer`, ``,
		`Client.ResolveKey`, `mcpvisor tasks resolve`,
		`a client with a journal; make it with facade.WithJournal`, `a journal; start mcpvisor run with --journal FILE`,
		`; raise MaxEntries or MaxBytes, or shorten Retention`, ``,
		`register it first`, `mcpvisor status lists the servers`,
		`; Tools lists them`, `; mcpvisor tools lists them`,
		`, or with Authorize of the client`, ``,
		`leave Era empty`, `remove "era"`,
		`, and Era is set to `, `, and "era" is set to `,
		`(Client.Authorize, or mcpvisor authorize `, `(mcpvisor authorize `,
		`then call Restart or register it again`, `then try again`,
		`set credentials, then unregister it and register it again`, `set credentials in its entry of the configuration`,
		`correct its configuration and register it again`, `correct its entry of the configuration, which is read by itself`,
		`pass the URL that arrives there to FinishAuthorization`, `paste here the URL that arrives there`,
		` (HTTP.SSE)`, ``,
		`FetchAssertion, AssertionFile and Enterprise are for grant`, `"assertion_file" and "enterprise" are for grant`,
		`needs one of AssertionFile, Enterprise and, in a program, FetchAssertion`, `needs one of "assertion_file" and "enterprise"`,
		`and Era is set to`, `and "era" is set to`,
		`supervisor.Unlimited`, `"unlimited"`,
		`set Config.GuardTicket and call guard.Main first in main, or set Config.AllowUnguarded`, `this system has no guard; start the node with --allow-unguarded if two of one may run for a while`,
	}
	phrases = strings.NewReplacer(phrasePairs...)
)

// ConfigTerms replaces the words of Go programs in a text by those of the command
// line and of configuration files.
func ConfigTerms(text string) string {
	text = fieldOrKey.ReplaceAllString(text, "")
	return configkeys.Terms(phrases.Replace(text))
}

// StatusInConfigTerms returns a status with its texts in those words.
func StatusInConfigTerms(s mcpvisor.ServerStatus) mcpvisor.ServerStatus {
	s.LastCause = CauseInConfigTerms(s.LastCause)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Cause = CauseInConfigTerms(s.History[i].Cause)
	}
	s.Catalog.Warnings = slices.Clone(s.Catalog.Warnings)
	for i := range s.Catalog.Warnings {
		s.Catalog.Warnings[i].Text = ConfigTerms(s.Catalog.Warnings[i].Text)
	}
	return s
}

// CauseInConfigTerms returns a copy of a cause with its text in those words.
func CauseInConfigTerms(c *supervisor.Cause) *supervisor.Cause {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.Message = ConfigTerms(c.Error())
	return c
}
