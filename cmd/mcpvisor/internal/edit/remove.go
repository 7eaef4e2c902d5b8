package edit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
)

// Remove is `mcpvisor remove`.
type Remove struct {
	targetFlags
	Name string `arg:"" help:"Name of the entry, or of its server." complete:"entry"`
}

// entryName returns the entry of a server. Both have the same name, unless that of the entry
// cannot name a server.
func entryName(f *configfile.File, server string) string {
	if _, _, ok := f.Entry(server); ok {
		return server
	}
	entries := configfile.Object{}
	for _, name := range f.Names() {
		entries.Set(name, commandEntry([]string{"x"}))
	}
	text, err := json.Marshal(configfile.Object{{Key: "mcpServers", Value: entries}})
	if err != nil {
		return server
	}
	if file, err := config.Parse(text, f.Path()); err == nil {
		for _, s := range file.Servers {
			if s.Spec.Name == server {
				return s.Entry
			}
		}
	}
	return server
}

func (cmd *Remove) Run(inv *cli.Invocation) error {
	from := ""
	f, err := editTarget(inv, cmd.targetFlags, func(f *configfile.File) error {
		if !f.Exists() {
			return cli.UsageError("config %s does not exist, so there is nothing to remove; name the file with --config", f.Path())
		}
		name := entryName(f, cmd.Name)
		from = place(f, name)
		if !f.Remove(name) {
			hint := "it has none"
			if names := f.Names(); len(names) > 0 {
				hint = "it has: " + strings.Join(names, ", ")
			}
			return cli.UsageError("config %s has no entry %q (%s); mcpvisor config shows which file has it", f.Path(), cmd.Name, hint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer tellRun(inv)
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"name": cmd.Name, "file": f.Path()})
	}
	_, err = fmt.Fprintf(inv.Out, "%s removed from %s\n", cmd.Name, table.OneLine(from, table.MaxText))
	return err
}
