package mcpvisor

import (
	"errors"
	"slices"
)

// ToolFilter selects the tools of a server that are offered. The others are hidden:
// they are neither listed nor suggested, and calls of them fail with ErrUnknownTool
// before anything is sent. Resources and prompts are not affected. The zero value
// hides nothing.
//
// Patterns are compared with the server's own name of the tool ("list_directory", not
// "fs/list_directory"), case-sensitively. "*" matches any text, the empty one
// included, and "?" one character. An empty pattern is an error of
// [ServerSpec.Validate]. A pattern that matches no tool of the server is a warning in the
// status.
type ToolFilter struct {
	// Allow holds patterns of which one must match. Empty: every tool is allowed.
	Allow []string
	// Deny holds patterns of which none may match. It takes precedence over Allow.
	Deny []string
}

// IsZero reports whether the filter hides nothing.
func (f ToolFilter) IsZero() bool { return len(f.Allow) == 0 && len(f.Deny) == 0 }

// Allows reports whether the tool of that name is offered.
func (f ToolFilter) Allows(name string) bool {
	matches := func(pattern string) bool { return matchPattern(pattern, name) }
	return !slices.ContainsFunc(f.Deny, matches) && (len(f.Allow) == 0 || slices.ContainsFunc(f.Allow, matches))
}

func (f ToolFilter) clone() ToolFilter {
	return ToolFilter{Allow: slices.Clone(f.Allow), Deny: slices.Clone(f.Deny)}
}

func (f ToolFilter) validate() (errs []error) {
	if slices.Contains(f.Allow, "") || slices.Contains(f.Deny, "") {
		errs = append(errs, errors.New("tools: a pattern is empty and matches no tool; remove it, or write \"*\" for all"))
	}
	return errs
}

// matchPattern reports whether a pattern with * and ? matches a whole name, in at most
// len(pattern)·len(name) steps.
func matchPattern(pattern, name string) bool {
	p, n := []rune(pattern), []rune(name)
	i, j := 0, 0
	star, from := -1, 0 // the last *, and the end of the text that it matches so far
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i++
			j++
		case star >= 0: // let the last * match one more character
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
