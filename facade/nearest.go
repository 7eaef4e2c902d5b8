package facade

import (
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/messages"
)

// maxSuggestions is how many near names an error mentions.
const maxSuggestions = 3

func unknownServer(s *actors.Snapshot, name string) *Error {
	e := &Error{Server: name, Kind: messages.KindUnknownServer, Outcome: NotSent}
	if near := nearest(name, s.Names()); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else {
		e.Hint = "register it first"
	}
	return e
}

func unknownTool(s *actors.Snapshot, tool string) *Error {
	e := &Error{Kind: messages.KindUnknownTool, Outcome: NotSent}
	e.Server, _, _ = messages.SplitName(tool)
	var names []string
	for _, t := range s.Tools() {
		names = append(names, t.Name)
		if t.OriginalName == tool { // the server was left out
			e.Hint = "did you mean " + t.Name + "?"
			return e
		}
	}
	if near := nearest(tool, names); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else {
		e.Hint = "name tools as server/tool; Tools lists them"
	}
	return e
}

// nearest returns the names that differ least from name, if that is little.
func nearest(name string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	limit := max(2, len(name)/3)
	var found []scored
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n), limit); d <= limit {
			found = append(found, scored{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, f := range found[:min(len(found), maxSuggestions)] {
		out = append(out, f.name)
	}
	return out
}

// distance is the Levenshtein distance, or something above limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
