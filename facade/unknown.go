package facade

import (
	"strings"

	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/messages"
)

func unknownServer(s *actors.Snapshot, name string) *Error {
	if s.Closed() {
		return actors.Closed(name)
	}
	e := &Error{Server: name, Kind: messages.KindUnknownServer, Outcome: NotSent}
	if near := nearest.Names(name, s.Names()); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else {
		e.Hint = "register it first"
	}
	return e
}

// nameLike is the name of a tool in the form in which somebody asked for one.
func nameLike(asked string, t *messages.Tool) string {
	if strings.HasPrefix(asked, messages.AliasPrefix) {
		return t.Alias
	}
	return t.Name
}

func unknownTool(s *actors.Snapshot, tool string) *Error {
	if s.Closed() {
		return actors.Closed("")
	}
	e := &Error{Kind: messages.KindUnknownTool, Outcome: NotSent}
	e.Server, _, _ = messages.SplitName(tool)
	var names []string
	for c := range s.Catalogs() {
		if t, found := c.Tool(tool); found { // the server was left out
			e.Hint = "did you mean " + t.Name + "?"
			return e
		}
		if s.Server(e.Server) != nil && (len(c.Tools) == 0 || c.Tools[0].Server != e.Server) {
			continue // the server is known, so it is the tool that is misspelt
		}
		for i := range c.Tools {
			names = append(names, nameLike(tool, &c.Tools[i]))
		}
	}
	if near := nearest.Names(tool, names); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else {
		e.Hint = "name tools as server/tool; Tools lists them"
	}
	return e
}
