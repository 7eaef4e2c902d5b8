package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The parser calls itself for each level, and an overflow of the stack ends the
// process: what is nested too deep never gets there. Brackets within strings and
// comments are no levels.
func TestNesting(t *testing.T) {
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

// What is no configuration at all is told as such, with what to do.
func TestTextOfNoUse(t *testing.T) {
	for text, says := range map[string]string{
		"":                              "x.json:1:1: the file is empty",
		" \n\t":                         "x.json:1:1: the file is empty",
		"\xef\xbb\xbf":                  "x.json:1:1: the file is empty",
		"\xff\xfe{\x00}\x00":            "x.json:1:1: the file is written in UTF-16",
		"\xfe\xff\x00{\x00}":            "x.json:1:1: the file is written in UTF-16",
		"\n{\"mcpServer\": {\"a\": 1}}": `x.json:2:2: there is neither "mcpServers" nor "servers" in the file; rename "mcpServer" to "mcpServers"`,
		`{"a": 1}`:                      `put the servers below one of them`,
	} {
		_, err := Parse([]byte(text), "x.json")
		require.ErrorContains(t, err, says, "%q", text)
	}
}

// A file of a size that cannot be right is neither read to its end nor parsed.
func TestFileOfTooManyBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.json")
	text := []byte(`{"servers": {}}`)
	for size, good := range map[int]bool{maxSize: true, maxSize + 1: false, maxSize + 2: false} {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(text), bytes.Repeat([]byte(" "), size-len(text))...), 0o600))
		_, err := Load(path)
		if good {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "more than 4194304 bytes")
	}
}

// A name counts once in the whole file, and a second list is told of.
func TestServersInTwoLists(t *testing.T) {
	f, err := Parse([]byte("{\"mcpServers\": {\"a\": {\"command\": \"first\"}},\n\"servers\": {\"a\": {\"command\": \"second\"}, \"b\": {\"command\": \"x\"}}}"), "x.json")
	require.NoError(t, err)
	require.Equal(t, FormatMCPServers, f.Format)
	require.Len(t, f.Servers, 2)
	require.Equal(t, "first", f.Servers[0].Spec.Stdio.Command)
	require.Len(t, f.Problems, 2)
	require.Contains(t, f.Problems[0].String(), `x.json:2:1: warning: servers are listed a second time, below "servers", after "mcpServers" in line 1`)
	require.Contains(t, f.Problems[1].String(), `x.json:2:13: server "a": the name is taken by the entry in line 1`)
}
