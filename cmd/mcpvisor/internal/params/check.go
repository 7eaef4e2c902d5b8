package params

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

const maxProblems = 10

// checker compares values with schemas.
var checker argcheck.Checker

// Check compares arguments, a JSON object, with the schema. It returns what is wrong, in
// words for the user; nothing if the server would probably accept them. A name that the
// schema does not declare is wrong unless the schema allows others: most servers ignore what
// they do not know, and a name that is misspelled has no effect there.
func (l List) Check(ctx context.Context, arguments []byte) (problems []string) {
	if text := bytes.TrimSpace(arguments); len(text) == 0 || string(text) == "null" {
		arguments = []byte("{}")
	}
	found := checker.Check(ctx, l.text, arguments, argcheck.Options{Most: maxProblems, Strict: true})
	for _, v := range found.Violations {
		problems = append(problems, describe(v))
	}
	return problems
}

func describe(v argcheck.Violation) string {
	text := v.Reason
	if v.Value != nil {
		text += ", and is " + quote(v.Value)
	}
	if v.Path != "" {
		text = v.Path + " " + text
	}
	return display.Line(text + didYouMean(v.Path, v.Similar))
}

// didYouMean suggests names instead of the last one of a path.
func didYouMean(path string, similar []string) string {
	if len(similar) == 0 {
		return ""
	}
	within := path[:strings.LastIndexByte(path, '.')+1]
	return "; did you mean " + within + strings.Join(similar, " or "+within) + "?"
}

// typeOf returns the type of a JSON value; that of an integer is "number".
func typeOf(value []byte) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return "any"
	}
	return argcheck.TypeOf(value[0])
}

func accepts(names []string, kind string, value []byte) bool {
	if slices.Contains(names, kind) {
		return true
	}
	if kind != "number" || !slices.Contains(names, "integer") {
		return false
	}
	var n float64
	return json.Unmarshal(value, &n) == nil && n == math.Trunc(n)
}

// article returns types as in "a string or null".
func article(names []string, nullable bool) string {
	all := make([]string, 0, len(names)+1)
	for _, name := range names {
		one := "a " + name
		if strings.ContainsAny(name[:min(1, len(name))], "aio") {
			one = "an " + name
		}
		all = append(all, one)
	}
	if nullable {
		all = append(all, "null")
	}
	return display.Line(strings.Join(all, " or "))
}

func quote(value []byte) string {
	return display.Line(display.Shorten(string(bytes.TrimSpace(value)), 100))
}

// Values returns values as a list; texts are without quotes.
func Values(values []json.RawMessage) string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = Plain(value)
	}
	return display.Line(strings.Join(all, ", "))
}

// Plain returns a value as the user writes it: a text without quotes.
func Plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return text
	}
	return string(bytes.TrimSpace(value))
}

// Answer makes a value of what the user has typed for the parameter, which is not empty:
// a value of the type of the schema, the number of a value that is allowed, several of both
// with commas between them for a list, or y and n for a boolean. problem says what is wrong
// with it; empty if nothing is.
func (p Param) Answer(ctx context.Context, text string) (value json.RawMessage, problem string) {
	names, _ := p.schema.types()
	switch isList := slices.Contains(names, "array"); {
	case isList && len(p.Enum) > 0:
		var items []string
		for item := range strings.SplitSeq(text, ",") {
			choice, ok := p.choice(strings.TrimSpace(item))
			if !ok {
				return nil, "answer with numbers of the list, as in 1,2"
			}
			items = append(items, string(choice))
		}
		value = json.RawMessage("[" + strings.Join(items, ",") + "]")
	case len(p.Enum) > 0:
		choice, ok := p.choice(text)
		if !ok {
			return nil, "answer with a number of the list"
		}
		value = choice
	case slices.Contains(names, "boolean"):
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			text = "true"
		case "n", "no", "false":
			text = "false"
		}
		fallthrough
	default:
		var ok bool
		if value, ok = p.schema.read(text); !ok {
			return nil, "it must be " + p.wants()
		}
	}
	found := checker.Check(ctx, p.within, value, argcheck.Options{Property: p.Name})
	if len(found.Violations) > 0 {
		return nil, "it " + describe(found.Violations[0])
	}
	return value, formatProblem(p.Format, text)
}

// choice returns the allowed value that an answer selects: by its number, its text, or its
// title.
func (p Param) choice(text string) (json.RawMessage, bool) {
	for i, value := range p.Enum {
		if Plain(value) == text || i < len(p.Titles) && p.Titles[i] == text {
			return value, true
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(p.Enum) {
		return p.Enum[n-1], true
	}
	return nil, false
}

// formatProblem checks the formats that forms may use.
func formatProblem(format, text string) string {
	switch format {
	case "email":
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
			return "it must be an e-mail address"
		}
	case "uri":
		if u, err := url.Parse(text); err != nil || !u.IsAbs() {
			return "it must be a URL"
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return "it must be a date, as in 2026-07-28"
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return "it must be a date with a time, as in 2026-07-28T15:04:05Z"
		}
	}
	return ""
}

func (p Param) IsList() bool {
	names, _ := p.schema.types()
	return slices.Contains(names, "array")
}
