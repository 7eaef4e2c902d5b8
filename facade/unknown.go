package facade

import (
	"errors"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

func unknownServer(s *actors.Snapshot, name string) *mcpvisor.Error {
	if s.Closed() {
		return actors.ClosedError(name)
	}
	e := &mcpvisor.Error{Server: name, Kind: mcpvisor.KindUnknownServer, Outcome: mcpvisor.OutcomeNotSent, Hint: "register it first"}
	if near := nearest.Names(name, s.Names()); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return e
}

// qualifiedNames and aliasesFirst are the two ways to write a suggestion. A name
// that says which it is comes back as it came; aliasesFirst is for models, to
// which no provider gives names with a slash.
const (
	qualifiedNames = false
	aliasesFirst   = true
)

// spelling returns how a suggestion for the name that was asked for is written.
func spelling(asked string, aliases bool) func(*mcpvisor.Tool) string {
	switch {
	case strings.HasPrefix(asked, mcpvisor.AliasPrefix):
		aliases = true
	case strings.Contains(asked, mcpvisor.Separator):
		aliases = false
	}
	if aliases {
		return func(t *mcpvisor.Tool) string { return t.Alias }
	}
	return func(t *mcpvisor.Tool) string { return t.Name }
}

func unknownTool(s *actors.Snapshot, tool string) *mcpvisor.Error {
	if s.Closed() {
		return actors.ClosedError("")
	}
	e := &mcpvisor.Error{Kind: mcpvisor.KindUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Hint: "name tools as server/tool; Tools lists them"}
	e.Server, _, _ = mcpvisor.SplitName(tool)
	if near := nearTools(s, tool, qualifiedNames); len(near) > 0 {
		e.Hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return e
}

// hiddenTool is the error of a call of a tool that [ServerSpec].Tools hides.
func hiddenTool(server string) *mcpvisor.Error {
	return &mcpvisor.Error{Server: server, Kind: mcpvisor.KindUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Cause: errHidden,
		Hint: "change ServerSpec.Tools, in a file \"tools\", \"enabledTools\" or \"disabledTools\", to allow it"}
}

var errHidden = errors.New("the configuration of its server hides the tool")

// nearTools returns the listed tools that may be meant by a name.
func nearTools(s *actors.Snapshot, asked string, aliases bool) []string {
	spell := spelling(asked, aliases)
	for c := range s.Catalogs() {
		if t, found := c.Tool(asked); found { // the server was left out
			return []string{spell(&t)}
		}
	}
	server, _, qualified := mcpvisor.SplitName(asked)
	bare := !qualified && !strings.HasPrefix(asked, mcpvisor.AliasPrefix)
	if s.Server(server) == nil {
		server = ""
	}
	return nearest.Among(asked, func(yield func(spelling, name string) bool) {
		for c := range s.Catalogs() {
			if server != "" && (len(c.Tools) == 0 || c.Tools[0].Server != server) {
				continue // the server is known, so it is the tool that is misspelt
			}
			for i := range c.Tools {
				t := &c.Tools[i]
				name := spell(t)
				if !yield(name, name) {
					return
				}
				if bare && (!yield(t.OriginalName, name) || !yield(t.Alias, name) || !yield(t.Name, name)) {
					return
				}
			}
		}
	})
}
