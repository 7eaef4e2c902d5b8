package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/nearest"
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
	// Key is the key at the top of the file that the problem concerns, "gateway" or "groups"; empty for other problems.
	Key string `json:"key,omitempty"`
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

// text is one file while it is read. It belongs to the parser's goroutine.
type text struct {
	path      string // as it was given
	data      []byte // without byte order mark
	workspace string // absolute
	lists     []serverList
	entries   []string // the names of all entries, in the order of the file

	lineEnds []int // the offsets of the line breaks in data; nil before the first position

	gateway  *hujson.Value // the value of "gateway" at the top; nil without it
	gateways int           // how often the key is there

	rulesAt  []*hujson.Value // the values of "rules" at the top
	groupsAt []*hujson.Value // the values of "groups" at the top
	groups   []string        // the names of all groups
}

// check rejects text that the JSON parser must not see.
func (t *text) check() error {
	switch {
	case len(t.data) > maxSize:
		return fmt.Errorf("config %s is longer than %d bytes, which cannot be right; name another file", t.path, maxSize)
	case bytes.HasPrefix(t.data, []byte("\xff\xfe")), bytes.HasPrefix(t.data, []byte("\xfe\xff")):
		return t.errorAt(0, "the file is UTF-16; save it as UTF-8")
	case len(bytes.TrimSpace(t.data)) == 0:
		return t.errorAt(0, "the file is empty; begin with {\"mcpServers\": {…}}")
	}
	if at, deep := tooDeep(t.data); deep {
		return t.errorAt(at, "objects and lists are nested more than %d deep, which cannot be right; close them", maxDepth)
	}
	return nil
}

func (t *text) noListsError(root *hujson.Value, top *hujson.Object) error {
	at, hint := root.StartOffset, "put the servers below one of them"
	for name, m := range members(top) {
		if near := nearest.Names(name, []string{keyMCPServers, keyServers}); len(near) > 0 {
			at, hint = m.Name.StartOffset, fmt.Sprintf("rename %q to %q", name, near[0])
			break
		}
	}
	return t.errorAt(at, "the file has neither \"mcpServers\" nor \"servers\"; %s", hint)
}

// position turns an offset into line and column, both from 1.
func (t *text) position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(t.data))
	if t.lineEnds == nil { // each entry has a position, so the text is not searched for each
		t.lineEnds = []int{}
		for i, b := range t.data {
			if b == '\n' {
				t.lineEnds = append(t.lineEnds, i)
			}
		}
	}
	before, _ := slices.BinarySearch(t.lineEnds, offset)
	if before == 0 {
		return 1, offset + 1
	}
	return 1 + before, offset - t.lineEnds[before-1]
}

func (t *text) line(v *hujson.Value) int {
	line, _ := t.position(v.StartOffset)
	return line
}

// errorAt is an error about the whole file that an offset is the place of.
func (t *text) errorAt(offset int, format string, args ...any) error {
	line, column := t.position(offset)
	return fmt.Errorf("config %s:%d:%d: %s", t.path, line, column, fmt.Sprintf(format, args...))
}

var (
	// syntaxPlace is what hujson puts before its errors.
	syntaxPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)
	// badEscape finds a backslash that does not begin an escape of JSON.
	badEscape = regexp.MustCompile(`\\(u[^"]{0,3}[^0-9A-Fa-f"]|[^"\\/bfnrtu])`)
)

func syntaxError(filename string, err error) error {
	text := err.Error()
	if m := syntaxPlace.FindStringSubmatch(text); m != nil {
		filename += ":" + m[1] + ":" + m[2]
		text = strings.TrimPrefix(text, m[0])
	}
	if strings.HasPrefix(text, "invalid literal: ") && badEscape.MatchString(text) {
		return fmt.Errorf("config %s: this string is not valid JSON, because a backslash in it does not begin an escape; %s", filename, backslashAdvice)
	}
	return fmt.Errorf("config %s: this is not valid JSON: %s; correct it there (comments and trailing commas are allowed)", filename, text)
}

// maxDepth is how deep objects and lists may be nested. A real file needs six.
const maxDepth = 100

// tooDeep finds the first bracket that is nested too deep. hujson parses
// recursively and without a bound, and a stack overflow ends the process: it
// cannot be recovered.
//
// Only strings and comments have to be distinguished from the rest. Text that is
// wrong in another way is left to the parser.
func tooDeep(data []byte) (offset int, deep bool) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i += commentLen(data[i:])
		}
	}
	return 0, false
}

// commentLen returns how many bytes of a comment follow the slash at the start
// of data.
func commentLen(data []byte) int {
	var end string
	switch {
	case bytes.HasPrefix(data, []byte("//")):
		end = "\n"
	case bytes.HasPrefix(data, []byte("/*")):
		end = "*/"
	default:
		return 0
	}
	n := bytes.Index(data[2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return 1 + n + len(end)
}
