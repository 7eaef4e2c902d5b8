package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func testParser() *parser {
	return &parser{text: &text{workspace: "/w"}, lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"A": "alpha", "EMPTY": "", "NESTED": "${A}", "TILDE": "~/x"}[name]
		return v, ok
	}}
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
