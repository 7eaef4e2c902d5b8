package edit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
)

// Install is `mcpvisor install`.
type Install struct {
	Write   bool   `help:"Change the file of the host, and keep it as it was beside it. Without it the command only shows the entry."`
	Project bool   `help:"Use the file of the project in this directory instead of that of the user."`
	Replace bool   `help:"Replace an entry of the same name."`
	Name    string `help:"Name of the entry." default:"mcpvisor" placeholder:"NAME"`
	Profile string `help:"Offer the host what this profile of the configuration offers (default: everything)." placeholder:"NAME"`
	Host    string `arg:"" help:"Host that is to start mcpvisor: ${hosts}." complete:"host"`
}

// Help is the end of `mcpvisor install --help`.
func (*Install) Help() string {
	return `The host then starts "mcpvisor stdio", and has all servers of the configuration as one. Hosts that are installed with the same files share one mcpvisor run. mcpvisor import adds the servers that the host has had so far; then remove them there, or the host starts them, too.`
}

func (cmd *Install) Run(inv *cli.Invocation) error {
	host, err := findHost(cmd.Host)
	if err != nil {
		return err
	}
	if err := mcpvisor.CheckServerName(cmd.Name); err != nil {
		return cli.UsageError("--name: %v", err)
	}
	e, err := hosts.Here()
	if err != nil {
		return cli.UsageError("the places of other hosts' files are not known; set HOME: %v", err)
	}
	command, err := stdioCommand(inv.Sources)
	if err != nil {
		return err
	}
	if cmd.Profile != "" {
		command = append(command, "--profile", cmd.Profile)
	}
	plan, err := host.PlanInstall(e, cmd.Name, command, cmd.Project)
	switch {
	case errors.Is(err, hosts.ErrOtherEntry) && !cmd.Replace:
		return cli.UsageError("%v; --replace it, or choose another --name", err)
	case errors.Is(err, hosts.ErrOtherEntry) && host.ID == "codex" && cmd.Write:
		return cli.UsageError("%v, and mcpvisor does not change tables of TOML; remove it by hand first", err)
	case err != nil && !errors.Is(err, hosts.ErrOtherEntry):
		return cli.UsageError("%v", err)
	}
	if slices.ContainsFunc(inv.Sources.Paths, func(path string) bool { return isSame(path, plan.Path) }) {
		return cli.UsageError("%s is the configuration of mcpvisor itself, which would start itself; leave out --project, or name another configuration with --config", plan.Path)
	}
	backup := false
	if cmd.Write && !plan.Present {
		if backup, err = plan.Write(); err != nil {
			return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: err.Error()}}
		}
	}
	return cmd.report(inv, plan, backup)
}

func (cmd *Install) report(inv *cli.Invocation, plan *hosts.Installation, backup bool) (err error) {
	written := cmd.Write && !plan.Present
	if inv.JSON {
		answer := map[string]any{"host": plan.Host.ID, "file": plan.Path, "name": cmd.Name, "text": plan.Text, "present": plan.Present, "written": written}
		if backup {
			answer["backup"] = plan.BackupPath()
		}
		return cli.PrintJSON(inv.Out, answer)
	}
	switch {
	case plan.Present:
		_, err = fmt.Fprintf(inv.Out, "%s has this entry in %s already.\n", plan.Host.Name, plan.Path)
	case !written:
		_, err = fmt.Fprintf(inv.Out, "%s\n", plan.Text)
		if err == nil {
			inv.Note("this belongs into %s; with --write it is added there", plan.Path)
		}
	default:
		_, err = fmt.Fprintf(inv.Out, "%s added to %s\n", cmd.Name, plan.Path)
		if err == nil && backup {
			_, err = fmt.Fprintf(inv.Out, "the file as it was: %s\n", plan.BackupPath())
		}
		if err == nil {
			inv.Note("next: start %s again", plan.Host.Name)
		}
	}
	return err
}

// stdioCommand is the command by which a host starts this program, wherever the host runs.
func stdioCommand(s cli.Sources) ([]string, error) {
	programs, err := cli.Programs()
	if err != nil {
		return nil, err
	}
	command := programs[:1:1]
	for _, path := range programs { // a path that an upgrade keeps
		if isSame(path, programs[0]) {
			command = []string{path}
		}
	}
	for _, path := range s.Paths {
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		command = append(command, "--config", whole)
	}
	return append(command, "stdio"), nil
}

// isSame reports whether two paths are those of one file, which need not exist.
func isSame(a, b string) bool {
	if whole, err := filepath.Abs(a); err == nil && whole == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}
