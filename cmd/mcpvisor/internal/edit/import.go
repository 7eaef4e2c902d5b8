package edit

import (
	"os"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// Import is `mcpvisor import`.
type Import struct {
	targetFlags
	Write   bool     `help:"Write the file. Without it the command only shows what it would do."`
	Replace bool     `help:"Replace entries of the same name." xor:"clash"`
	Rename  bool     `help:"Add an entry whose name is taken as NAME-HOST." xor:"clash"`
	Hosts   []string `arg:"" optional:"" help:"Hosts to import from: ${hosts} (default: all)." complete:"host"`
}

// Run implements kong's command. It never writes the file of a host.
func (cmd *Import) Run(inv *cli.Invocation) error {
	e, err := hosts.Here()
	if err != nil {
		return cli.UsageError("the places of other hosts' files are not known; set HOME: %v", err)
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
		target, err = writePlan(inv, cmd.targetFlags, change, &plan)
	} else if target, err = openTarget(inv, cmd.targetFlags); err == nil {
		err = change(target)
	}
	if err != nil {
		return err
	}
	if inv.JSON {
		err = cli.PrintJSON(inv.Out, map[string]any{"file": target.Path(), "written": cmd.Write, "entries": listOf(plan.Items),
			"variables": listOf(plan.Variables), "unreadable": listOf(plan.Unreadable)})
	} else {
		err = printPlan(inv, plan, target.Path(), cmd.Write)
	}
	if cmd.Write {
		tellRun(inv)
	}
	if n := len(plan.Unreadable); err == nil && n > 0 {
		err = &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: display.Count(n, "file") + " of other hosts not read, as said above; correct what is wrong there, and import again"}}
	}
	return err
}

// writePlan writes the file if the plan changes it.
func writePlan(inv *cli.Invocation, flags targetFlags, change func(*configfile.File) error, plan **hosts.Plan) (*configfile.File, error) {
	target, err := openTarget(inv, flags)
	if err != nil {
		return nil, err
	}
	if err := change(target); err != nil {
		return nil, err
	}
	if (*plan).Count(hosts.ActionAdd)+(*plan).Count(hosts.ActionReplace) == 0 {
		return target, nil
	}
	return editTarget(inv, flags, change)
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
		if _, err := findHost(id); err != nil {
			return nil, err
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
		return nil, cli.UsageError("no file of these hosts was found; these do not exist: %s", strings.Join(looked, ", "))
	}
	return sources, nil
}

func findHost(id string) (hosts.Host, error) {
	host, known := hosts.ByID(id)
	if known {
		return host, nil
	}
	hint := "name one of: " + strings.Join(Hosts(), ", ")
	if near := nearest.Names(id, Hosts()); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return hosts.Host{}, cli.UsageError("there is no host %q; %s", id, hint)
}

// Hosts returns the names of the hosts that Import knows.
func Hosts() (ids []string) {
	for _, h := range hosts.All() {
		ids = append(ids, h.ID)
	}
	return ids
}
