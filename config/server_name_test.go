package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

// Any name that hosts write is accepted, and a warning says what became of it.
func TestServerName(t *testing.T) {
	for entry, want := range map[string]string{
		"fs":                                 "^fs$",
		"my.server_1-x":                      "^my.server_1-x$",
		"microsoft/playwright-mcp":           "^microsoft-playwright-mcp$",
		"io.github.github/github-mcp-server": "^io.github.github-github-mcp-server$",
		"@scope/pkg":                         "^scope-pkg$",
		"日本語":                                "^server$",
		"":                                   "^server$",
		strings.Repeat("x", 65):              "^x{64}$",
	} {
		require.Regexp(t, want, serverNames([]string{entry})[entry], "%q", entry)
	}
	f, err := Parse([]byte(`{"servers": {"a b": {"command": "x"}, "c": {"command": "y"}}}`), "mcp.json")
	require.NoError(t, err)
	name := f.Servers[0].Spec.Name
	require.Equal(t, "a-b", name)
	require.Equal(t, "a b", f.Servers[0].Entry)
	require.Equal(t, "c", f.Servers[1].Entry)
	require.Len(t, f.Problems, 1)
	require.Equal(t, `config mcp.json:1:14: warning: server "a b": the name has characters that a server name cannot have; the server is called "a-b"; rename the entry to choose another name`,
		f.Problems[0].String())
	for _, one := range []string{"a b", name} {
		s, ok := f.Find(one)
		require.True(t, ok, one)
		require.Equal(t, name, s.Spec.Name)
	}
	_, ok := f.Find("b")
	require.False(t, ok)
}

// A hash follows where two entries would have one name. The order of the entries does not
// matter.
func TestServerName_with_other_entries(t *testing.T) {
	require.Equal(t, "a-b", serverNames([]string{"c", "a b", "a.b"})["a b"])
	for _, others := range [][]string{{"a-b"}, {"a/b"}, {"a-b", "a/b", "A b"}} {
		for _, entries := range [][]string{append([]string{"a b"}, others...), append(slices.Clone(others), "a b")} {
			names := serverNames(entries)
			require.Equal(t, "a-b-c8687a", names["a b"])
			require.Len(t, names, len(others)+1)
		}
	}
	require.NotEqual(t, "a-b-c8687a", serverNames([]string{"a b", "a-b", "a-b-c8687a"})["a b"], "an entry that has the name itself keeps it")
}

func TestServerName_legal_and_unique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab/ -]{0,4}`),
			rapid.StringMatching(`[a-z]{60,70}`)), rapid.ID[string]).Draw(t, "entries")
		seen := map[string]string{}
		for entry, name := range serverNames(entries) {
			require.NoError(t, mcpvisor.CheckServerName(name), "%q of %q", name, entry)
			require.Empty(t, seen[name], "%q is given to %q and %q", name, entry, seen[name])
			seen[name] = entry
			if mcpvisor.CheckServerName(entry) == nil {
				require.Equal(t, entry, name)
			}
		}
		require.Len(t, seen, len(entries))
	})
}
