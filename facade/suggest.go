package facade

import (
	"errors"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// unknownServer is the error of a name that no server has, with similar names as hint.
// After Close the client is closed instead.
func unknownServer(s *actors.Snapshot, name string) *mcpvisor.Error {
	if s.Closed() {
		return actors.ClosedError(name)
	}
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent,
		Hint: didYouMean(nearest.Names(name, s.Names()), "register it first")}
}

// withServerOp is withOp that adds similar names to the error of a name that no server has.
func (c *Client) withServerOp(err error, name, op string) error {
	if e, ok := err.(*mcpvisor.Error); ok && e.Kind == mcpvisor.ErrUnknownServer && e.Hint == "" {
		own := *e
		own.Hint = didYouMean(nearest.Names(name, c.rt.Snapshot().Names()), "")
		err = &own
	}
	return withOp(err, op)
}

// unknownTool is the error of a name that no tool has, with similar names as hint.
func unknownTool(s *actors.Snapshot, tool string) *mcpvisor.Error {
	if s.Closed() {
		return actors.ClosedError("")
	}
	server, _, _ := mcpvisor.SplitName(tool)
	return &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrUnknownTool, Outcome: mcpvisor.OutcomeNotSent,
		Hint: didYouMean(similarTools(s, tool, preferNames), "name tools as server/tool; Tools lists them")}
}

// didYouMean is the hint that suggests names; otherwise is used if there are none.
func didYouMean(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(names, ", ") + "?"
}

// hiddenTool is the error of a call of a tool that ServerSpec.Tools hides.
func hiddenTool(server string) *mcpvisor.Error {
	return &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Cause: errHiddenTool,
		Hint: "change ServerSpec.Tools, in a file \"tools\", \"enabledTools\" or \"disabledTools\", to allow it"}
}

// withheld is the error of a tool (ErrUnknownTool) or prompt (ErrDenied) that the guard of the catalogs withholds.
func withheld(server string, kind mcpvisor.ErrorKind, finding string) *mcpvisor.Error {
	return &mcpvisor.Error{Server: server, Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New(finding)}
}

var errHiddenTool = errors.New("the configuration of its server hides the tool")

// nameForm is how suggestions for a tool are written if the requested name does not
// show which form its caller uses.
type nameForm bool

const (
	preferNames   nameForm = false // "server/tool", for programs
	preferAliases nameForm = true  // "mcp__server__tool", for models: providers accept no slash
)

// write returns the function that writes a tool's name in the form of the requested
// one.
func (f nameForm) write(requested string) func(*mcpvisor.Tool) string {
	if strings.HasPrefix(requested, toolname.AliasPrefix) {
		f = preferAliases
	} else if _, _, qualified := mcpvisor.SplitName(requested); qualified {
		f = preferNames
	}
	if f == preferAliases {
		return func(t *mcpvisor.Tool) string { return t.Alias }
	}
	return func(t *mcpvisor.Tool) string { return t.Name }
}

// similarTools returns listed tools whose names are similar to the requested one.
func similarTools(s *actors.Snapshot, requested string, form nameForm) []string {
	write := form.write(requested)
	if all := bareName(s, requested, write); all != nil { // only the server was left out
		return all
	}
	server, _, qualified := mcpvisor.SplitName(requested)
	bare := !qualified && !strings.HasPrefix(requested, toolname.AliasPrefix)
	if s.Server(server) == nil {
		server = ""
	}
	return nearest.AmongSpellings(requested, func(yield func(spelling, name string) bool) {
		for c := range s.Catalogs() {
			if server != "" && (len(c.Tools) == 0 || c.Tools[0].Server != server) {
				continue // the server is known, so the tool is misspelt
			}
			for i := range c.Tools {
				t := &c.Tools[i]
				name := write(t)
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

// maxSameName is how many tools of one bare name are suggested; more are counted.
const maxSameName = 10

// bareName returns the tools of all servers that call one so; nil if none does.
func bareName(s *actors.Snapshot, name string, write func(*mcpvisor.Tool) string) (all []string) {
	more := 0
	for c := range s.Catalogs() {
		t, found := c.Tool(name)
		switch {
		case !found:
		case len(all) < maxSameName:
			all = append(all, write(&t))
		default:
			more++
		}
	}
	if more > 0 {
		all = append(all, "or that of "+display.Count(more, "more server"))
	}
	return all
}
