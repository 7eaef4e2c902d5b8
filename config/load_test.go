package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
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
	f := mustLoadFiles(t, []string{user, project}, env(nil))
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
		f := mustLoadFiles(t, paths)
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
		f := mustParse(t, []byte(`{"servers": {"s": {`+members+`}}}`), "mcp.json",
			WithInput(func(Input) (string, error) { t.Error("it asks"); return "", nil }),
			WithKeyring(func(string, string) (string, error) { t.Error("it opens the keyring"); return "", nil }))
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
		f := mustParse(t, []byte(text), "mcp.json", WithServers(strings.Fields(c.names)...),
			WithInput(func(i Input) (string, error) { asked = append(asked, i.ID); return i.ID, nil }),
			WithKeyring(func(service, _ string) (string, error) { opened = append(opened, service); return "k", nil }))
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
		f := mustParse(t, []byte(`{"servers": {"s": {"url": "https://h/s3cret-key/mcp", "headers": {"Authorization": "Bearer ${file:`+name+`}"}}}}`),
			filepath.Join(dir, "mcp.json"))
		require.Empty(t, f.Problems)
		require.Equal(t, "Bearer s3cret-key", f.Servers[0].Spec.HTTP.Headers["Authorization"])
		require.Equal(t, []string{"s3cret-key"}, f.Servers[0].Spec.Secrets)
		require.NotContains(t, f.Servers[0].Spec.Target(), "s3cret", "it is masked where the server is shown")
	}
	for name, says := range map[string]string{
		"gone": "${file:gone}: the file does not exist; create it", "none": "the file is empty", "long": "longer than 65536 bytes",
		".": "not a regular file", "": "${file:} names no file", "key/x": "cannot be reached",
	} {
		f := mustParse(t, []byte(`{"servers": {"s": {"command": "x", "env": {"KEY": "${file:`+name+`}"}}}}`), filepath.Join(dir, "mcp.json"))
		require.Len(t, f.Problems, 1, name)
		require.Contains(t, f.Problems[0].String(), says)
		require.Contains(t, f.Problems[0].String(), `mcp.json:1:51: server "s": in "env.KEY": `)
	}
}

func TestExpand_keyring(t *testing.T) {
	const text = `{"servers": {"s": {"command": "x", "env": {"KEY": "${keyring:ENTRY}"}}}}`
	load := func(entry string, opts ...Option) *File {
		f := mustParse(t, []byte(strings.ReplaceAll(text, "ENTRY", entry)), "mcp.json", opts...)
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

// A program runs once for all places that name it, and its output is a secret.
func TestExpand_command(t *testing.T) {
	load := func(expression string, opts ...Option) *File {
		return mustParse(t, []byte(`{"servers": {"s": {"command": "x", "env": {"KEY": "${`+expression+`}", "TWO": "a ${`+expression+`}"}}}}`), "/w/mcp.json", opts...)
	}
	ran := 0
	run := func(output string, err error) Option {
		return WithCommands(func(command []string, dir string) (string, error) {
			ran++
			require.Equal(t, []string{"pass", "show", "mcp/github"}, command)
			require.Equal(t, "/w", dir)
			return output, err
		})
	}
	f := load("command:pass  show mcp/github", run("s3cret-key\r\n\n", nil))
	require.Equal(t, 1, ran)
	require.Equal(t, "a s3cret-key", f.Servers[0].Spec.Stdio.Env["TWO"])
	require.Equal(t, []string{"s3cret-key", "s3cret-key"}, f.Servers[0].Spec.Secrets)
	require.Contains(t, load("command:pass show mcp/github").Problems[0].Message, "this program runs no commands")
	require.Contains(t, load("command:pass show mcp/github", run("", errors.New("exit status 1: no such entry"))).Problems[0].Message, `in "env.KEY": ${command:pass show mcp/github}: exit status 1: no such entry`)
	require.Contains(t, load("command:pass show mcp/github", run("\n", nil)).Problems[0].Message, "it printed nothing")
	require.Contains(t, load("command: ", run("", nil)).Problems[0].Message, "names no program")
}

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
		f := mustLoadFiles(t, row.files)
		require.Empty(t, f.Problems)
		require.Equal(t, row.want, f.Journal)
	}
	f := mustLoadFiles(t, []string{write("bad.json", `, "journal": true`)})
	require.Len(t, f.Problems, 1)
	require.Contains(t, f.Problems[0].String(), `"journal" is not the path of a file`)
	require.Empty(t, f.Journal)
	f = mustLoadFiles(t, []string{write("a/records.json", `, "records": "kept"`)})
	require.Empty(t, f.Problems)
	require.Equal(t, filepath.Join(dir, "a", "kept"), f.Records)
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
	f := mustParse(t, []byte("{\"mcpServers\": {\"a\": {\"command\": \"first\"}},\n\"servers\": {\"a\": {\"command\": \"second\"}, \"b\": {\"command\": \"x\"}}}"), "x.json")
	require.Len(t, f.Servers, 2)
	require.Equal(t, "first", f.Servers[0].Spec.Stdio.Command)
	require.Len(t, f.Problems, 2)
	require.Contains(t, f.Problems[0].String(), `config x.json:2:1: warning: servers are listed twice, below "servers" here and below "mcpServers" in line 1`)
	require.Contains(t, f.Problems[1].String(), `config x.json:2:13: server "a" is defined twice (first on line 1); rename or remove one`)
}

func TestLoad_same_entries_have_equal_specs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k.pem"), []byte("x"), 0o600))
	load := func(t *testing.T, text string) *File {
		t.Helper()
		path := filepath.Join(dir, "m.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f := mustLoadFiles(t, []string{path})
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
		"secret":     `{"url":"https://h/mcp","auth":{"client_id":"me","client_secret":"s","scopes":["a","b"]}}`,
		"key":        `{"url":"https://h/mcp","auth":{"grant":"client_credentials","client_id":"me","private_key_file":"k.pem"}}`,
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
	f := mustParse(t, []byte(`{"mcpServers": {
		"good": {"command": "x"},
		"off": {"command": "${UNSET_MCPVISOR}", "disabled": true},
		"unset": {"command": "${UNSET_MCPVISOR}"},
		"ms/play wright": {"comand": "x"},
		"list": [],
		"warned": {"command": "x", "colour": 1},
		"good": {"command": "y"},
		"list": {"command": "y"}}}`), "m.json")
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
	dir := writeFiles(t, map[string]string{"user.json": `{"mcpServers": {"a": {}, "b": {"command": "x"}, "c": {}}}`,
		"project.json": `{"mcpServers": {"a": {"command": "x"}, "b": {}}}`})
	f := mustLoadFiles(t, []string{filepath.Join(dir, "user.json"), filepath.Join(dir, "project.json")})
	require.Equal(t, []string{"c", "b"}, f.Broken(), "a of the first file is replaced by a sound entry, b by a broken one")
}

// Each field of Limits, Timeouts and Probe has a key.
func TestKeys_cover_every_bound(t *testing.T) {
	known := map[string]bool{}
	for _, k := range configkeys.All() {
		known[k.Field] = true
	}
	for prefix, value := range map[string]any{"Limits.": mcpvisor.Limits{}, "Timeouts.": mcpvisor.Timeouts{}, "Probe.": mcpvisor.Probe{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			require.True(t, known[prefix+f.Name], "%s has no key; add a row to policy_keys.go", prefix+f.Name)
		}
	}
}

// A program that only checks a configuration needs none of the files with secrets.
func TestWithFiles(t *testing.T) {
	text := []byte(`{"mcpServers": {"a": {"command": "x", "env": {"KEY": "${file:/nowhere/key}"}}}}`)
	f, err := Parse(text, "c.json", WithFiles(func(path string) (string, error) {
		require.Equal(t, "/nowhere/key", path)
		return "value", nil
	}))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, "value", f.Servers[0].Spec.Stdio.Env["KEY"])
	require.Contains(t, f.Servers[0].Spec.Secrets, "value")
	f = mustParse(t, text, "c.json", WithFiles(func(string) (string, error) { return "", errors.New("no") }))
	require.Contains(t, f.Problems[0].Message, "${file:/nowhere/key}: no")
	f = mustParse(t, text, "c.json", WithFiles(nil))
	require.Contains(t, f.Problems[0].Message, "does not exist")
}
