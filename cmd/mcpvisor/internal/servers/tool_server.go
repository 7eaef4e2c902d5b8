package servers

import (
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

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
