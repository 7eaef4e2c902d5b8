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
	for i := range top.Members {
		m := &top.Members[i]
		if near := nearest.Names(memberName(m), []string{keyMCPServers, keyServers}); len(near) > 0 {
			at, hint = m.Name.StartOffset, fmt.Sprintf("rename %q to %q", memberName(m), near[0])
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
