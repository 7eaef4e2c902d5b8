package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoad_same_entries_have_equal_specs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k.pem"), []byte("x"), 0o600))
	load := func(t *testing.T, text string) *File {
		t.Helper()
		path := filepath.Join(dir, "m.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f, err := Load(path)
		require.NoError(t, err)
		require.Empty(t, f.Problems)
		return f
	}
	for name, entry := range map[string]string{
		"program":    `{"command":"x","args":["a"],"env":{"A":"b"},"retry":{"max_attempts":3,"jitter":0.2},"tools":{"deny":["x"]}}`,
		"endpoint":   `{"url":"https://h/mcp","headers":{"A":"b"}}`,
		"auth":       `{"url":"https://h/mcp","auth":true}`,
		"memory":     `{"url":"https://h/mcp","auth":{"store":"memory"}}`,
		"keyring":    `{"url":"https://h/mcp","auth":{"store":"keyring"}}`,
		"directory":  `{"url":"https://h/mcp","auth":{"store":"./tokens"}}`,
		"assertion":  `{"url":"https://h/mcp","auth":{"client_id":"a","issuer":"https://i","assertion_file":"k.pem"}}`,
		"enterprise": `{"url":"https://h/mcp","auth":{"client_id":"a","enterprise":{"token_endpoint":"https://i","client_id":"b","id_token_file":"k.pem"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			first := load(t, `{"mcpServers":{"a":`+entry+`}}`).Specs()[0]
			moved := load(t, "// a comment\n\n"+`{"mcpServers":{"a":`+entry+`}}`).Specs()[0]
			require.NotEqual(t, first.Origin, moved.Origin)
			require.True(t, first.Equal(moved))
		})
	}
	for name, pair := range map[string][2]string{
		"assertion": {`{"client_id":"a","issuer":"https://i","assertion_file":"k.pem"}`, `{"client_id":"a","issuer":"https://i","assertion_file":"l.pem"}`},
		"store":     {`{"store":"./a"}`, `{"store":"./b"}`},
		"kind":      {`{"store":"memory"}`, `{"store":"keyring"}`},
	} {
		t.Run("another_"+name, func(t *testing.T) {
			a := load(t, `{"mcpServers":{"a":{"url":"https://h/mcp","auth":`+pair[0]+`}}}`).Specs()[0]
			b := load(t, `{"mcpServers":{"a":{"url":"https://h/mcp","auth":`+pair[1]+`}}}`).Specs()[0]
			require.False(t, a.Equal(b))
		})
	}
}

func TestFile_Broken(t *testing.T) {
	f, err := Parse([]byte(`{"mcpServers": {
		"good": {"command": "x"},
		"off": {"command": "${UNSET_MCPVISOR}", "disabled": true},
		"unset": {"command": "${UNSET_MCPVISOR}"},
		"ms/play wright": {"comand": "x"},
		"list": [],
		"warned": {"command": "x", "colour": 1},
		"good": {"command": "y"},
		"list": {"command": "y"}}}`), "m.json")
	require.NoError(t, err)
	derived := f.Broken()[1]
	require.Regexp(t, `^ms-play.wright$`, derived)
	require.Equal(t, []string{"unset", derived, "list"}, f.Broken())
	var usable []string
	for _, s := range f.Specs() {
		usable = append(usable, s.Name)
	}
	require.Equal(t, []string{"good", "warned"}, usable)
}

func TestFile_Broken_of_several_files(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "user.json"), filepath.Join(dir, "project.json")}
	require.NoError(t, os.WriteFile(paths[0], []byte(`{"mcpServers": {"a": {}, "b": {"command": "x"}, "c": {}}}`), 0o600))
	require.NoError(t, os.WriteFile(paths[1], []byte(`{"mcpServers": {"a": {"command": "x"}, "b": {}}}`), 0o600))
	f, err := LoadFiles(paths)
	require.NoError(t, err)
	require.Equal(t, []string{"c", "b"}, f.Broken(), "a of the first file is replaced by a sound entry, b by a broken one")
}
