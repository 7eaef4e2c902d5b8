package listing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/display"
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

// Pages together are the whole list, with each size, although entries come and go between
// them.
func TestPage(t *testing.T) {
	var list []Owner
	for i := range 7 {
		list = append(list, Owner{fmt.Sprint("s", i/3), fmt.Sprint("t", i)})
	}
	same := func(k *Owner) Owner { return *k }
	for size := 1; size <= 8; size++ {
		var got []Owner
		cursor := ""
		for pages := 0; ; pages++ {
			require.Less(t, pages, 8)
			part, next, err := page(list, same, cursor, size)
			require.NoError(t, err)
			got = append(got, part...)
			if cursor = next; next == "" {
				break
			}
		}
		require.Equal(t, list, got)
	}
	_, cursor, err := page(list, same, "", 3)
	require.NoError(t, err)
	part, _, err := page(append(append([]Owner{}, list[:2]...), list[4:]...), same, cursor, 10)
	require.NoError(t, err)
	require.Equal(t, list[4:], part, "the entry of the cursor is gone")
	part, _, err = page(nil, same, cursor, 10)
	require.NoError(t, err)
	require.Empty(t, part)
}

// A schema without such characters is the same, byte for byte.
func TestVisibleSchema(t *testing.T) {
	for _, text := range []string{`{ "type" : "object","x":1e400,"description":"\u003cb\u003e 日本語 \n" }`, `{"a":"👩‍💻"}`, `{`} {
		require.Equal(t, text, string(visibleSchema(json.RawMessage(text)).(json.RawMessage)))
	}
	require.Nil(t, visibleSchema(nil))
	for _, text := range []string{`{"description":"\udb40\udc41"}`, "[[[\"\u202e\"]]]", `{"a\u200b":1}`, "{\"\U000E0041\":{}}", `{"a":["\u0007"]}`, `[{"title":"\u001b"}]`} {
		clean, ok := visibleSchema(json.RawMessage(text)).(json.RawMessage)
		require.True(t, ok)
		var value any
		require.NoError(t, json.Unmarshal(clean, &value))
		encoded, err := message.Result(value, false)
		require.NoError(t, err)
		_, removed := display.ForModel(string(encoded))
		require.Empty(t, removed, "%s", encoded)
		require.NotContains(t, string(encoded), `\u`)
	}
}
