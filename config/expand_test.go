package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

func testParser() *parser {
	p := newParser()
	p.text, p.lookup = &text{workspace: "/w"}, func(name string) (string, bool) {
		v, ok := map[string]string{"A": "alpha", "EMPTY": "", "NESTED": "${A}", "TILDE": "~/x"}[name]
		return v, ok
	}
	return p
}

func TestExpand(t *testing.T) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                       "",
		"plain":                  "plain",
		"$A":                     "$A",
		"${A}":                   "alpha",
		"x${A}y${A}z":            "xalphayalphaz",
		"${env:A}":               "alpha",
		"${EMPTY}":               "",
		"${EMPTY:-d}":            "d",
		"${NONE:-}":              "",
		"${NONE:-a b}":           "a b",
		"$${A}":                  "${A}",
		"$$${A}":                 "$${A}",
		"${NESTED}":              "${A}", // the value is not expanded again
		"${workspaceFolder}/bin": "/w/bin",
		"${userHome}":            home,

		"${workspaceFolderBasename}": "w",
	} {
		got, err := testParser().expand(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"${NONE}":    "environment variable NONE is not set",
		"${":         "has no }",
		"${}":        "is not a variable",
		"${1A}":      "is not a variable",
		"${A B}":     "is not a variable",
		"${input:x}": "set MCPVISOR_INPUT_X",

		"${NONE:-${A}}": "defaults do not nest",
	} {
		_, err := testParser().expand(text)
		require.ErrorContains(t, err, want, text)
	}
	path, err := testParser().expandPath("~/bin")
	require.NoError(t, err)
	require.Equal(t, home+"/bin", path)
	for text, want := range map[string]string{"~": home, "${A}/~": "alpha/~", "~user/bin": "~user/bin", "${TILDE}": "~/x"} {
		path, err := testParser().expandPath(text)
		require.NoError(t, err)
		require.Equal(t, want, path, text)
	}
}

// The text after a name may be a misspelt default, and a secret.
func TestExpand_does_not_show_invalid_expressions(t *testing.T) {
	for _, text := range []string{"${NONE:s3cret}", "${NONE-s3cret}", "${NONE s3cret}"} {
		_, err := testParser().expand(text)
		require.ErrorContains(t, err, "${NONE…} is not a variable", text)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// The user is asked once for each input, even if they do not answer.
func TestExpand_asks_once_for_an_input(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no terminal")} {
		r, asked := testParser(), 0
		r.ask = func(i Input) (string, error) { asked++; return "the " + i.ID, failure }
		for range 2 {
			got, err := r.expand("${input:key}")
			require.ErrorIs(t, err, failure)
			if failure == nil {
				require.Equal(t, "the key", got)
			}
		}
		require.Equal(t, 1, asked)
	}
}

func FuzzExpand(f *testing.F) {
	for _, text := range []string{"${A}", "$${A}", "${NONE:-x}", "${input:x}", "$$${", "}${A"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := testParser().expand(text)
		if err != nil {
			require.NotContains(t, err.Error(), "alpha")
			return
		}
		if !strings.Contains(text, "${") {
			require.Equal(t, text, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"claude_desktop", "mcp", "vscode", "settings", "broken"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		f.Add(data)
	}
	const secret = "canary-7f3a"
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), secret) {
			return
		}
		file, err := Parse(data, "x.json", WithLookup(func(string) (string, bool) { return secret, true }))
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		if utf8.Valid(data) { // encoding/json, which reads it for the schema, replaces other bytes
			checkSchema(t, data, file)
		}
		for _, s := range file.Servers {
			if !s.Disabled {
				require.NoError(t, s.Spec.Validate())
			}
		}
		for _, p := range file.Problems {
			require.NotContains(t, p.String(), secret)
			require.Positive(t, p.Line)
			require.Positive(t, p.Column)
		}
	})
}

const inputFile = `{
  "inputs": [
    {"type": "promptString", "id": "api-key", "description": "API key", "password": true},
    {"type": "promptString", "id": "region", "default": "eu"},
    {"type": "pickString", "id": "size", "options": ["s", {"label": "Medium", "value": "m"}], "default": "m"},
    "not an object"
  ],
  "servers": {"s": {"command": "x", "args": ["${input:api-key}", "${input:region}", "${input:size}", "${input:other}"]}}
}`

// The variable answers first, then the user, then the default.
func TestInput(t *testing.T) {
	vars := map[string]string{"MCPVISOR_INPUT_API_KEY": "k", "MCPVISOR_INPUT_OTHER": "o"}
	f := mustParse(t, []byte(inputFile), "mcp.json", env(vars))
	require.Empty(t, f.Problems)
	require.Equal(t, []string{"k", "eu", "m", "o"}, f.Servers[0].Spec.Stdio.Args)
	require.Equal(t, []string{"k"}, f.Servers[0].Spec.Secrets, "only what is declared as a password")

	var asked []Input
	f = mustParse(t, []byte(inputFile), "mcp.json", env(vars), WithInput(func(i Input) (string, error) {
		asked = append(asked, i)
		return "answer " + i.ID, nil
	}))
	require.Equal(t, []string{"k", "answer region", "answer size", "o"}, f.Servers[0].Spec.Stdio.Args)
	require.Equal(t, []Input{{ID: "region", Default: "eu"}, {ID: "size", Default: "m", Options: []string{"s", "m"}}}, asked)

	f = mustParse(t, []byte(inputFile), "mcp.json", env(nil))
	require.Empty(t, f.Servers)
	require.Contains(t, f.Problems[0].Message, "${input:api-key} needs an answer of the user; set MCPVISOR_INPUT_API_KEY, or run the command in a terminal")
}

func TestInput_password_is_declared(t *testing.T) {
	var asked []Input
	_, err := Parse([]byte(inputFile), "mcp.json", env(nil), WithInput(func(i Input) (string, error) {
		asked = append(asked, i)
		return "x", nil
	}))
	require.NoError(t, err)
	require.Equal(t, Input{ID: "api-key", Description: "API key", Password: true}, asked[0])
}

func TestText_position(t *testing.T) {
	for _, data := range []string{"", "a", "\n", "a\nbc\n\nd", "a\n"} {
		text := &text{data: []byte(data)}
		for offset := -1; offset <= len(data)+1; offset++ {
			before := data[:min(max(offset, 0), len(data))]
			line, column := text.position(offset)
			require.Equal(t, 1+strings.Count(before, "\n"), line, "%q %d", data, offset)
			require.Equal(t, len(before)-strings.LastIndexByte(before, '\n'), column, "%q %d", data, offset)
		}
	}
}

// A long file with one line costs time in proportion to its length. With the square of it, this
// takes minutes.
func TestParse_many_entries_in_one_line(t *testing.T) {
	const n = 100_000
	file, err := Parse([]byte(`{"mcpServers":{`+strings.Repeat(`"a":{"command":"x"},`, n)+`}}`), "f.json")
	require.NoError(t, err)
	require.Len(t, file.Servers, 1)
	require.Len(t, file.Problems, n-1)
}

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
	f := mustParse(t, []byte(`{"servers": {"a b": {"command": "x"}, "c": {"command": "y"}}}`), "mcp.json")
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
