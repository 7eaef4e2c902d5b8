package configfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/config"
)

// server is an entry for tests.
func server(command string) Object {
	return Object{{"command", command}, {"args", []string{"-y", "<&>"}}, {"env", Object{{"A", "${A}"}}}}
}

func open(t *testing.T, text string) *File {
	t.Helper()
	f, err := parse("x.json", []byte(text))
	require.NoError(t, err)
	return f
}

// The rest of the file stays as it is, byte by byte: comments, order, formatting.
func TestSet_adds(t *testing.T) {
	for name, c := range map[string][2]string{
		"empty list": {"{\n  \"mcpServers\": {}\n}\n",
			"{\n  \"mcpServers\": {\n    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"<&>\"],\n      \"env\": {\n        \"A\": \"${A}\"\n      }\n    }\n  }\n}\n"},
		"comments and trailing commas": {"// mine\n{\n\t\"servers\": {\n\t\t// first\n\t\t\"a\": {\"command\": \"a\"}, // behind\n\t\t// last\n\t},\n}\n",
			"// mine\n{\n\t\"servers\": {\n\t\t// first\n\t\t\"a\": {\"command\": \"a\"}, // behind\n\t\t// last\n\t\t\"new\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"-y\", \"<&>\"],\n\t\t\t\"env\": {\n\t\t\t\t\"A\": \"${A}\"\n\t\t\t}\n\t\t},\n\t},\n}\n"},
		"comment without a comma": {"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"a\"} // behind\n    }\n}",
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"a\"}, // behind\n        \"new\": {\n            \"command\": \"x\",\n            \"args\": [\"-y\", \"<&>\"],\n            \"env\": {\n                \"A\": \"${A}\"\n            }\n        }\n    }\n}"},
		"one line": {`{"mcpServers": {"a": {"command": "a"}}, "other": 1}`,
			`{"mcpServers": {"a": {"command": "a"}, "new": {"command": "x", "args": ["-y", "<&>"], "env": {"A": "${A}"}}}, "other": 1}`},
		"no list": {"{\n  \"other\": true\n}\n",
			"{\n  \"other\": true,\n  \"mcpServers\": {\n    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"<&>\"],\n      \"env\": {\n        \"A\": \"${A}\"\n      }\n    }\n  }\n}\n"},
		"settings of VS Code": {"{\n  \"mcp\": {\n    \"servers\": {\n      \"a\": {}\n    }\n  }\n}",
			"{\n  \"mcp\": {\n    \"servers\": {\n      \"a\": {},\n      \"new\": {\n        \"command\": \"x\",\n        \"args\": [\"-y\", \"<&>\"],\n        \"env\": {\n          \"A\": \"${A}\"\n        }\n      }\n    }\n  }\n}"},
		"carriage returns": {"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n",
			"\xef\xbb\xbf{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"new\": {\r\n      \"command\": \"x\",\r\n      \"args\": [\"-y\", \"<&>\"],\r\n      \"env\": {\r\n        \"A\": \"${A}\"\r\n      }\r\n    }\r\n  }\r\n}\r\n"},
	} {
		f := open(t, c[0])
		require.NoError(t, f.Set("new", server("x")))
		require.Equal(t, c[1], string(f.Bytes()), name)
	}
}

// A comment before a key is no part of its indentation.
func TestSet_comment_before_the_key(t *testing.T) {
	for _, comment := range []string{"/* my servers */", "/* 1\n   2 */"} {
		f := open(t, "{\n  "+comment+" \"mcpServers\": {\n    \"a\": {}\n  }\n}")
		require.NoError(t, f.Set("b", Object{{"command", "b"}}))
		require.Equal(t, "{\n  "+comment+" \"mcpServers\": {\n    \"a\": {},\n    \"b\": {\n"+
			"      \"command\": \"b\"\n    }\n  }\n}", string(f.Bytes()))
		require.True(t, f.Remove("a"))
		require.True(t, f.Remove("b"))
		require.NoError(t, f.Set("c", Object{}))
		require.Equal(t, "{\n  "+comment+" \"mcpServers\": {\n    \"c\": {}\n  }\n}", string(f.Bytes()))
	}
}

// The list takes the place of a value that lists nothing. Any other value is an error.
func TestSet_without_a_list(t *testing.T) {
	for before, want := range map[string]string{
		`{"mcpServers":null}`:            `{"mcpServers":{"c": {}}}`,
		`{"mcpServers":[]}`:              `{"mcpServers":{"c": {}}}`,
		`{"a": 1, "servers": null /**/}`: `{"a": 1, "servers": {"c": {}} /**/}`,
		`{"mcp": {"servers": null}}`:     `{"mcp": {"servers": {"c": {}}}}`,
		`{"mcp": {"servers": []}}`:       `{"mcp": {"servers": {"c": {}}}}`,
		`{"mcp": {"inputs": []}}`:        `{"mcp": {"inputs": []}, "mcpServers": {"c": {}}}`,
		`{"mcp": null}`:                  `{"mcp": null, "mcpServers": {"c": {}}}`,
		// The loader reads no file in which one of several lists is null.
		`{"servers": null, "mcp": {"mcpServers": {}, "servers": null}}`: `{"servers": {"c": {}}, "mcp": {"mcpServers": {}, "servers": {}}}`,
		`{"mcp": {"servers": null}, "mcpServers": {"c": {}}}`:           `{"mcp": {"servers": {}}, "mcpServers": {"c": {}}}`,
	} {
		f := open(t, before)
		require.NoError(t, f.Set("c", Object{}))
		var got, wanted map[string]any
		text, err := hujson.Standardize(f.Bytes())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &got))
		text, err = hujson.Standardize([]byte(want))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &wanted))
		require.Equal(t, wanted, got)
		require.Len(t, f.top().object.Members, len(wanted), "no key is there twice")
		loaded, err := config.Parse(f.Bytes(), "mcp.json")
		require.NoError(t, err, "the loader can read it")
		require.Contains(t, fmt.Sprint(loaded.Problems), `server "c" has neither "command" nor "url"`)
	}
	for _, text := range []string{`{"mcpServers": [1]}`, `{"mcpServers": "x"}`, `{"servers": false}`,
		`{"mcp": {"servers": 5}}`, `{"mcpServers": null, "mcp": {"servers": [{}]}}`, `{"mcpServers": {}, "servers": 5}`} {
		f := open(t, text)
		require.ErrorContains(t, f.Set("c", Object{}), "is not an object")
		require.Equal(t, text, string(f.Bytes()))
	}
}

func TestSet_replaces(t *testing.T) {
	f := open(t, "{\n  \"mcpServers\": {\n    // about a\n    \"a\": {\"command\": \"a\"}, // behind\n    \"b\": {}\n  }\n}\n")
	require.NoError(t, f.Set("a", Object{{"url", "https://h/?a&b"}}))
	require.Equal(t, "{\n  \"mcpServers\": {\n    // about a\n    \"a\": {\n      \"url\": \"https://h/?a&b\"\n    }, // behind\n    \"b\": {}\n  }\n}\n", string(f.Bytes()))
	value, line, ok := f.Entry("b")
	require.True(t, ok)
	require.JSONEq(t, `{}`, string(value))
	require.Equal(t, 7, line)
	require.Equal(t, []string{"a", "b"}, f.Names())
}

// Comments of the entry go with it, those of its neighbours stay.
func TestRemove(t *testing.T) {
	const before = "{\n  \"mcpServers\": {\n    // about a\n    \"a\": {}, // behind a\n    /* about\n       b */\n    \"b\": {}, /* behind b */\n    \"c\": {} // behind c\n    // end\n  }\n}\n"
	for name, want := range map[string]string{
		"a": "{\n  \"mcpServers\": {\n    /* about\n       b */\n    \"b\": {}, /* behind b */\n    \"c\": {} // behind c\n    // end\n  }\n}\n",
		"b": "{\n  \"mcpServers\": {\n    // about a\n    \"a\": {}, // behind a\n    \"c\": {} // behind c\n    // end\n  }\n}\n",
		"c": "{\n  \"mcpServers\": {\n    // about a\n    \"a\": {}, // behind a\n    /* about\n       b */\n    \"b\": {} /* behind b */\n    // end\n  }\n}\n",
	} {
		f := open(t, before)
		require.True(t, f.Remove(name))
		require.Equal(t, want, string(f.Bytes()), name)
		require.False(t, f.Remove(name))
	}
	for text, want := range map[string]string{
		`{"servers": {"a": {}, "b": {}, "c": {}}}`:        `{"servers": {"b": {}, "c": {}}}`,
		`{"servers": { "a": {} }}`:                        `{"servers": { }}`,
		"{\"servers\": {\n  \"z\": {},\n  \"a\": {},\n}}": "{\"servers\": {\n  \"z\": {},\n}}",
		"{\"servers\": {\"z\": {} /* z */, \"a\": {}}}":   "{\"servers\": {\"z\": {} /* z */}}",
	} {
		f := open(t, text)
		require.True(t, f.Remove("a"))
		require.Equal(t, want, string(f.Bytes()), text)
	}
}

func TestAddInput(t *testing.T) {
	f := open(t, "{\n  \"servers\": {}\n}\n")
	require.Nil(t, f.Input("key"))
	require.NoError(t, f.AddInput(Object{{"id", "key"}, {"password", true}}))
	require.NoError(t, f.AddInput(Object{{"id", "two"}}))
	require.JSONEq(t, `{"id": "key", "password": true}`, string(f.Input("key")))
	require.JSONEq(t, `{"id": "two"}`, string(f.Input("two")))
	require.Equal(t, "{\n  \"servers\": {},\n  \"inputs\": [{\"id\": \"key\", \"password\": true}, {\"id\": \"two\"}]\n}\n", string(f.Bytes()))
	f = open(t, "{\n  \"inputs\": [\n    {\"id\": \"a\"}, // a\n  ]\n}")
	require.NoError(t, f.AddInput(Object{{"id", "b"}}))
	require.Equal(t, "{\n  \"inputs\": [\n    {\"id\": \"a\"}, // a\n    {\"id\": \"b\"},\n  ]\n}", string(f.Bytes()))
}

// extras are what may stand between the parts of a file.
var extras = []string{"", " ", "\n", "\n  ", " // c\n  ", "/* c */", "\n  /* a\n b */\n  ", "\r\n\t", " /**/ // x\n", "\n  /* d */ ", "/* 1\n 2 */ "}

// Any sequence of changes leaves valid JSON, and every other entry and comment of the top.
func TestFile_any_sequence_of_changes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extra := func() string { return rapid.SampledFrom(extras).Draw(t, "extra") }
		var b strings.Builder
		b.WriteString("// top\n{" + extra() + `"mcpServers"` + extra() + ":" + extra() + "{")
		want := map[string]string{}
		for i, n := 0, rapid.IntRange(0, 3).Draw(t, "entries"); i < n; i++ {
			name := string(rune('a' + i))
			want[name] = `{"command":"` + name + `"}`
			b.WriteString(extra() + `"` + name + `"` + extra() + ":" + extra() + want[name] + extra())
			if i+1 < n || rapid.Bool().Draw(t, "trailing") {
				b.WriteString(",")
			}
		}
		b.WriteString(extra() + "}" + extra() + "}" + extra())
		f, err := parse("x.json", []byte(b.String()))
		if err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		require.Equal(t, b.String(), string(f.Bytes()))
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			name := string(rune('a' + rapid.IntRange(0, 5).Draw(t, "name")))
			if rapid.Bool().Draw(t, "set") {
				require.NoError(t, f.Set(name, Object{{"command", name + "2"}}))
				want[name] = `{"command":"` + name + `2"}`
			} else {
				_, has := want[name]
				require.Equal(t, has, f.Remove(name))
				delete(want, name)
			}
			text := f.Bytes()
			f, err = parse("x.json", text)
			require.NoError(t, err, "%s", text)
			require.Len(t, f.Names(), len(want), "%s", text)
			for name, value := range want {
				got, _, ok := f.Entry(name)
				require.True(t, ok, "%s", text)
				require.JSONEq(t, value, string(got))
			}
			require.True(t, strings.HasPrefix(string(text), "// top\n{"))
		}
	})
}

func TestObject(t *testing.T) {
	o := Object{{"b", 1}, {"a", Object{}}}
	o.Set("b", 2)
	o.Set("c", []any{Object{{"x", nil}}})
	require.Equal(t, 2, o.Get("b"))
	require.Nil(t, o.Get("z"))
	text, err := json.Marshal(o)
	require.NoError(t, err)
	require.Equal(t, `{"b":2,"a":{},"c":[{"x":null}]}`, string(text))
	long := Object{{"args", []string{strings.Repeat("x", 60), strings.Repeat("y", 60)}}}
	rendered, err := long.render("", "  ")
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(rendered, "\n"))
	require.True(t, json.Valid([]byte(rendered)))
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(filepath.Join(dir, "none.json"))
	require.NoError(t, err)
	require.False(t, f.Exists())
	for text, says := range map[string]string{"{": "not valid JSON", "[]": "not a JSON object"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte(text), 0o600))
		_, err := Open(filepath.Join(dir, "x.json"))
		require.ErrorContains(t, err, says)
	}
	_, err = hujson.Parse([]byte(Starter()))
	require.NoError(t, err)
}

// What an entry would run or reach is shown as it is written, without its secrets.
func TestTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	for entry, want := range map[string]string{
		`{"command": "node", "args": ["${X}", "--key=canary"]}`:                 "node ${X}",
		`{"command": "${HOME}/bin/x", "env": {"A": "canary"}}`:                  "${HOME}/bin/x",
		`{"url": "https://u:canary@${HOST}:8080/${A}/mcp?k=canary"}`:            "https://${HOST}:8080/${A}/mcp",
		`{"url": "${input:url}"}`:                                               "${input:url}",
		`{"url": "https://${HOST:-canary.example}/${A:-canary}"}`:               "https://${HOST}/${A}",
		`{"url": "ftp://h/x", "disabled": true}`:                                "ftp://h/x",
		`{"httpUrl": "https://h/mcp", "url": "https://other/sse"}`:              "https://h/mcp",
		`{"url": "https://h:canary${PORT}/x"}`:                                  "(unreadable URL)",
		`{"url": "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}"}`: "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}",
		`{"comand": "x"}`: "", `{"command": 5}`: "", `5`: "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"one": `+entry+`}}`), 0o600))
		require.Equal(t, want, Target(path, "one"), entry)
	}
	require.Empty(t, Target(path, ""))
	require.Empty(t, Target(path, "two"))
	require.Empty(t, Target(path+"x", "one"))
}
