package config

import (
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
		"microsoft/playwright-mcp":           "^microsoft-playwright-mcp-[0-9a-f]{6}$",
		"io.github.github/github-mcp-server": "^io.github.github-github-mcp-server-[0-9a-f]{6}$",
		"@scope/pkg":                         "^scope-pkg-[0-9a-f]{6}$",
		"日本語":                                "^server-77710a$",
		"":                                   "^server-e3b0c4$",
		strings.Repeat("x", 65):              "^x{57}-[0-9a-f]{6}$",
	} {
		require.Regexp(t, want, serverNames([]string{entry})[entry], "%q", entry)
	}
	f, err := Parse([]byte(`{"servers": {"a b": {"command": "x"}, "c": {"command": "y"}}}`), "mcp.json")
	require.NoError(t, err)
	name := f.Servers[0].Spec.Name
	require.Equal(t, "a-b-c8687a", name)
	require.Equal(t, "a b", f.Servers[0].Entry)
	require.Equal(t, "c", f.Servers[1].Entry)
	require.Len(t, f.Problems, 1)
	require.Equal(t, `config mcp.json:1:14: warning: server "a b": the name has characters that a server name cannot have; the server is called "a-b-c8687a"; rename the entry to choose another name`,
		f.Problems[0].String())
	for _, one := range []string{"a b", name} {
		s, ok := f.Find(one)
		require.True(t, ok, one)
		require.Equal(t, name, s.Spec.Name)
	}
	_, ok := f.Find("b")
	require.False(t, ok)
}

// A derived name does not depend on other entries. It must not move to another
// server because one is added.
func TestServerName_with_other_entries(t *testing.T) {
	alone := serverNames([]string{"a b"})["a b"]
	for _, others := range [][]string{{"a-b"}, {"a/b"}, {"a-b", "a/b", "A b"}} {
		names := serverNames(append(others, "a b"))
		require.Equal(t, alone, names["a b"])
		require.Len(t, names, len(others)+1)
	}
	require.NotEqual(t, alone, serverNames([]string{"a b", alone})["a b"], "an entry that has the name itself keeps it")
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
