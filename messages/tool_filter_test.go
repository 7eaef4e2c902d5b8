package messages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestToolFilter(t *testing.T) {
	for _, c := range []struct {
		allow, deny, offered, hidden string // words
	}{
		{"", "", "read_file any/thing", ""},
		{"read_file list", "", "read_file list", "read_files Read_file x"},
		{"read_*", "", "read_ read_file read_a/b", "read xread_file"},
		{"*_file", "", "read_file _file", "read_files"},
		{"a*b*c", "", "abc aXbYc abbcc abcbc", "ab ac abcd"},
		{"?", "", "a é", "ab"},
		{"", "rm*", "list", "rm rmdir"},
		{"*", "rm*", "list", "rm rmdir"},
		{"rm", "rm", "", "rm list"},
		{"[a]", "", "[a]", "a"},
		{"**", "", "anything", ""},
	} {
		f := ToolFilter{Allow: strings.Fields(c.allow), Deny: strings.Fields(c.deny)}
		for _, name := range strings.Fields(c.offered) {
			require.True(t, f.Allows(name), "%+v %s", f, name)
		}
		for _, name := range strings.Fields(c.hidden) {
			require.False(t, f.Allows(name), "%+v %s", f, name)
		}
	}
	require.True(t, ToolFilter{}.IsZero())
	require.False(t, ToolFilter{Deny: []string{"x"}}.IsZero())
}

// A pattern with many stars must not make a search of all ways to match it.
func TestToolFilterIsCheapForAnyPattern(t *testing.T) {
	f := ToolFilter{Allow: []string{strings.Repeat("*a", 500) + "b"}}
	began := time.Now()
	require.False(t, f.Allows(strings.Repeat("a", 2000)))
	require.Less(t, time.Since(began), time.Second)
}

func TestOffered(t *testing.T) {
	tool := func(name string) Tool {
		return Tool{Name: Qualify("fs", name), Server: "fs", OriginalName: name, Alias: Alias("fs", name)}
	}
	c := NewCatalog([]Tool{tool("list"), tool("say.it"), tool("write")}, []Resource{{URI: "x:y"}}, nil, []Prompt{{OriginalName: "p"}}, []string{"tool: before"})
	got := c.Offered(ToolFilter{Deny: []string{"wr*", "say.it", "nonesuch*"}})
	require.Len(t, got.Tools, 1)
	require.Equal(t, 2, got.Hidden)
	require.Len(t, got.Resources, 1)
	require.Len(t, got.Prompts, 1)
	require.Equal(t, []string{"tool: before", `tool pattern "nonesuch*" matches no tool of this server`}, got.Warnings)
	for _, name := range []string{"write", "say.it"} {
		_, found := got.Tool(name)
		require.False(t, found)
		_, found = got.ToolByAlias(Alias("fs", name))
		require.False(t, found)
	}
	_, found := got.ToolByAlias(Alias("fs", "list"))
	require.True(t, found)
	require.Len(t, c.Tools, 3, "the catalog that was filtered is unchanged")
	require.Len(t, c.Warnings, 1)
	require.Same(t, c, c.Offered(ToolFilter{}))
	require.Nil(t, (*Catalog)(nil).Offered(ToolFilter{Deny: []string{"*"}}))

	next, change := got.Refreshed(NewCatalog([]Tool{tool("list"), tool("new")}, nil, nil, nil, nil).Offered(ToolFilter{Deny: []string{"list"}}), ListTools)
	require.Equal(t, 1, next.Hidden)
	require.Equal(t, []string{"fs/new"}, change.Tools.Added)
	require.Equal(t, []string{"fs/list"}, change.Tools.Removed)
}
