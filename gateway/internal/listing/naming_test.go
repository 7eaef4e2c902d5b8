package listing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// Names fit, are of one tool each, and do not depend on other servers.
func TestNamer(t *testing.T) {
	var all []Owner
	for _, server := range []string{"a", "a_", "a__b", "github", "server.with.dots", strings.Repeat("s", 64)} {
		for _, tool := range []string{"x", "_x", "b__x", "b", "list issues", "list_issues", "list.issues", "ends_like_0123abcd", strings.Repeat("t", 100), "ünïcode"} {
			all = append(all, Owner{server, tool})
		}
	}
	for _, host := range []string{"", "mcp__mcpvisor__", strings.Repeat("h", 60)} {
		names := settings.Names{HostPrefix: host}
		n := namer{names: &names}
		n.add(all)
		require.Empty(t, n.conflict)
		require.Len(t, n.byName, len(all))
		for name, o := range n.byName {
			require.LessOrEqual(t, len(name), max(64-len(host), toolname.MinBytes))
			require.Regexp(t, "^[a-zA-Z0-9_-]+$", name)
			alone := namer{names: &names}
			alone.add([]Owner{o})
			require.Equal(t, map[string]Owner{name: o}, alone.byName, "other servers do not matter")
		}
	}
}

// A name that two servers had stays with its prefix when one of them is gone.
func TestNamer_conflict_stays(t *testing.T) {
	shared, first := map[string]bool{}, map[string]string{}
	names := settings.Names{Prefix: settings.PrefixOnConflict}
	list := func(all ...Owner) map[string]Owner {
		n := namer{names: &names, shared: shared, first: first}
		n.add(all)
		return n.byName
	}
	a, b := Owner{"a", "x"}, Owner{"b", "x"}
	require.Equal(t, map[string]Owner{"x": a, "a__x": a}, list(a))
	require.Equal(t, map[string]Owner{"a__x": a, "b__x": b}, list(a, b))
	require.Equal(t, map[string]Owner{"a__x": a}, list(a))
}

// In the mode with prefixes on conflict a name belongs to the server that has had it first, also when that
// has gone, and no server can list the prefixed name or the alias of another one's tool.
func TestNamer_names_of_others(t *testing.T) {
	for _, prefix := range []settings.Prefix{settings.PrefixAlways, settings.PrefixOnConflict, settings.PrefixNever} {
		shared, first := map[string]bool{}, map[string]string{}
		names := settings.Names{Prefix: prefix, HostPrefix: "mcp__mcpvisor__"}
		list := func(all ...Owner) map[string]Owner {
			n := namer{names: &names, shared: shared, first: first}
			n.add(all)
			return n.byName
		}
		bank, shop := Owner{"bank", "pay"}, Owner{"shop", "pay"}
		theirs := map[string]bool{mcpvisor.Alias("bank", "pay"): true}
		if prefix != settings.PrefixNever { // without any prefix, both are withheld
			for name := range list(bank, shop) {
				theirs[name] = true
			}
			require.Len(t, theirs, 3)
		}
		for _, server := range []string{"evil", "mcp", "bank_", "Bank", "ba"} {
			for _, tool := range []string{"bank__pay", "mcp__bank__pay", "bank..pay", "bank/pay", "Bank__pay", "nk__pay", "_pay", "__pay", "b\u0430nk__pay", strings.Repeat("x", 80) + "bank__pay"} {
				for name, o := range list(bank, shop, Owner{server, tool}) {
					require.False(t, theirs[name] && o.Server == server, "%s of %s is listed as %s", tool, server, name)
				}
				for name := range list(Owner{server, tool}) { // the bank has gone
					require.False(t, theirs[name], "%s of %s is listed as %s", tool, server, name)
				}
			}
		}
	}
	n := namer{names: &settings.Names{Prefix: settings.PrefixOnConflict}, shared: map[string]bool{}, first: map[string]string{}}
	n.add([]Owner{{"bank", "transfer"}})
	require.Contains(t, n.byName, "transfer")
	n.add([]Owner{{"evil", "transfer"}})
	require.NotContains(t, n.byName, "transfer", "it was the bank's")
	for i := range maxHeld + 10 {
		n.add([]Owner{{"evil", fmt.Sprint("t", i)}})
	}
	require.LessOrEqual(t, len(n.first), maxHeld)
	require.Empty(t, len(n.shared)-1)
	n.add([]Owner{{"late", "new"}})
	require.Contains(t, n.byName, "late__new")
}
