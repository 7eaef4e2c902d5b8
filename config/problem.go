package config

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// Severity says what a [Problem] costs.
type Severity string

const (
	// SeverityError: the entry is left out of [File.Servers] and is in [File.Unusable], or the
	// problem concerns the file as a whole.
	SeverityError Severity = "error"
	// SeverityWarning: the entry is used; part of it is ignored or read in a way that the
	// message says.
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong with a file. It holds names of variables
// and headers, never their values.
type Problem struct {
	// File is the name of the file, as it was given to [Load] or [Parse].
	File string `json:"file"`
	// Line and Column are where the problem is, from 1. Columns count bytes.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Server is the name of the entry, as the file has it. It is empty for a
	// problem of the file as a whole.
	Server string `json:"server,omitempty"`
	// Severity says what the problem costs.
	Severity Severity `json:"severity"`
	// Message says what is wrong and how to fix it.
	Message string `json:"message"`
}

// subjectServer begins a message whose subject is the server itself.
const subjectServer = "server %q "

// String is the problem in one line: file, line and column, server, message.
func (p Problem) String() string {
	s := fmt.Sprintf("config %s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Severity == SeverityWarning {
		s += "warning: "
	}
	if subject := fmt.Sprintf(subjectServer, p.Server); p.Server != "" && !strings.HasPrefix(p.Message, subject) {
		s += fmt.Sprintf("server %q: ", p.Server)
	}
	return s + p.Message
}

// origin is where a value is, as in ".mcp.json:12".
func (p *parser) origin(v *hujson.Value) string {
	return fmt.Sprintf("%s:%d", p.text.path, p.text.line(v))
}

func (p *parser) addProblem(v *hujson.Value, server string, severity Severity, format string, args ...any) {
	line, column := p.text.position(v.StartOffset)
	p.file.Problems = append(p.file.Problems, Problem{File: p.text.path, Line: line, Column: column,
		Server: server, Severity: severity, Message: fmt.Sprintf(format, args...)})
}
