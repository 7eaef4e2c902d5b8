package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// These are states of entries beside those of servers.
const (
	stateNotConfigured supervisor.State = "not configured" // it is not a usable server
	stateNotStarted    supervisor.State = "not started"    // the command was interrupted before
)

type statusCmd struct{}

// Run implements kong's command. An interrupted command prints the states so far, and
// fails.
func (statusCmd) Run(inv *invocation) error {
	file, err := inv.loadConfig()
	if err != nil {
		return err
	}
	all := unusableEntries(file)
	var failure error
	if len(all) > 0 {
		failure = &exitError{code: exitUnavailable}
	}
	if specs := file.Specs(); len(specs) > 0 || len(all) == 0 {
		servers, err := inv.serverEntries(file, specs)
		for _, e := range servers {
			if e.State != supervisor.StateReady {
				failure = &exitError{code: exitUnavailable}
			}
		}
		switch {
		case errors.Is(err, errInterrupted):
			failure = err
		case err != nil:
			return err
		}
		all = append(all, servers...)
		slices.SortStableFunc(all, func(a, b statusEntry) int { return strings.Compare(a.Name, b.Name) })
	}
	if err := inv.printStatus(all); err != nil {
		return err
	}
	return failure
}

// serverEntries starts servers, waits for them, and stops them. The entries are the
// states before the stop, also beside an errInterrupted.
func (inv *invocation) serverEntries(file *config.File, specs []mcpvisor.ServerSpec) (all []statusEntry, err error) {
	c, stop, err := inv.startServers(file, specs)
	switch {
	case errors.Is(err, errInterrupted):
		for _, spec := range specs {
			e := statusEntry{Reason: "interrupted before it was started"}
			e.Name, e.State, e.Transport = spec.Name, stateNotStarted, spec.TransportKind()
			all = append(all, e)
		}
		return all, err
	case err != nil:
		return nil, err
	}
	defer stop()
	err = inv.awaitStarts(c)
	return inv.entriesOf(file, c), err
}

// entriesOf returns the current states of the servers.
func (inv *invocation) entriesOf(file *config.File, c *configuredClient) (all []statusEntry) {
	for _, s := range c.Status() {
		e := statusEntry{ServerStatus: s}
		if entry := file.EntryName(s.Name); entry != s.Name {
			e.Entry = entry
		}
		if s.State != supervisor.StateReady {
			e.Reason = inv.reason(s)
		}
		all = append(all, e)
	}
	return all
}

// statusEntry is one server, or one entry of the file that is not a usable server.
type statusEntry struct {
	mcpvisor.ServerStatus
	// Entry is the name in the file, if the server's name is derived from it.
	Entry string `json:"entry,omitempty"`
	// Reason says why the server is not ready, in one line.
	Reason string `json:"reason,omitempty"`
}

// forJSON returns the entry as --json shows it.
func (e *statusEntry) forJSON() any {
	if e.State != stateNotConfigured && e.State != stateNotStarted {
		return e
	}
	return struct {
		Name   string           `json:"name"`
		State  supervisor.State `json:"state"`
		Reason string           `json:"reason"`
	}{e.Name, e.State, e.Reason}
}

// unusableEntries returns the entries of a file that are not usable servers.
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

func (inv *invocation) printStatus(all []statusEntry) error {
	if inv.json {
		list := make([]any, 0, len(all))
		for _, e := range all {
			list = append(list, e.forJSON())
		}
		return printJSON(inv.out, map[string]any{"servers": list})
	}
	rows := make([][]any, 0, len(all))
	for _, s := range all {
		protocol := "-"
		if s.Session != nil && s.Session.ProtocolVersion != "" {
			protocol = s.Session.ProtocolVersion
		}
		rows = append(rows, []any{s.Name, s.State, s.Transport, protocol, s.Catalog.Tools,
			s.Catalog.Resources + s.Catalog.Templates, s.Catalog.Prompts, s.note()})
	}
	return inv.table("SERVER\tSTATE\tTRANSPORT\tPROTOCOL\tTOOLS\tRESOURCES\tPROMPTS\tNOTE", rows)
}

// note is the last cell of the entry's row: the most important thing about it.
func (e *statusEntry) note() string {
	switch n := len(e.Catalog.Warnings); {
	case e.Reason != "":
		return e.Reason
	case e.Session != nil && e.Session.Deprecated != "":
		return "deprecated transport HTTP+SSE; see --json"
	case n > 0:
		return display.Count(n, "warning") + "; see --json"
	case e.Entry != "":
		return fmt.Sprintf("entry %q of the file", e.Entry)
	}
	return ""
}
