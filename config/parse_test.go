package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The JSON parser is recursive, and a stack overflow ends the process. So text that
// is nested too deep never reaches it. Brackets in strings and comments do not count.
func TestParse_nesting(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, good := range map[string]bool{
		`{"servers": {}, "x": ` + deep(maxDepth-1) + `}`:                                        true,
		`{"servers": {}, "x": ` + deep(maxDepth) + `}`:                                          false,
		`{"servers": {}, "x": [` + strings.Repeat(deep(3)+",", maxDepth) + `0]}`:                true,
		`{"servers": {}, "x": "` + strings.Repeat("[", 2*maxDepth) + `"}`:                       true,
		`{"servers": {}, "x": "\"` + strings.Repeat("[", 2*maxDepth) + `"}`:                     true,
		`{"servers": {}, "x": "\\", "y": ` + deep(maxDepth) + `}`:                               false,
		"{\"servers\": {}, // " + strings.Repeat("{", 2*maxDepth) + "\n}":                       true,
		"{\"servers\": {}, //\n \"x\": " + deep(maxDepth) + "}":                                 false,
		`{"servers": {}, /* ` + strings.Repeat("{", 2*maxDepth) + ` */}`:                        true,
		`{"servers": {}, /**/"x": ` + deep(maxDepth) + `}`:                                      false,
		"{\"servers\": {}, //" + strings.Repeat("\"", 3) + "\n\"x\": " + deep(2*maxDepth) + "}": false,
	} {
		_, err := Parse([]byte(text), "x.json")
		if good {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "nested more than 100 deep", text)
		require.Contains(t, err.Error(), "x.json:")
	}
}

// "journal" at the top is relative to its file, and that of the last file counts.
func TestLoadFiles_journal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, journal string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(`{"servers": {}`+journal+`}`), 0o600))
		return path
	}
	one, two, none := write("a/one.json", `, "journal": "calls.db"`), write("two.json", `, "journal": "/var/lib/calls.db"`), write("none.json", "")
	for _, row := range []struct {
		files []string
		want  string
	}{{[]string{none}, ""}, {[]string{one}, filepath.Join(dir, "a", "calls.db")}, {[]string{one, two, none}, "/var/lib/calls.db"}} {
		f, err := LoadFiles(row.files)
		require.NoError(t, err)
		require.Empty(t, f.Problems)
		require.Equal(t, row.want, f.Journal)
	}
	f, err := LoadFiles([]string{write("bad.json", `, "journal": true`)})
	require.NoError(t, err)
	require.Len(t, f.Problems, 1)
	require.Contains(t, f.Problems[0].String(), `"journal" is not the path of a file`)
	require.Empty(t, f.Journal)
}

// The error about a text that is not a configuration says what to do.
func TestParse_unusable_text(t *testing.T) {
	for text, says := range map[string]string{
		"":                              "x.json:1:1: the file is empty",
		" \n\t":                         "x.json:1:1: the file is empty",
		"\xef\xbb\xbf":                  "x.json:1:1: the file is empty",
		"\xff\xfe{\x00}\x00":            "x.json:1:1: the file is UTF-16",
		"\xfe\xff\x00{\x00}":            "x.json:1:1: the file is UTF-16",
		"\n{\"mcpServer\": {\"a\": 1}}": `x.json:2:2: the file has neither "mcpServers" nor "servers"; rename "mcpServer" to "mcpServers"`,
		`{"a": 1}`:                      `put the servers below one of them`,
	} {
		_, err := Parse([]byte(text), "x.json")
		require.ErrorContains(t, err, says, "%q", text)
	}
}

// A file that is too long is neither read to its end nor parsed.
func TestLoad_too_long(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.json")
	text := []byte(`{"servers": {}}`)
	for size, good := range map[int]bool{maxSize: true, maxSize + 1: false, maxSize + 2: false} {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(text), bytes.Repeat([]byte(" "), size-len(text))...), 0o600))
		_, err := Load(path)
		if good {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "longer than 4194304 bytes")
	}
}

// A name counts once in the whole file. A second list is used, with a warning.
func TestParse_two_lists(t *testing.T) {
	f, err := Parse([]byte("{\"mcpServers\": {\"a\": {\"command\": \"first\"}},\n\"servers\": {\"a\": {\"command\": \"second\"}, \"b\": {\"command\": \"x\"}}}"), "x.json")
	require.NoError(t, err)
	require.Len(t, f.Servers, 2)
	require.Equal(t, "first", f.Servers[0].Spec.Stdio.Command)
	require.Len(t, f.Problems, 2)
	require.Contains(t, f.Problems[0].String(), `config x.json:2:1: warning: servers are listed twice, below "servers" here and below "mcpServers" in line 1`)
	require.Contains(t, f.Problems[1].String(), `config x.json:2:13: server "a" is defined twice (first on line 1); rename or remove one`)
}
