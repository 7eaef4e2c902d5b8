package mcpvisor

import (
	"strings"
	"testing"

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

// A pattern with many stars does not lead to exponential backtracking, with which this test would
// not end.
func TestToolFilter_cost_of_many_stars(t *testing.T) {
	f := ToolFilter{Allow: []string{strings.Repeat("*a", 500) + "b"}}
	require.False(t, f.Allows(strings.Repeat("a", 2000)))
}
