package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/messages"
)

// Names that hosts write are used, and the file says once what they became.
func TestServerName(t *testing.T) {
	for entry, want := range map[string]string{
		"fs":                                 "fs",
		"my.server_1-x":                      "my.server_1-x",
		"microsoft/playwright-mcp":           "microsoft-playwright-mcp",
		"io.github.github/github-mcp-server": "io.github.github-github-mcp-server",
		"@scope/pkg":                         "scope-pkg",
		"Brave Search":                       "Brave-Search",
		"日本語":                                "server-77710aed",
		"":                                   "server-e3b0c442",
		strings.Repeat("x", 65):              strings.Repeat("x", 64),
	} {
		require.Equal(t, want, serverNames([]string{entry})[entry], "%q", entry)
	}
	f, err := Parse([]byte(`{"servers": {"a b": {"command": "x"}, "c": {"command": "y"}}}`), "mcp.json")
	require.NoError(t, err)
	require.Equal(t, "a-b", f.Servers[0].Spec.Name)
	require.Equal(t, "a b", f.Servers[0].Entry)
	require.Equal(t, "c", f.Servers[1].Entry)
	require.Len(t, f.Problems, 1)
	require.Equal(t, `mcp.json:1:14: warning: server "a b": this name holds characters that a server name cannot have; the server is called "a-b" here`,
		f.Problems[0].String())
	for _, name := range []string{"a b", "a-b"} {
		s, ok := f.Find(name)
		require.True(t, ok, name)
		require.Equal(t, "a-b", s.Spec.Name)
	}
	_, ok := f.Find("b")
	require.False(t, ok)
}

// An entry that literally has the derived name of another one keeps it.
func TestServerName_collision(t *testing.T) {
	names := serverNames([]string{"a/b", "a-b", "a b"})
	require.Equal(t, "a-b", names["a-b"])
	require.Regexp(t, `^a-b-[0-9a-f]{8}$`, names["a/b"])
	require.Regexp(t, `^a-b-[0-9a-f]{8}$`, names["a b"])
	require.NotEqual(t, names["a/b"], names["a b"])
	require.Equal(t, names, serverNames([]string{"a b", "a/b", "a-b"}), "the order of the entries has no effect")
}

func TestServerName_is_legal_and_unique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfDistinct(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab/ -]{0,4}`),
			rapid.StringMatching(`[a-z]{60,70}`)), rapid.ID[string]).Draw(t, "entries")
		seen := map[string]string{}
		for entry, name := range serverNames(entries) {
			require.NoError(t, messages.CheckServerName(name), "%q of %q", name, entry)
			require.Empty(t, seen[name], "%q is given to %q and %q", name, entry, seen[name])
			seen[name] = entry
			if messages.CheckServerName(entry) == nil {
				require.Equal(t, entry, name)
			}
		}
		require.Len(t, seen, len(entries))
	})
}
