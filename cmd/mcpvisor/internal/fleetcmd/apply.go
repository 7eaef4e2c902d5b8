package fleetcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type applyCmd struct {
	reach

	Files  []string `arg:"" name:"file" help:"Configuration file. Several are read as one, as by --config." complete:"file"`
	DryRun bool     `help:"Check the files and say what would change. Writes nothing."`
}

type applied struct {
	DryRun     bool     `json:"dryRun,omitempty"`
	Generation uint64   `json:"generation"`
	Added      []string `json:"added"`
	Changed    []string `json:"changed"`
	Removed    []string `json:"removed"`
	Unchanged  int      `json:"unchanged"`
	// Gateway is what becomes of "gateway": "added", "changed" or "removed"; empty: nothing.
	Gateway string `json:"gateway,omitempty"`
}

func (cmd *applyCmd) Run(inv *cli.Invocation) error {
	wanted, err := readConfiguration(inv, cmd.Files)
	if err != nil {
		return err
	}
	var answer applied
	err = cmd.ask(inv, func(ctx context.Context, s store.Store) error {
		status, present, err := fleet.Read(ctx, s)
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !cmd.DryRun { // what cannot be read cannot be compared, and is refused below
			inv.Warn("", "%v", err)
		}
		answer = difference(configuration{present, status.Gateway}, wanted)
		if answer.DryRun, answer.Generation = cmd.DryRun, status.Generation; cmd.DryRun {
			return err
		}
		answer.Generation, err = fleet.Apply(ctx, s, wanted.servers, fleet.WithGateway(wanted.gateway))
		return err
	})
	switch {
	case err != nil:
		return err
	case inv.JSON:
		return cli.PrintJSON(inv.Out, answer)
	}
	return answer.print(inv)
}

func (a *applied) print(inv *cli.Invocation) error {
	var b strings.Builder
	for _, one := range []struct {
		what  string
		names []string
	}{{"added  ", a.Added}, {"changed", a.Changed}, {"removed", a.Removed}} {
		if len(one.names) > 0 {
			fmt.Fprintf(&b, "%s  %s\n", one.what, strings.Join(one.names, ", "))
		}
	}
	if a.Gateway != "" {
		fmt.Fprintf(&b, "gateway  %s\n", a.Gateway)
	}
	if a.Unchanged > 0 || b.Len() == 0 {
		fmt.Fprintf(&b, "unchanged  %s\n", display.Count(a.Unchanged, "server"))
	}
	if a.DryRun {
		fmt.Fprintf(&b, "nothing was written; the fleet is at generation %d\n", a.Generation)
	} else {
		fmt.Fprintf(&b, "generation %d; the nodes follow, and mcpvisor fleet status shows where the servers are\n", a.Generation)
	}
	_, err := fmt.Fprint(inv.Out, display.Text(b.String()))
	return err
}

func difference(present, wanted configuration) applied {
	a := applied{Added: []string{}, Changed: []string{}, Removed: []string{}}
	before := map[string]fleet.Server{}
	for _, s := range present.servers {
		before[s.Name] = s
	}
	for _, s := range wanted.servers {
		was, known := before[s.Name]
		delete(before, s.Name)
		switch {
		case !known:
			a.Added = append(a.Added, s.Name)
		case was.Exclusive != s.Exclusive || !maps.Equal(was.Labels, s.Labels) || !canonical.Equal(was.Definition, s.Definition):
			a.Changed = append(a.Changed, s.Name)
		default:
			a.Unchanged++
		}
	}
	a.Removed = append(a.Removed, slices.Sorted(maps.Keys(before))...)
	switch was, next := present.gateway, wanted.gateway; {
	case was == nil && next != nil:
		a.Gateway = "added"
	case was != nil && next == nil:
		a.Gateway = "removed"
	case !canonical.Equal(was, next):
		a.Gateway = "changed"
	}
	return a
}

// configuration is what apply gives to the fleet.
type configuration struct {
	servers []fleet.Server
	gateway json.RawMessage // nil without one
}

// jsonFile is a configuration file as its author wrote it.
type jsonFile struct {
	path string
	text []byte
	root hujson.Value
}

// readConfiguration reads configuration files. It warns of what is wrong with them, and returns an error if
// something cannot be used, has a secret in it, or says what a fleet cannot do.
func readConfiguration(inv *cli.Invocation, paths []string) (configuration, error) {
	var read configuration
	files := map[string]*jsonFile{}
	for _, path := range paths {
		text, err := regularfile.Read(path, maxFile)
		if err != nil {
			return read, cli.UsageError("%v", err)
		}
		files[path] = &jsonFile{path: path, text: bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))}
	}
	file, err := servers.LoadForNodes(paths)
	if err != nil {
		return read, cli.UsageError("%v", err)
	}
	for _, f := range files {
		if f.root, err = hujson.Parse(bytes.Clone(f.text)); err != nil {
			return read, err
		}
	}
	var problems []string
	for _, p := range file.Problems {
		if p.Severity == config.SeverityError {
			problems = append(problems, cli.ConfigTerms(p.String()))
		} else {
			inv.Warn(p.Server, "%s", p)
		}
	}
	for _, path := range paths {
		f := files[path]
		for _, refused := range []struct{ key, why string }{
			{"journal", "is a file of one machine, and each node has its own; remove it, and start the nodes with --journal FILE"},
			{"records", "is a directory of one machine, and each node has its own; remove it, and start the nodes with --records DIR"},
			{"rules", "are applied by mcpvisor run, and not by the nodes of a fleet; remove them, or run these servers with mcpvisor run"},
			{"groups", "start and restart servers of one machine together, and a fleet places each server by itself; remove them, or run these servers with mcpvisor run"},
		} {
			if m := configfile.MemberOf(&f.root, refused.key); m != nil && !isNull(m) && (refused.key != "groups" || len(file.Groups) > 0) {
				problems = append(problems, fmt.Sprintf("config %s:%d: %q %s", path, f.line(m.Name.StartOffset), refused.key, refused.why))
			}
		}
		if m := configfile.MemberOf(&f.root, "gateway"); m != nil && file.Gateway != nil { // the last one counts
			read.gateway = configfile.Plain(&m.Value)
		}
	}
	for _, s := range file.Servers {
		if s.Disabled {
			continue
		}
		f := files[s.Path]
		entry := f.entry(&f.root, s.Entry, s.Line)
		if entry == nil {
			return read, fmt.Errorf("config %s:%d: the entry of server %q is not found", s.Path, s.Line, s.Entry)
		}
		problems = append(problems, f.refusals(s, entry)...)
		read.servers = append(read.servers, fleet.Server{Name: s.Spec.Name, Exclusive: s.Spec.Exclusive, Labels: s.NodeLabels, Definition: configfile.Plain(entry)})
	}
	switch {
	case len(problems) > 0:
		return read, cli.UsageError("%s; nothing was applied", strings.Join(problems, "; "))
	case len(read.servers) == 0:
		return read, servers.NoServerError(file)
	}
	return read, nil
}

// refusals says what an entry must not have in a fleet: secrets, and what would not be done.
func (f *jsonFile) refusals(s config.Server, entry *hujson.Value) (problems []string) {
	add := func(offset int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("config %s:%d: server %q: %s", f.path, f.line(offset), s.Entry, fmt.Sprintf(format, args...)))
	}
	for _, one := range hosts.LiteralSecrets(s.Entry, entry) {
		add(one.Offset, "%s is written out, and everybody who can read etcd could read it; write ${%s}, ${file:/path/of/the/secret} or ${keyring:service/account}, which each node resolves for itself", one.Place, one.Variable)
	}
	for _, offset := range inputsIn(entry) {
		add(offset, "${input:…} asks a user, and a node has none; write ${VAR} or ${file:/path/of/the/secret}")
	}
	if m := configfile.MemberOf(entry, "share"); m != nil && s.Share == settings.ShareClient {
		add(m.Name.StartOffset, "\"share\": \"client\" starts a process for each client, and a fleet runs one process of a server for all; remove it, or run this server with mcpvisor run")
	}
	if m := configfile.MemberOf(entry, "standby"); m != nil && s.Spec.Standby {
		add(m.Name.StartOffset, "\"standby\" keeps a second process started, and a fleet runs one; remove it")
	}
	for _, rest := range []struct {
		key   string
		asked bool
	}{{"start", s.Spec.Start == mcpvisor.StartLazy}, {"idle_stop", s.Spec.IdleStop > 0}, {"transient", s.Spec.Transient}} {
		if m := configfile.MemberOf(entry, rest.key); m != nil && rest.asked {
			add(m.Name.StartOffset, "%q lets the server rest, and a fleet keeps its servers running, because any node may call one at any time; remove it, or run this server with mcpvisor run", rest.key)
		}
	}
	policy := s.Spec.Policy
	if m := configfile.MemberOf(entry, "retry"); m != nil && !isNull(m) && (policy.MaxAttempts != supervisor.Unlimited || policy.ParkEvery != 0 || policy.Intensity != supervisor.Intensity{}) {
		add(m.Name.StartOffset, "\"retry\" bounds how often the server is started again, and a fleet never gives one up; write {\"max_attempts\": \"unlimited\"}, with \"base\", \"max\" and \"jitter\" as you like, or remove it")
	}
	return problems
}

func isNull(m *hujson.ObjectMember) bool {
	return m.Value.Value.Kind() == 'n'
}

func (f *jsonFile) line(offset int) int { return 1 + bytes.Count(f.text[:offset], []byte("\n")) }

func (f *jsonFile) entry(v *hujson.Value, name string, line int) *hujson.Value {
	members := configfile.MembersOf(v)
	for i := range members {
		m := &members[i]
		if configfile.NameOf(m) == name && f.line(m.Name.StartOffset) == line {
			if m.Value.Value.Kind() == '{' {
				return &m.Value
			}
		}
		if found := f.entry(&m.Value, name, line); found != nil {
			return found
		}
	}
	return nil
}

func inputsIn(v *hujson.Value) (offsets []int) {
	for one := range v.All() {
		if text, ok := one.Value.(hujson.Literal); ok && text.Kind() == '"' && strings.Contains(text.String(), "${input:") {
			offsets = append(offsets, one.StartOffset)
		}
	}
	return offsets
}
