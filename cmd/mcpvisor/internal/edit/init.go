package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Init is `mcpvisor init`.
type Init struct {
	targetFlags
}

// Run implements kong's command. It never replaces a file.
func (cmd *Init) Run(inv *cli.Invocation) error {
	path, err := target(inv.Sources, cmd.User)
	if err != nil {
		return err
	}
	switch err := configfile.Create(path, []byte(configfile.Starter())); {
	case errors.Is(err, fs.ErrExist):
		return cli.UsageError("config %s exists already, and nothing was changed; mcpvisor add adds a server to it", path)
	case err != nil:
		return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("%s was not written: %v", path, err)}}
	}
	found := hostFiles(path)
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"file": path, "hosts": found})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s made\n", path)
	for _, f := range found {
		fmt.Fprintf(&b, "found %s of %s: %s\n", display.Count(f.Servers, "server"), f.Name, f.Path)
	}
	b.WriteString("next: mcpvisor add filesystem ~/notes, or another server (mcpvisor add --list)\n")
	if len(found) > 0 {
		b.WriteString("      mcpvisor import shows what it would import from these files\n")
	}
	_, err = inv.Out.Write([]byte(display.Text(b.String())))
	return err
}

type hostFile struct {
	Host    string `json:"host"`
	Name    string `json:"name"`
	Path    string `json:"path"`
	Servers int    `json:"servers"`
}

// hostFiles returns the files of other hosts from which something could be imported.
func hostFiles(target string) []hostFile {
	found := []hostFile{}
	e, err := hosts.Here()
	if err != nil {
		return found
	}
	for _, h := range hosts.All() {
		for _, s := range h.Find(e) {
			f, err := configfile.Open(target)
			if err != nil {
				continue
			}
			plan, err := hosts.NewPlan(f, []hosts.Source{s}, e, hosts.Keep, os.LookupEnv)
			if err != nil {
				continue
			}
			if n := plan.Count(hosts.ActionAdd) + plan.Count(hosts.ActionSame); n > 0 {
				found = append(found, hostFile{h.ID, h.Name, s.Path, n})
			}
		}
	}
	return found
}
