package listing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
		names := Naming{HostPrefix: host}
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
	shared := map[string]bool{}
	names := Naming{Prefix: prefixOnConflict}
	list := func(all ...Owner) map[string]Owner {
		n := namer{names: &names, shared: shared}
		n.add(all)
		return n.byName
	}
	a, b := Owner{"a", "x"}, Owner{"b", "x"}
	require.Equal(t, map[string]Owner{"x": a}, list(a))
	require.Equal(t, map[string]Owner{"a__x": a, "b__x": b}, list(a, b))
	require.Equal(t, map[string]Owner{"a__x": a}, list(a))
}
