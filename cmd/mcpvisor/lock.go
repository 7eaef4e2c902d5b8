package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/lock"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type lockCmd struct {
	Make    lockMakeCmd    `cmd:"" default:"1" help:"Start a copy of each server, and add those to mcpvisor.lock that it does not have. Nothing that differs is changed: look at it with mcpvisor lock diff."`
	Diff    lockDiffCmd    `cmd:"" help:"Start a copy of each server, and show in what it differs from mcpvisor.lock. Ends with 1 if any does."`
	Approve lockApproveCmd `cmd:"" help:"Start a copy of each named server, show in what it differs from mcpvisor.lock, and write what it offers there."`
}

type lockMakeCmd struct{}

type lockDiffCmd struct {
	Servers []string `arg:"" optional:"" help:"Names of the servers; all without names." complete:"server" placeholder:"NAME"`
}

type lockApproveCmd struct {
	Servers []string `arg:"" help:"Names of the servers." complete:"server" placeholder:"NAME"`
	Expect  string   `help:"Approve only what has this digest, as mcpvisor lock diff printed it: what was looked at, and nothing later." placeholder:"DIGEST"`
}

// offers are what the servers of a configuration offer now, beside its lock file.
type offers struct {
	path   string
	text   []byte // of the lock file; nil: it does not exist
	locked *lock.File
	found  map[string]*lock.Server
	config *config.File
	failed error // the last server that did not become ready
}

// lookAt starts copies of servers, and returns what they offer. It warns of those that did not become ready.
func (inv *invocation) lookAt(names []string) (*offers, error) {
	file, err := inv.LoadConfig(names...)
	if err != nil {
		return nil, err
	}
	specs, err := servers.SelectSpecs(file, names)
	if err != nil {
		return nil, err
	}
	o := &offers{path: servers.LockPath(file), locked: &lock.File{}, found: map[string]*lock.Server{}, config: file}
	locked, text, err := servers.ReadLock(o.path)
	switch {
	case err == nil:
		o.locked, o.text = locked, text
	case !errors.Is(err, fs.ErrNotExist):
		return nil, cli.UsageError("%v", err)
	}
	if o.locked.Servers == nil {
		o.locked.Servers = map[string]*lock.Server{}
	}
	if running := inv.BesideRun("lock starts copies of its servers, because it must see what they offer themselves"); running != nil {
		running.Stop()
	}
	recorder := new(lock.Recorder)
	inv.Guard = recorder
	c, stop, err := inv.StartServers(file, specs)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := inv.AwaitStarts(c); err != nil {
		return nil, err
	}
	starts := servers.StartsOf(file)
	for _, s := range c.Status() {
		offered, known := recorder.Server(s.Name)
		if s.State != supervisor.StateReady || !known {
			o.failed = cli.UnavailableError(s, "server %s could not be looked at: %s", s.Name, inv.Reason(s))
			inv.Warn(s.Name, "%v", o.failed)
			continue
		}
		offered.Start = starts[s.Name]
		o.found[s.Name] = offered
	}
	for _, spec := range specs {
		if _, started := c.Specs[spec.Name]; !started { // a warning has said why
			o.failed = cli.UsageError("server %s is exclusive, and mcpvisor run has it, so it could not be looked at; end mcpvisor run for that", spec.Name)
		}
	}
	return o, nil
}

// names are those of the servers that were looked at.
func (o *offers) names() []string { return (&lock.File{Servers: o.found}).Names() }

// difference is what a server offers beside what was approved.
type difference struct {
	Server string `json:"server"`
	// Digest is that of what the server offers now.
	Digest      string            `json:"digest"`
	Locked      bool              `json:"locked"` // the lock file has the server
	Differences []lock.Difference `json:"differences"`
}

func (o *offers) differences(names []string) (all []difference) {
	for _, name := range names {
		locked := o.locked.Servers[name]
		d := difference{name, o.found[name].Digest(), locked != nil, lock.Compare(locked, o.found[name])}
		if len(d.Differences) > 0 || locked == nil {
			all = append(all, d)
		}
	}
	return all
}

// write replaces the lock file, unless another program has changed it since it was read.
func (o *offers) write() error {
	text, err := o.locked.Encode()
	if err != nil {
		return err
	}
	if err := configfile.ReplaceUnchanged(o.path, o.text, text); err != nil {
		return fmt.Errorf("%s was not written: %w", o.path, err)
	}
	return nil
}

func (lockMakeCmd) Run(inv *invocation) error {
	o, err := inv.lookAt(nil)
	if err != nil {
		return err
	}
	var added, removed, differ []string
	for _, name := range o.names() {
		switch locked := o.locked.Servers[name]; {
		case locked == nil:
			added = append(added, name)
			o.locked.Servers[name] = o.found[name]
		case len(lock.Compare(locked, o.found[name])) > 0:
			differ = append(differ, name)
		}
	}
	for _, name := range o.locked.Names() {
		if _, configured := o.config.Find(name); !configured && !slices.ContainsFunc(o.config.Unusable, func(s config.Server) bool { return s.Spec.Name == name }) {
			removed = append(removed, name)
			delete(o.locked.Servers, name)
		}
	}
	if len(added)+len(removed) > 0 {
		if err := o.write(); err != nil {
			return err
		}
	}
	for _, change := range []struct {
		what  string
		names []string
	}{{"added", added}, {"removed, because the configuration has no such server", removed}, {"differ, and were left as they are; see mcpvisor lock diff", differ}} {
		if len(change.names) > 0 {
			inv.Note("%s: %s %s", o.path, strings.Join(change.names, ", "), change.what)
		}
	}
	switch {
	case o.failed != nil:
		return o.failed
	case len(differ) > 0:
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return inv.printMessage("%s has what %s may offer; \"lock\": \"enforce\" in the configuration withholds everything else", o.path, display.Count(len(o.locked.Servers), "server"))
}

func (cmd *lockDiffCmd) Run(inv *invocation) error {
	o, err := inv.lookAt(cmd.Servers)
	if err != nil {
		return err
	}
	all := o.differences(o.names())
	if err := inv.printDifferences(all); err != nil {
		return err
	}
	switch {
	case o.failed != nil:
		return o.failed
	case len(all) > 0:
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

func (inv *invocation) printDifferences(all []difference) error {
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"differences": append([]difference{}, all...)})
	}
	for _, d := range all {
		state := "differs from the lock file"
		if !d.Locked {
			state = "is not in the lock file"
		}
		if _, err := fmt.Fprintf(inv.Out, "%s %s; it offers %s\n", d.Server, state, d.Digest); err != nil {
			return err
		}
		for _, entry := range d.Differences {
			if _, err := fmt.Fprintf(inv.Out, "  %s\n", strings.ReplaceAll(entry.String(), "\n", "\n  ")); err != nil {
				return err
			}
		}
	}
	return nil
}

func (cmd *lockApproveCmd) Run(inv *invocation) error {
	if cmd.Expect != "" && len(cmd.Servers) != 1 {
		return cli.UsageError("--expect is the digest of one server; name one")
	}
	o, err := inv.lookAt(cmd.Servers)
	if err != nil {
		return err
	}
	if o.failed != nil { // all or nothing
		return o.failed
	}
	names := o.names()
	all := o.differences(names)
	if digest := o.found[names[0]].Digest(); cmd.Expect != "" && digest != cmd.Expect {
		if err := inv.printDifferences(all); err != nil {
			return err
		}
		return &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Server: names[0], Kind: mcpvisor.ErrInvalid,
			Message: fmt.Sprintf("nothing was approved: %s offers %s now, and not what was looked at; look at it again", names[0], digest)}}
	}
	for _, name := range names {
		o.locked.Servers[name] = o.found[name]
	}
	if err := inv.printDifferences(all); err != nil {
		return err
	}
	if len(all) == 0 {
		inv.Note("%s has that already", o.path)
		return nil
	}
	if err := o.write(); err != nil {
		return err
	}
	inv.Note("%s: %s approved", o.path, strings.Join(names, ", "))
	return nil
}
