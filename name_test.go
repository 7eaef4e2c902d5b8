package mcpvisor

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// legalServer and legalAlias are the documented rules, as regular expressions.
var (
	legalServer = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\z`)
	legalAlias  = regexp.MustCompile(`\A[a-zA-Z0-9_-]{1,64}\z`)
)

// servers draws legal server names, with underscores and dots in unusual places.
func servers() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ab][ab_.-]{0,4}`),
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`),
	)
}

// tools draws tool names: any text.
func tools() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ab_./ -]{1,5}`),
		rapid.StringMatching(`[a-z_]{1,90}`),
		rapid.StringN(1, 90, -1),
	)
}

func TestCheckServerName(t *testing.T) {
	for _, name := range []string{"a", "7", "fs", "my-server_2.1", "A.", strings.Repeat("x", 64)} {
		require.NoError(t, CheckServerName(name), name)
	}
	for name, says := range map[string]string{
		"":                      "empty",
		strings.Repeat("x", 65): "65",
		"a/b":                   "'/'",
		"-a":                    "position 1",
		".a":                    "position 1",
		"a b":                   "position 2",
		"é":                     "'é'",
		"a\x00":                 "position 2",
		"a\xff":                 "position 2",
	} {
		err := CheckServerName(name)
		require.Error(t, err, "%q", name)
		require.True(t, strings.HasPrefix(err.Error(), "server name "), "it begins with what is wrong: %v", err)
		require.Contains(t, err.Error(), says)
		require.Regexp(t, `; (use|give) .+`, err.Error(), "it ends with what to do")
	}
}

func TestCheckServerName_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(servers(), rapid.String()).Draw(t, "name")
		require.Equal(t, legalServer.MatchString(name), CheckServerName(name) == nil, "%q", name)
		if s := SuggestServerName(name); s != "" {
			require.NoError(t, CheckServerName(s), "%q is suggested for %q", s, name)
			require.Equal(t, s, SuggestServerName(s), "a suggestion is left alone")
		}
	})
}

func TestSuggestServerName(t *testing.T) {
	for name, want := range map[string]string{
		"My Server":              "My-Server",
		"@scope/pkg":             "scope-pkg",
		"a  &  b":                "a-b",
		"fs/":                    "fs",
		"":                       "",
		"---":                    "",
		"ßüñ":                    "",
		strings.Repeat("x ", 99): strings.TrimSuffix(strings.Repeat("x-", 32), "-"),
	} {
		require.Equal(t, want, SuggestServerName(name), "%q", name)
	}
}

func TestSplitName(t *testing.T) {
	for qualified, want := range map[string][]string{
		"fs/list":     {"fs", "list"},
		"fs/a/b":      {"fs", "a/b"}, // the first separator splits
		"fs//b":       {"fs", "/b"},
		"fs":          nil,
		"/list":       nil,
		"fs/":         nil,
		"":            nil,
		"/":           nil,
		"fs/ ":        {"fs", " "},
		"a\x00/\xffb": {"a\x00", "\xffb"},
	} {
		server, name, ok := SplitName(qualified)
		require.Equal(t, want != nil, ok, "%q", qualified)
		if ok {
			require.Equal(t, want, []string{server, name})
		}
	}
}

// Joining what was split gives the original.
func FuzzSplitName(f *testing.F) {
	for _, seed := range []string{"fs/list", "a/b/c", "/", "//", "x", "", "a/", "/a", "é/\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, qualified string) {
		server, name, ok := SplitName(qualified)
		if !ok {
			i := strings.Index(qualified, separator)
			require.True(t, i <= 0 || i == len(qualified)-1, "%q has two sides", qualified)
			return
		}
		require.NotEmpty(t, server)
		require.NotEmpty(t, name)
		require.NotContains(t, server, separator)
		require.Equal(t, qualified, Qualify(server, name))
	})
}

func TestAlias(t *testing.T) {
	require.Equal(t, "mcp__fs__list_directory", Alias("fs", "list_directory"))
	require.Equal(t, "mcp__a-b__C-7", Alias("a-b", "C-7"))
	exactly := strings.Repeat("t", 64-len("mcp__fs__"))
	require.Equal(t, "mcp__fs__"+exactly, Alias("fs", exactly), "64 characters need no hash")

	for _, c := range []struct{ server, name, want string }{
		{"fs", "a.b", `\Amcp__fs__a_b_[0-9a-f]{8}\z`},
		{"fs", "größe", `\Amcp__fs__gr__e_[0-9a-f]{8}\z`},
		{"my.fs", "list", `\Amcp__my_fs__list_[0-9a-f]{8}\z`},
		{"a__b", "c", `\Amcp__a__b__c_[0-9a-f]{8}\z`},
		{"a_", "c", `\Amcp__a___c_[0-9a-f]{8}\z`},
		{"a", "_c", `\Amcp__a___c_[0-9a-f]{8}\z`},
		{"fs", exactly + "t", `\Amcp__fs__t+_[0-9a-f]{8}\z`},
		{"fs", strings.Repeat("x", 500) + "_delete_everything", `\Amcp__fs__x+_delete_everything_[0-9a-f]{8}\z`},
		{strings.Repeat("s", 64), "delete", `\Amcp__s+__delete_[0-9a-f]{8}\z`},
		{strings.Repeat("s", 64), strings.Repeat("x", 99) + "end", `\Amcp__s{16}__x+end_[0-9a-f]{8}\z`},
	} {
		got := Alias(c.server, c.name)
		require.Regexp(t, c.want, got)
		require.Regexp(t, legalAlias, got)
	}
}

// The pairs would have the same alias in a simpler scheme: because of the place of the
// separator, of replaced or cut characters, or of a tool whose name is the alias of
// another.
func TestAlias_is_unique(t *testing.T) {
	forged := func(server, name, as string) string {
		_, tool, _ := strings.Cut(Alias(server, name), "mcp__"+as+"__")
		return tool
	}
	long := strings.Repeat("x", 80)
	for _, pair := range [][2][2]string{
		{{"a__b", "c"}, {"a", "b__c"}},
		{{"a_", "c"}, {"a", "_c"}},
		{{"a", "__c"}, {"a__", "c"}},
		{{"a.b", "c"}, {"a_b", "c"}},
		{{"a", "b c"}, {"a", "b.c"}},
		{{"a", "b/c"}, {"a", "b_c"}},
		{{"a", "1" + long}, {"a", "2" + long}},
		{{"fs", "a.b"}, {"fs", forged("fs", "a.b", "fs")}},
		{{"a__b", "c"}, {"a", forged("a__b", "c", "a")}},
		{{"a_", "c"}, {"a", forged("a_", "c", "a")}},
	} {
		require.NotEqual(t, Alias(pair[0][0], pair[0][1]), Alias(pair[1][0], pair[1][1]), "%q", pair)
	}
}

// Among any tools of any servers every alias is legal, unique, and independent of the
// order.
func TestAlias_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]string {
			return [2]string{servers().Draw(t, "server"), tools().Draw(t, "tool")}
		}), 1, 12).Draw(t, "pairs")
		// A tool may have the alias of another as its name.
		for _, p := range slices.Clone(pairs) {
			if _, name, found := strings.Cut(strings.TrimPrefix(Alias(p[0], p[1]), "mcp__"), "__"); found {
				pairs = append(pairs, [2]string{pairs[0][0], name}, [2]string{p[0], name})
			}
		}
		owner, aliases := map[string][2]string{}, make([]string, len(pairs))
		for i, p := range pairs {
			alias := Alias(p[0], p[1])
			require.Regexp(t, legalAlias, alias)
			require.True(t, strings.HasPrefix(alias, "mcp__"))
			if other, taken := owner[alias]; taken {
				require.Equal(t, other, p, "both are called %s", alias)
			}
			owner[alias], aliases[i] = p, alias
		}
		for i := range pairs {
			last := len(pairs) - 1 - i
			require.Equal(t, aliases[last], Alias(pairs[last][0], pairs[last][1]))
		}
	})
}

// Two tools with different names have different aliases.
func FuzzAlias(f *testing.F) {
	f.Add("fs", "list", "f", "s__list")
	f.Add("a__b", "c", "a", "b__c")
	f.Add("a", "b.c", "a", "b_c")
	f.Add("x", strings.Repeat("y", 70), "x", "é\xff")
	f.Fuzz(func(t *testing.T, server1, name1, server2, name2 string) {
		one, two := Alias(server1, name1), Alias(server2, name2)
		require.Regexp(t, legalAlias, one)
		require.Regexp(t, legalAlias, two)
		legal := CheckServerName(server1) == nil && CheckServerName(server2) == nil
		if legal && utf8.ValidString(name1) && utf8.ValidString(name2) && [2]string{server1, name1} != [2]string{server2, name2} {
			require.NotEqual(t, one, two)
		}
	})
}
