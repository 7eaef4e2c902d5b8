package edit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
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
	target, err := editTarget(inv, cmd.targetFlags, func(f *configfile.File) (err error) {
		plan, err = hosts.NewPlan(f, sources, e, clash, os.LookupEnv)
		if err == nil && (!cmd.Write || plan.Count(hosts.ActionAdd)+plan.Count(hosts.ActionReplace) == 0) {
			err = errNotWritten
		}
		return err
	})
	if err != nil {
		return err
	}
	answer := map[string]any{"file": target.Path(), "written": cmd.Write, "entries": listOf(plan.Items), "variables": listOf(plan.Variables), "unreadable": listOf(plan.Unreadable)}
	err = inv.Answer(answer, func() error { return printPlan(inv, plan, target.Path(), cmd.Write) })
	if cmd.Write {
		tellRun(inv)
	}
	if n := len(plan.Unreadable); err == nil && n > 0 {
		err = &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: display.Count(n, "file") + " of other hosts not read, as said above; correct what is wrong there, and import again"}}
	}
	return err
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
	return hosts.Host{}, cli.UsageError("there is no host %q; %s", id, cli.NameOneOf(id, Hosts()))
}

// Hosts returns the names of the hosts that Import knows.
func Hosts() (ids []string) {
	for _, h := range hosts.All() {
		ids = append(ids, h.ID)
	}
	return ids
}

var marks = map[hosts.Action]string{hosts.ActionAdd: "+", hosts.ActionSame: "=", hosts.ActionReplace: "~", hosts.ActionClash: "!", hosts.ActionRefuse: "!"}

// printPlan prints what an import does, by the files of the hosts.
func printPlan(inv *cli.Invocation, plan *hosts.Plan, path string, written bool) error {
	var b strings.Builder
	last := ""
	for _, i := range plan.Items {
		if source := i.Host + "  " + i.Path; source != last {
			fmt.Fprintln(&b, source)
			last = source
		}
		fmt.Fprintf(&b, "  %s %s  %s\n", marks[i.Action], i.Name, table.OneLine(describeItem(i, path), table.MaxText))
		for _, note := range i.Notes {
			fmt.Fprintf(&b, "      %s\n", table.OneLine(cli.ConfigTerms(note), table.MaxText))
		}
	}
	for _, text := range plan.Unreadable {
		fmt.Fprintf(&b, "not read: %s\n", text)
	}
	printVariables(&b, plan.Variables)
	changed := plan.Count(hosts.ActionAdd) + plan.Count(hosts.ActionReplace)
	switch {
	case changed == 0:
		fmt.Fprintf(&b, "Nothing to import: %s stays as it is.\n", path)
	case written:
		fmt.Fprintf(&b, "%s written with %s of other hosts; their files stay as they are.\n", path, display.Count(changed, "server"))
	default:
		fmt.Fprintf(&b, "Nothing was written. With --write, %s gets %s.\n", path, display.Count(changed, "server"))
	}
	if changed > 0 {
		b.WriteString("Look through the rest: a secret that looks like an ordinary text is imported as it is.\n")
	}
	_, err := inv.Out.Write([]byte(display.Text(b.String())))
	return err
}

func describeItem(i hosts.Item, path string) string {
	from := ""
	if i.Line > 0 {
		from = fmt.Sprintf(" (line %d)", i.Line)
	}
	switch i.Action {
	case hosts.ActionSame:
		return "is the same in " + i.Reason
	case hosts.ActionReplace:
		return i.Target + from + ", replaces " + i.Reason
	case hosts.ActionClash:
		return "differs from " + i.Reason + from + ", which stays; --rename adds this one, too, --replace takes it instead of one in " + path
	case hosts.ActionRefuse:
		return "cannot be imported" + from + ": " + cli.ConfigTerms(i.Reason)
	default:
	}
	return i.Target + from
}

func printVariables(b *strings.Builder, variables []*hosts.Variable) {
	if len(variables) == 0 {
		return
	}
	b.WriteString("What looks like a secret stays where it is. Set these variables, which stand for it or are named by an entry, before the servers start, each to the whole value unless a part is named:\n")
	width := 0
	for _, v := range variables {
		width = max(width, len(v.Name))
	}
	for _, v := range variables {
		state := map[bool]string{true: "set"}[v.Set]
		if v.Differs {
			state = "set to another value"
		}
		fmt.Fprintf(b, "  %-*s  %s: %s\n", width, v.Name, cmp.Or(state, "not set"), strings.Join(v.For, "; "))
	}
}

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
