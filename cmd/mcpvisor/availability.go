package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/records"
)

type availabilityCmd struct {
	recordsDir
	Since   string   `help:"From then on: a duration such as 24h or 7d, or a time such as 2026-11-28." default:"24h" placeholder:"WHEN"`
	Servers []string `arg:"" optional:"" help:"Only these servers." name:"servers" complete:"server"`
}

// Run implements kong's command.
func (cmd *availabilityCmd) Run(inv *invocation) error {
	dir, missing, err := cmd.find(inv)
	if err == nil && dir == "" {
		err = missing
	}
	if err != nil {
		return err
	}
	now := time.Now()
	since, err := parseSince(cmd.Since, now)
	if err != nil {
		return err
	}
	var until time.Time // what ran when mcpvisor run ended without a record of it ended, too
	if running, info, err := attach.Find(inv.Context, inv.Sources.Key); err == nil {
		running.Close()
		if own, err := filepath.Abs(dir); err == nil && own == info.Records {
			until = now
		}
	}
	all, first, err := records.ReadAvailability(dir, since, until)
	if errors.Is(err, os.ErrNotExist) {
		return cli.UsageError("there are no records in %s; mcpvisor run --records %s makes them", dir, plaintext.ShellWord(dir))
	}
	if err != nil {
		return err
	}
	if !first.IsZero() {
		inv.Warn("", "the records begin at %s; what was before is deleted", shownTime(first))
	}
	if len(cmd.Servers) > 0 {
		all = slices.DeleteFunc(all, func(a records.Availability) bool { return !slices.Contains(cmd.Servers, a.Server) })
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"since": since, "servers": all})
	}
	if len(all) == 0 {
		inv.Note("no server ran since %s", shownTime(since))
		return nil
	}
	var rows [][]any
	for _, a := range all {
		share, _ := a.Share()
		last := "-"
		if !a.LastEnd.IsZero() {
			last = shownTime(a.LastEnd) + " " + a.LastCause
		}
		rows = append(rows, []any{a.Server, fmt.Sprintf("%.2f%%", 100*share), plaintext.Duration(a.Ready), plaintext.Duration(a.Down), a.Ends, a.Restarts, last})
	}
	return inv.Table("SERVER\tREADY\tFOR\tDOWN\tENDS\tRESTARTS\tLAST END", rows)
}
