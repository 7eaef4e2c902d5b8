package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// writeFiles writes files, by name, into a new directory.
func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// An entry of a later file replaces that of an earlier one as a whole, and says so.
func TestLoadFiles(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"user.json": `{"mcpServers": {
			"fs": {"command": "old", "args": ["${NOT_SET}", "${input:never}"], "nonsense": 1},
			"web": {"url": "https://h/mcp", "headers": {"X": "${input:token}"}},
			"off": {"command": "x"}, "broken": {"command": "works"}
		}, "inputs": [{"id": "token", "default": "user"}]}`,
		"project.json": `{"servers": {
			"fs": {"command": "new", "cwd": "sub"}, "off": {"disabled": true},
			"broken": {"comand": "x"}
		}, "inputs": [{"id": "token", "default": "project"}]}`,
	})
	user, project := filepath.Join(dir, "user.json"), filepath.Join(dir, "project.json")
	f, err := LoadFiles([]string{user, project}, env(nil))
	require.NoError(t, err)
	require.Equal(t, user+", "+project, f.Path)
	require.Equal(t, []string{user, project}, f.Paths)

	var names []string
	for _, s := range f.Servers {
		names = append(names, s.Spec.Name)
	}
	require.Equal(t, []string{"web", "fs", "off"}, names)
	require.Equal(t, "project", f.Servers[0].Spec.HTTP.Headers["X"], "the last declaration of an input counts")
	require.Equal(t, user, f.Servers[0].Path)
	require.Equal(t, user+":3", f.Servers[0].Spec.Origin)
	require.Empty(t, f.Servers[0].Replaces)
	fs := f.Servers[1]
	require.Equal(t, "new", fs.Spec.Stdio.Command)
	require.Empty(t, fs.Spec.Stdio.Args, "nothing of the replaced entry is left")
	require.Equal(t, filepath.Join(dir, "sub"), fs.Spec.Stdio.Dir)
	require.Equal(t, []string{user + ":2"}, fs.Replaces)
	require.Equal(t, project+":2", fs.Spec.Origin)
	require.True(t, f.Servers[2].Disabled, "a project may switch a server of the user off")

	require.Len(t, f.Problems, 1, "the problems of replaced entries do not matter: %v", f.Problems)
	require.Equal(t, project, f.Problems[0].File)
	require.Contains(t, f.Problems[0].Message, "comand", "the earlier entry of that name is not used instead")
}

// The files are known in their order, and three of them replace each other in turn.
func TestLoadFiles_order(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.json": `{"servers": {"x": {"command": "a"}, "a b": {"command": "a"}}}`,
		"b.json": `{"servers": {"x": {"command": "b"}}}`,
		"c.json": `{"servers": {"x": {"command": "c"}, "a b": {"command": "c"}}}`,
	})
	path := func(name string) string { return filepath.Join(dir, name+".json") }
	for order, command := range map[string]string{"a b c": "c", "c b a": "a", "a c b": "b"} {
		var paths []string
		for _, name := range strings.Fields(order) {
			paths = append(paths, path(name))
		}
		f, err := LoadFiles(paths)
		require.NoError(t, err)
		s, ok := f.Find("x")
		require.True(t, ok)
		require.Equal(t, command, s.Spec.Stdio.Command)
		require.Equal(t, []string{paths[0] + ":1", paths[1] + ":1"}, s.Replaces)
		require.Len(t, f.Servers, 2, "a derived name is the same in all files")
	}
	_, err := LoadFiles([]string{path("a"), path("none")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The user is not asked for what a disabled entry would need.
func TestDisabled_asks_for_nothing(t *testing.T) {
	for _, members := range []string{`"command": "${input:x}", "disabled": true`, `"enabled": false, "env": {"A": "${keyring:a/b}"}`} {
		f, err := Parse([]byte(`{"servers": {"s": {`+members+`}}}`), "mcp.json",
			WithInput(func(Input) (string, error) { t.Error("it asks"); return "", nil }),
			WithKeyring(func(string, string) (string, error) { t.Error("it opens the keyring"); return "", nil }))
		require.NoError(t, err)
		require.Empty(t, f.Problems)
		require.True(t, f.Servers[0].Disabled)
	}
}

// Nothing is read in entries of servers that are not asked for.
func TestWithServers(t *testing.T) {
	const text = `{"inputs": [{"id": "a"}], "servers": {
		"one": {"command": "${input:a}", "cwd": "${NOT_SET:-d}"}, "two": {"command": "${input:b}", "env": {"A": "${keyring:a/b}"}},
		"x/y": {"command": "${input:c}"}, "odd": {"comand": "${file:gone}"}, "off": {"disabled": true}, "text": 5, "two": {}}}`
	for _, c := range []struct{ names, asked, read, problems string }{
		{"one", "a", "one", ""},
		{"", "", "", ""},
		{"one off", "a", "one", ""},
		{"x/y", "c", "x-y", "x/y"},
		{"x-y", "c", "x-y", "x/y"},
		{"odd text lost", "", "", "odd text"},
		{"two", "b", "two", "two"}, // it is defined twice
	} {
		var asked, read, problems, opened []string
		f, err := Parse([]byte(text), "mcp.json", WithServers(strings.Fields(c.names)...),
			WithInput(func(i Input) (string, error) { asked = append(asked, i.ID); return i.ID, nil }),
			WithKeyring(func(service, _ string) (string, error) { opened = append(opened, service); return "k", nil }))
		require.NoError(t, err)
		for _, s := range f.Specs() {
			read = append(read, s.Name)
		}
		for _, p := range f.Problems {
			problems = append(problems, p.Server)
		}
		require.Equal(t, strings.Fields(c.asked), append([]string{}, asked...), c.names)
		require.Equal(t, strings.Fields(c.read), append([]string{}, read...), c.names)
		require.Equal(t, strings.Fields(c.problems), append([]string{}, problems...), c.names)
		require.Equal(t, c.names == "two", opened != nil, "the keyring stays closed")
		var skipped []string
		for _, s := range f.Servers {
			if s.Skipped {
				require.Equal(t, mcpvisor.ServerSpec{Name: s.Spec.Name, Origin: s.Spec.Origin}, s.Spec)
				skipped = append(skipped, s.Entry)
			}
			require.Equal(t, s.Entry == "off", s.Disabled)
		}
		if c.names == "" {
			require.Equal(t, []string{"one", "two", "x/y", "odd", "off", "text"}, skipped)
		}
	}
}

// The value of ${file:…} is the text without its line breaks, and a secret of the server.
func TestExpand_file(t *testing.T) {
	dir := writeFiles(t, map[string]string{"key": "s3cret-key\r\n", "none": "\n", "long": strings.Repeat("x", maxSecretFile+1)})
	t.Setenv("HOME", dir)
	for _, name := range []string{"key", "./key", filepath.Join(dir, "key"), "~/key"} {
		f, err := Parse([]byte(`{"servers": {"s": {"url": "https://h/s3cret-key/mcp", "headers": {"Authorization": "Bearer ${file:`+name+`}"}}}}`),
			filepath.Join(dir, "mcp.json"))
		require.NoError(t, err)
		require.Empty(t, f.Problems)
		require.Equal(t, "Bearer s3cret-key", f.Servers[0].Spec.HTTP.Headers["Authorization"])
		require.Equal(t, []string{"s3cret-key"}, f.Servers[0].Spec.Secrets)
		require.NotContains(t, f.Servers[0].Spec.Target(), "s3cret", "it is masked where the server is shown")
	}
	for name, says := range map[string]string{
		"gone": "${file:gone}: the file does not exist; create it", "none": "the file is empty", "long": "longer than 65536 bytes",
		".": "not a regular file", "": "${file:} names no file", "key/x": "cannot be reached",
	} {
		f, err := Parse([]byte(`{"servers": {"s": {"command": "x", "env": {"KEY": "${file:`+name+`}"}}}}`), filepath.Join(dir, "mcp.json"))
		require.NoError(t, err)
		require.Len(t, f.Problems, 1, name)
		require.Contains(t, f.Problems[0].String(), says)
		require.Contains(t, f.Problems[0].String(), `mcp.json:1:51: server "s": in "env.KEY": `)
	}
}

func TestExpand_keyring(t *testing.T) {
	const text = `{"servers": {"s": {"command": "x", "env": {"KEY": "${keyring:ENTRY}"}}}}`
	load := func(entry string, opts ...Option) *File {
		f, err := Parse([]byte(strings.ReplaceAll(text, "ENTRY", entry)), "mcp.json", opts...)
		require.NoError(t, err)
		return f
	}
	f := load("mcp/github/token", WithKeyring(func(service, account string) (string, error) {
		require.Equal(t, []string{"mcp", "github/token"}, []string{service, account})
		return "s3cret-key", nil
	}))
	require.Equal(t, "s3cret-key", f.Servers[0].Spec.Stdio.Env["KEY"])
	require.Equal(t, []string{"s3cret-key"}, f.Servers[0].Spec.Secrets)

	require.Contains(t, load("a/b").Problems[0].Message, "this program opens no keyring")
	locked := WithKeyring(func(string, string) (string, error) { return "", errors.New("it is locked") })
	require.Contains(t, load("a/b", locked).Problems[0].Message, `in "env.KEY": ${keyring:a/b}: it is locked`)
	for _, entry := range []string{"", "a", "/a", "a/"} {
		require.Contains(t, load(entry, locked).Problems[0].Message, "write ${keyring:service/account}", entry)
	}
}
