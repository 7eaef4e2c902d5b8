package params

import (
	"context"
	"encoding/json"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/argcheck"
)

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

// IsList reports whether the parameter is a list.
func (p Param) IsList() bool {
	names, _ := p.schema.types()
	return slices.Contains(names, "array")
}
