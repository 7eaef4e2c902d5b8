package main

import (
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// stateNotConfigured is the state of an entry of the file that no server was made of.
const stateNotConfigured supervisor.State = "not configured"

type statusCmd struct{}

// Run implements kong's command.
func (statusCmd) Run(inv *invocation) error {
	file, err := inv.loadConfig()
	if err != nil {
		return err
	}
	all := unusableEntries(file)
	ready := len(all) == 0
	if specs := file.Specs(); len(specs) > 0 || ready {
		c, stop, err := inv.startServers(file, specs)
		if err != nil {
			return err
		}
		defer stop()
		if err := inv.awaitStarts(c); err != nil {
			return err
		}
		for _, s := range c.Status() {
			e := statusEntry{ServerStatus: s}
			if s.State != supervisor.StateReady {
				ready, e.Reason = false, reason(s)
			}
			all = append(all, e)
		}
		slices.SortStableFunc(all, func(a, b statusEntry) int { return strings.Compare(a.Name, b.Name) })
	}
	if inv.json {
		list := make([]any, 0, len(all))
		for _, e := range all {
			list = append(list, e.shown())
		}
		err = printJSON(inv.out, map[string]any{"servers": list})
	} else {
		err = inv.statusTable(all)
	}
	if err == nil && !ready {
		err = &exitError{code: exitUnavailable}
	}
	return err
}

// statusEntry is one server, or one entry of the file that could not be used.
type statusEntry struct {
	mcpvisor.ServerStatus
	// Reason says why it is not ready, in one line.
	Reason string `json:"reason,omitempty"`
}

// shown is the entry as --json shows it.
func (e *statusEntry) shown() any {
	if e.State != stateNotConfigured {
		return e
	}
	return struct {
		Name   string           `json:"name"`
		State  supervisor.State `json:"state"`
		Reason string           `json:"reason"`
	}{e.Name, e.State, e.Reason}
}

// unusableEntries are the entries of a file that no server was made of.
func unusableEntries(file *config.File) (all []statusEntry) {
	for _, p := range file.Problems {
		if p.Severity != config.SeverityError || p.Server == "" {
			continue
		}
		if _, found := file.Find(p.Server); found {
			continue
		}
		i := slices.IndexFunc(all, func(e statusEntry) bool { return e.Name == p.Server })
		if i < 0 {
			i = len(all)
			e := statusEntry{}
			e.Name, e.State, e.Transport = p.Server, stateNotConfigured, "-"
			all = append(all, e)
		} else {
			all[i].Reason += "; "
		}
		all[i].Reason += configTerms(p.Message)
	}
	return all
}

func (inv *invocation) statusTable(all []statusEntry) error {
	rows := make([][]any, 0, len(all))
	for _, s := range all {
		protocol, note := "-", s.Reason
		if s.Session != nil && s.Session.ProtocolVersion != "" {
			protocol = s.Session.ProtocolVersion
		}
		switch n := len(s.Catalog.Warnings); {
		case note != "":
		case s.Session != nil && s.Session.Deprecated != "":
			note = "deprecated transport HTTP+SSE; see --json"
		case n > 0:
			note = display.Count(n, "warning") + "; see --json"
		}
		rows = append(rows, []any{s.Name, s.State, s.Transport, protocol, s.Catalog.Tools,
			s.Catalog.Resources + s.Catalog.Templates, s.Catalog.Prompts, note})
	}
	return inv.table("SERVER\tSTATE\tTRANSPORT\tPROTOCOL\tTOOLS\tRESOURCES\tPROMPTS\tNOTE", rows)
}
