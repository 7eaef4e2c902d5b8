package fleetcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type applyCmd struct {
	reach

	Files  []string `arg:"" name:"file" help:"Configuration file. Several are read as one, as by --config." complete:"file"`
	DryRun bool     `help:"Check the files and say what would change. Writes nothing."`
}

// applied is the answer of apply.
type applied struct {
	DryRun     bool     `json:"dryRun,omitempty"`
	Generation uint64   `json:"generation"`
	Added      []string `json:"added"`
	Changed    []string `json:"changed"`
	Removed    []string `json:"removed"`
	Unchanged  int      `json:"unchanged"`
}

// Run implements kong's command.
func (cmd *applyCmd) Run(inv *cli.Invocation) error {
	wanted, err := readDefinitions(inv, cmd.Files)
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
		answer = difference(present, wanted)
		if answer.DryRun, answer.Generation = cmd.DryRun, status.Generation; cmd.DryRun {
			return err
		}
		answer.Generation, err = fleet.Apply(ctx, s, wanted)
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

// difference says what a configuration changes.
func difference(present, wanted []fleet.Server) applied {
	a := applied{Added: []string{}, Changed: []string{}, Removed: []string{}}
	before := map[string]fleet.Server{}
	for _, s := range present {
		before[s.Name] = s
	}
	for _, s := range wanted {
		was, known := before[s.Name]
		delete(before, s.Name)
		switch {
		case !known:
			a.Added = append(a.Added, s.Name)
		case was.Exclusive != s.Exclusive || !maps.Equal(was.Labels, s.Labels) || !bytes.Equal(compact(was.Definition), compact(s.Definition)):
			a.Changed = append(a.Changed, s.Name)
		default:
			a.Unchanged++
		}
	}
	a.Removed = append(a.Removed, slices.Sorted(maps.Keys(before))...)
	return a
}

func compact(definition json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, definition) != nil {
		return definition
	}
	return b.Bytes()
}

// readDefinitions reads the servers of configuration files. It warns of what is wrong with the
// files, and returns an error if an entry cannot be used or has a secret in it.
func readDefinitions(inv *cli.Invocation, paths []string) ([]fleet.Server, error) {
	texts := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, cli.UsageError("%v", err)
		}
		texts[path] = text
	}
	file, err := servers.LoadForNodes(paths)
	if err != nil {
		return nil, cli.UsageError("%v", err)
	}
	var problems []string
	for _, p := range file.Problems {
		if p.Severity == config.SeverityError {
			problems = append(problems, cli.ConfigTerms(p.String()))
		} else {
			inv.Warn(p.Server, "%s", p)
		}
	}
	if file.Gateway != nil || file.Journal != "" {
		inv.Warn("", "config %s: \"gateway\" and \"journal\" are not part of a fleet's configuration, and are ignored; each node has options for them", file.Path)
	}
	var all []fleet.Server
	for _, s := range file.Servers {
		if s.Disabled {
			continue
		}
		server, found, err := definitionOf(s, texts[s.Path])
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
		all = append(all, server)
	}
	switch {
	case len(problems) > 0:
		return nil, cli.UsageError("%s; nothing was applied", strings.Join(problems, "; "))
	case len(all) == 0:
		return nil, servers.NoServerError(file)
	}
	return all, nil
}

// definitionOf returns a server of a file as the store keeps it, and what a fleet must not have.
func definitionOf(s config.Server, text []byte) (server fleet.Server, problems []string, err error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	root, err := hujson.Parse(bytes.Clone(text))
	if err != nil {
		return server, nil, err
	}
	entry := entryAt(&root, text, s.Entry, s.Line)
	if entry == nil {
		return server, nil, fmt.Errorf("config %s:%d: the entry of server %q is not found", s.Path, s.Line, s.Entry)
	}
	for _, one := range hosts.LiteralSecrets(s.Entry, entry) {
		problems = append(problems, fmt.Sprintf("config %s:%d: server %q: %s is written out, and everybody who can read etcd could read it; write ${%s}, ${file:/path/of/the/secret} or ${keyring:service/account}, which each node resolves for itself",
			s.Path, lineOf(text, one.Offset), s.Entry, one.Place, one.Variable))
	}
	for _, offset := range inputsIn(entry) {
		problems = append(problems, fmt.Sprintf("config %s:%d: server %q: ${input:…} asks a user, and a node has none; write ${VAR} or ${file:/path/of/the/secret}", s.Path, lineOf(text, offset), s.Entry))
	}
	definition := entry.Clone()
	definition.Standardize()
	return fleet.Server{Name: s.Spec.Name, Exclusive: s.Spec.Exclusive, Labels: s.NodeLabels, Definition: compact(definition.Pack())}, problems, nil
}

func lineOf(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

// entryAt finds the member of a name that begins in a line.
func entryAt(v *hujson.Value, text []byte, name string, line int) *hujson.Value {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := range object.Members {
		m := &object.Members[i]
		key, _ := m.Name.Value.(hujson.Literal)
		if key.String() == name && lineOf(text, m.Name.StartOffset) == line {
			if _, isObject := m.Value.Value.(*hujson.Object); isObject {
				return &m.Value
			}
		}
		if found := entryAt(&m.Value, text, name, line); found != nil {
			return found
		}
	}
	return nil
}

// inputsIn returns where an entry asks the user.
func inputsIn(v *hujson.Value) (offsets []int) {
	for one := range v.All() {
		if text, ok := one.Value.(hujson.Literal); ok && text.Kind() == '"' && strings.Contains(text.String(), "${input:") {
			offsets = append(offsets, one.StartOffset)
		}
	}
	return offsets
}
