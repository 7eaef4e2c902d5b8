package config

import (
	"fmt"

	"github.com/tailscale/hujson"
)

// Severity says what a problem costs.
type Severity int

const (
	// SeverityError: the entry is left out.
	SeverityError Severity = iota
	// SeverityWarning: the entry is used, and something in it is not.
	SeverityWarning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Problem is one thing that is wrong with a file. It holds names of variables
// and headers, never their values.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Server   string   `json:"server,omitempty"`
	Severity Severity `json:"severity"`
	// Message says what is wrong and how to mend it.
	Message string `json:"message"`
}

// String is the problem in one line, as compilers write it.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Severity == SeverityWarning {
		s += "warning: "
	}
	if p.Server != "" {
		s += fmt.Sprintf("server %q: ", p.Server)
	}
	return s + p.Message
}

func (r *reader) problem(v *hujson.Value, server string, sev Severity, format string, args ...any) {
	line, column := r.position(v.StartOffset)
	r.file.Problems = append(r.file.Problems, Problem{File: r.file.Path, Line: line, Column: column,
		Server: server, Severity: sev, Message: fmt.Sprintf(format, args...)})
}
