package main

import (
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

type schemaCmd struct{}

func (schemaCmd) Run(inv *invocation) error {
	_, err := inv.Out.Write(configkeys.Schema())
	return err
}

type configCmd struct{}

type configEntry struct {
	Name string `json:"name"`
	// Entry is the name of the entry in the file, if it is another one.
	Entry    string   `json:"entry,omitempty"`
	Target   string   `json:"target,omitempty"`
	Origin   string   `json:"origin"`
	Replaces []string `json:"replaces,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
	// Unusable says why the entry cannot be used.
	Unusable string `json:"unusable,omitempty"`
}

// Run implements kong's command. It starts nothing.
func (configCmd) Run(inv *invocation) error {
	file, err := inv.LoadConfig()
	if err != nil {
		return err
	}
	entries := []configEntry{}
	add := func(s config.Server, unusable string) {
		e := configEntry{Name: s.Spec.Name, Target: s.Spec.Target(), Origin: s.Spec.Origin, Replaces: s.Replaces, Disabled: s.Disabled, Unusable: unusable}
		if s.Entry != s.Spec.Name {
			e.Entry = s.Entry
		}
		if s.Disabled || unusable != "" {
			e.Target = configfile.Target(s.Path, s.Entry)
		}
		entries = append(entries, e)
	}
	for _, s := range file.Servers {
		add(s, "")
	}
	for i, u := range servers.Unusable(file) {
		add(file.Unusable[i], u.Reason)
	}
	answer := map[string]any{"files": file.Paths, "entries": entries, "problems": append([]config.Problem{}, file.Problems...)}
	if err := inv.Answer(answer, func() error { return inv.printConfig(file, entries) }); err != nil {
		return err
	}
	for _, p := range file.Problems {
		if p.Severity == config.SeverityError {
			return &cli.ExitError{Code: cli.ExitUsage}
		}
	}
	return nil
}

func (inv *invocation) printConfig(file *config.File, entries []configEntry) error {
	for _, path := range file.Paths {
		if _, err := fmt.Fprintln(inv.Out, "file", table.OneLine(path, table.MaxText)); err != nil {
			return err
		}
	}
	var rows [][]any
	for _, e := range entries {
		var notes []string
		if e.Disabled {
			notes = append(notes, "disabled")
		}
		if e.Unusable != "" {
			notes = append(notes, "not usable, see below")
		}
		if e.Entry != "" {
			notes = append(notes, fmt.Sprintf("entry %q", e.Entry))
		}
		if len(e.Replaces) > 0 {
			notes = append(notes, "replaces "+strings.Join(e.Replaces, ", "))
		}
		rows = append(rows, []any{e.Name, e.Target, e.Origin, strings.Join(notes, "; ")})
	}
	if err := inv.Table("SERVER\tTARGET\tORIGIN\tNOTE", rows); err != nil {
		return err
	}
	for _, p := range file.Problems {
		inv.Warn(p.Server, "%s", p)
	}
	return nil
}
