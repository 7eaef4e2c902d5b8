package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/program"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// LoadConfig reads the configuration, or with names only the entries of these servers, so that
// the user is asked for nothing that other servers need. The problems of the file are left to
// the caller.
func (o *Opener) LoadConfig(names ...string) (*config.File, error) {
	options := append(o.inputOptions(), config.WithKeyring(lookUpSecret), o.runCommands())
	if len(names) > 0 {
		options = append(options, config.WithServers(names...))
	}
	return o.loadFiles(options...)
}

// ReloadConfig reads the configuration again, for a command that continues. The user is asked
// nothing: what was answered is known, and what was not is a problem of the file.
func (o *Opener) ReloadConfig() (*config.File, error) {
	return o.loadFiles(config.WithKeyring(lookUpSecret), o.runCommands(), config.WithInput(func(i config.Input) (string, error) {
		if answer, known := o.answers[i.ID]; known {
			return answer, nil
		}
		if i.Default != "" {
			return i.Default, nil
		}
		return "", errors.New("the user is asked only when the command starts")
	}))
}

// secretTimeout bounds the run of a program of ${command:…}.
const secretTimeout = 30 * time.Second

// runCommands runs the programs of ${command:…}. A program has no terminal: it cannot ask.
func (o *Opener) runCommands() config.Option {
	return config.WithCommands(func(command []string, dir string) (string, error) {
		ctx, cancel := context.WithTimeout(o.Context, secretTimeout)
		defer cancel()
		output, err := program.Output(ctx, command, dir, nil)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("it did not end within %v", secretTimeout)
		}
		return string(output), err
	})
}

func (o *Opener) loadFiles(options ...config.Option) (*config.File, error) {
	file, err := config.LoadFiles(o.Sources.Paths, append(options, websocket.Option)...)
	if o.inputInterrupted { // what the file lacks is not a problem of the file
		return nil, cli.ErrInterrupted
	}
	id, isNode := o.Sources.Node()
	switch {
	case errors.Is(err, os.ErrNotExist) && isNode:
		return nil, cli.UsageError("no node %s of a fleet is running on this machine, or this command works with configuration files only; mcpvisor fleet run --node %s starts the node", id, id)
	case errors.Is(err, os.ErrNotExist) && !o.Sources.Chosen:
		return nil, cli.UsageError("%v; mcpvisor init makes one, and mcpvisor import takes servers from other hosts", err)
	case err != nil:
		return nil, cli.UsageError("%v", err)
	}
	return file, nil
}

// enabledNames returns the names of the servers that are not disabled. It reads nothing else
// in their entries, which need not be usable.
func (o *Opener) enabledNames() (names []string, err error) {
	file, err := o.loadFiles(config.WithServers())
	if err != nil {
		return nil, err
	}
	for _, s := range file.Servers {
		if !s.Disabled {
			names = append(names, s.Spec.Name)
		}
	}
	if len(names) == 0 {
		return nil, NoServerError(file)
	}
	return names, nil
}

// ServerName returns the name of a server that the user names as its entry is called in the
// file ("microsoft/playwright-mcp"). Any other name is returned as it is.
func (o *Opener) ServerName(name string) string {
	if mcpvisor.CheckServerName(name) == nil {
		return name // an entry that is called so has this name
	}
	if server, found := o.entries().Find(name); found {
		return server.Spec.Name
	}
	return name
}

// ToolName is ServerName for the qualified name of a tool. A server whose own name stands
// before the first '/' is meant, if there is one.
func (o *Opener) ToolName(name string) string {
	server, tool, qualified := mcpvisor.SplitName(name)
	if !qualified || mcpvisor.CheckServerName(server) == nil && !strings.Contains(tool, "/") {
		return name
	}
	file := o.entries()
	if EntryName(file, server) != "" {
		return name
	}
	found := name
	longest := 0
	for _, s := range file.Servers {
		if rest, ok := strings.CutPrefix(name, s.Entry+"/"); ok && rest != "" && len(s.Entry) > longest {
			found, longest = mcpvisor.Qualify(s.Spec.Name, rest), len(s.Entry)
		}
	}
	return found
}

// entries reads the names of the entries, and nothing in them. A file that cannot be read has
// none; the command itself says so.
func (o *Opener) entries() *config.File {
	file, err := o.loadFiles(config.WithServers())
	if err != nil {
		return &config.File{}
	}
	return file
}

// SelectSpecs returns the specs of the named servers, or of all without names.
func SelectSpecs(file *config.File, names []string) ([]mcpvisor.ServerSpec, error) {
	if len(names) == 0 {
		return file.Specs(), nil
	}
	var specs []mcpvisor.ServerSpec
	for _, name := range names {
		server, found := file.Find(name)
		switch {
		case found && server.Disabled:
			return nil, cli.UsageError("config %s: server %q is disabled; remove \"disabled\" to use it", server.Spec.Origin, name)
		case found:
			specs = append(specs, server.Spec)
		default:
			for _, p := range file.Problems {
				if p.Server == name && p.Severity == config.SeverityError {
					return nil, cli.UsageError("%s", p)
				}
			}
			return nil, unknownServerError(file, name)
		}
	}
	return specs, nil
}

// Specs returns the specs of the named servers, or of all without names, and warns of the
// problems of their entries.
func (o *Opener) Specs(names ...string) ([]mcpvisor.ServerSpec, error) {
	file, err := o.LoadConfig(names...)
	if err != nil {
		return nil, err
	}
	specs, err := SelectSpecs(file, names)
	if err != nil {
		return nil, err
	}
	o.warnProblems(file, specs)
	if len(specs) == 0 {
		return nil, NoServerError(file)
	}
	return specs, nil
}

func unknownServerError(file *config.File, name string) error {
	var names []string
	for _, s := range slices.Concat(file.Servers, file.Unusable) {
		names = append(names, s.Spec.Name)
	}
	if len(names) == 0 {
		return cli.UsageError("config %s has no server %q, nor any other; add one", file.Path, name)
	}
	return cli.UsageError("config %s has no server %q; %s", file.Path, name, cli.NameOneOf(name, names))
}

func NoServerError(file *config.File) error {
	return cli.UsageError("config %s has no usable server; add an entry, or enable one", file.Path)
}

// EntryName returns the name of a server's entry in the file, or "" if the file does not have
// the server.
func EntryName(file *config.File, server string) string {
	for i := range file.Servers {
		if file.Servers[i].Spec.Name == server {
			return file.Servers[i].Entry
		}
	}
	return ""
}

// OpenTool opens the server of a tool. An alias that does not contain the name of its server
// unchanged may belong to several; these are opened.
func (o *Opener) OpenTool(tool string) (*Set, error) {
	if server, _, ok := strings.Cut(tool, "/"); ok {
		return o.OpenServer(server)
	}
	if server, _, ok := mcpvisor.SplitAlias(tool); ok {
		return o.OpenServer(server)
	}
	names, err := o.serverNames()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(tool, toolname.AliasPrefix) {
		switch owners := aliasOwners(tool, names); len(owners) {
		case 0:
			return nil, cli.UsageError("no server has a tool with the alias %q (servers: %s); mcpvisor tools shows all tools", tool, strings.Join(names, ", "))
		case 1:
			return o.OpenServer(owners[0])
		default:
			return o.Open(owners...)
		}
	}
	// No tool has that name, whatever the servers list.
	return nil, cli.UsageError("tool %q has no server; name tools as server/tool, as in %s/%s (servers: %s)", tool, names[0], tool, strings.Join(names, ", "))
}

// minAliasServer is the shortest part of a server's name that an alias is cut to.
const minAliasServer = 16

// aliasOwners returns the servers that may have a tool with an alias. An alias begins with
// the name of the server, or with a part of it, in which "_" stands for a character that
// aliases do not have.
func aliasOwners(alias string, servers []string) []string {
	rest := strings.TrimPrefix(alias, toolname.AliasPrefix)
	return slices.DeleteFunc(slices.Clone(servers), func(server string) bool {
		// The alias of a tool "/" has the server's part, then "___", then a hash.
		part := strings.TrimPrefix(mcpvisor.Alias(server, "/"), toolname.AliasPrefix)
		part = part[:len(part)-len("___")-len("_01234567")]
		for n := len(part); n >= min(len(part), minAliasServer); n-- {
			if strings.HasPrefix(rest, part[:n]+"__") {
				return false
			}
		}
		return true
	})
}
