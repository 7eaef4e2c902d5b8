package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

type initCmd struct {
	targetFlags
}

// Run implements kong's command. It never replaces a file.
func (cmd *initCmd) Run(inv *invocation) error {
	path, err := inv.sources.target(cmd.targetFlags)
	if err != nil {
		return err
	}
	switch err := configfile.Create(path, []byte(configfile.Starter())); {
	case errors.Is(err, fs.ErrExist):
		return usageError("config %s exists already, and nothing was changed; mcpvisor add adds a server to it", path)
	case err != nil:
		return &exitError{exitFailed, errorReport{Kind: kindFailed, Message: fmt.Sprintf("%s was not written: %v", path, err)}}
	}
	found := inv.hostFiles(path)
	if inv.json {
		return printJSON(inv.out, map[string]any{"file": path, "hosts": found})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s made\n", path)
	for _, f := range found {
		fmt.Fprintf(&b, "found %s of %s: %s\n", display.Count(f.Servers, "server"), f.Name, f.Path)
	}
	b.WriteString("next: mcpvisor add filesystem ~/notes, or another server (mcpvisor add --list)\n")
	if len(found) > 0 {
		b.WriteString("      mcpvisor import shows what it would take over from these files\n")
	}
	_, err = inv.out.Write([]byte(display.Text(b.String())))
	return err
}

// hostFile is a file of another host that has servers.
type hostFile struct {
	Host    string `json:"host"`
	Name    string `json:"name"`
	Path    string `json:"path"`
	Servers int    `json:"servers"`
}

// hostFiles returns the files of other hosts from which something could be imported.
func (inv *invocation) hostFiles(target string) []hostFile {
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

type importCmd struct {
	targetFlags
	Write   bool     `help:"Write the file. Without it the command only shows what it would do."`
	Replace bool     `help:"Replace entries of the same name." xor:"clash"`
	Rename  bool     `help:"Add an entry whose name is taken as NAME-HOST." xor:"clash"`
	Hosts   []string `arg:"" optional:"" help:"Hosts to import from: ${hosts} (default: all)." complete:"host"`
}

// Run implements kong's command. It never writes the file of a host.
func (cmd *importCmd) Run(inv *invocation) error {
	e, err := hosts.Here()
	if err != nil {
		return usageError("the places of other hosts' files are not known; set HOME: %v", err)
	}
	sources, err := findSources(cmd.Hosts, e)
	if err != nil {
		return err
	}
	clash := hosts.Keep
	switch {
	case cmd.Replace:
		clash = hosts.Replace
	case cmd.Rename:
		clash = hosts.Rename
	}
	var plan *hosts.Plan
	change := func(f *configfile.File) (err error) {
		plan, err = hosts.NewPlan(f, sources, e, clash, os.LookupEnv)
		return err
	}
	var target *configfile.File
	if cmd.Write {
		target, err = inv.writePlan(cmd.targetFlags, change, &plan)
	} else if target, err = inv.openTarget(cmd.targetFlags); err == nil {
		err = change(target)
	}
	if err != nil {
		return err
	}
	if inv.json {
		err = printJSON(inv.out, map[string]any{"file": target.Path(), "written": cmd.Write, "entries": listOf(plan.Items),
			"variables": listOf(plan.Variables), "unreadable": listOf(plan.Unreadable)})
	} else {
		err = inv.printPlan(plan, target.Path(), cmd.Write)
	}
	if n := len(plan.Unreadable); err == nil && n > 0 {
		err = &exitError{exitFailed, errorReport{Kind: kindFailed, Message: display.Count(n, "file") + " of other hosts not read, as said above; correct what is wrong there, and import again"}}
	}
	return err
}

// writePlan writes the file if the plan changes it.
func (inv *invocation) writePlan(flags targetFlags, change func(*configfile.File) error, plan **hosts.Plan) (*configfile.File, error) {
	target, err := inv.openTarget(flags)
	if err != nil {
		return nil, err
	}
	if err := change(target); err != nil {
		return nil, err
	}
	if (*plan).Count(hosts.ActionAdd)+(*plan).Count(hosts.ActionReplace) == 0 {
		return target, nil
	}
	return inv.editTarget(flags, change)
}

// listOf returns an empty list for none, because null is no list in JSON.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// findSources returns the files of the named hosts, or of all without names.
func findSources(ids []string, e hosts.Environment) (sources []hosts.Source, err error) {
	var looked []string
	for _, id := range ids {
		if _, known := hosts.ByID(id); !known {
			hint := "name one of: " + strings.Join(hostIDs(), ", ")
			if near := nearest.Names(id, hostIDs()); len(near) > 0 {
				hint = "did you mean " + near[0] + "?"
			}
			return nil, usageError("there is no host %q; %s", id, hint)
		}
	}
	for _, h := range hosts.All() {
		if len(ids) > 0 && !slices.Contains(ids, h.ID) {
			continue
		}
		sources = append(sources, h.Find(e)...)
		looked = append(looked, h.Paths(e)...)
	}
	if len(sources) == 0 {
		return nil, usageError("no file of these hosts was found; these do not exist: %s", strings.Join(looked, ", "))
	}
	return sources, nil
}

func hostIDs() (ids []string) {
	for _, h := range hosts.All() {
		ids = append(ids, h.ID)
	}
	return ids
}
