package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/oauth"
)

var update = flag.Bool("update", false, "rewrite docs/config.md from the table of keys")

// contexts are entries in which the example of a key is valid, by key. The longest
// name that a key begins with is its context. Without one it is contexts[""], or
// contexts["HTTP"] for a key of an endpoint.
var contexts = map[string]string{
	"":                   `{"command": "x"}`,
	"HTTP":               `{"url": "https://h/mcp"}`,
	"standby":            `{"command": "x", "retry": 3}`,
	"retry.":             `{"command": "x", "retry": {}}`,
	"retry.intensity.":   `{"command": "x", "retry": {"intensity": {"restarts": 1, "window": "1s"}}}`,
	"auth.":              `{"url": "https://h/mcp", "auth": {"client_id": "c"}}`,
	"auth.client_secret": `{"url": "https://h/mcp", "auth": {"client_id": "c", "client_secret": "s"}}`,
	"auth.grant":         `{"url": "https://h/mcp", "auth": {"client_id": "c", "client_secret": "s"}}`,
	"auth.enterprise.":   `{"url": "https://h/mcp", "auth": {"client_id": "c", "enterprise": {"token_endpoint": "https://i/t", "client_id": "e", "id_token_file": "t"}}}`,
	"tls":                `{"url": "https://h/mcp"}`,
	"tls.cert":           `{"url": "https://h/mcp", "tls": {"cert": "c", "key": "k"}}`,
	"tls.key":            `{"url": "https://h/mcp", "tls": {"cert": "c", "key": "k"}}`,
	"autoApprove":        `{"command": "x"}`,
}

// alsoSets are fields that a key sets beside its own.
var alsoSets = map[string]string{"auth.assertion_file": "HTTP.Auth.Grant", "auth.enterprise": "HTTP.Auth.Grant"}

// contextOf returns the entry in which the example of a key is valid.
func contextOf(t *testing.T, k configkeys.Key) (entry map[string]any) {
	t.Helper()
	best := ""
	if strings.HasPrefix(k.Field, "HTTP") {
		best = "HTTP"
	}
	for prefix := range contexts {
		if strings.HasPrefix(k.Name, prefix) && (len(prefix) > len(best) || best == "HTTP" && prefix != "") {
			best = prefix
		}
	}
	require.NoError(t, json.Unmarshal([]byte(contexts[best]), &entry))
	return entry
}

// set sets a key of an entry, below the objects that its name goes through. An
// alias replaces the key that it stands for.
func set(t *testing.T, entry map[string]any, k configkeys.Key, name string) {
	t.Helper()
	parts := strings.Split(name, ".")
	for _, part := range parts[:len(parts)-1] {
		inner, ok := entry[part].(map[string]any)
		if !ok {
			inner = map[string]any{}
			entry[part] = inner
		}
		entry = inner
	}
	require.True(t, json.Valid([]byte(k.Example)), "the example %s of %q is not JSON", k.Example, name)
	delete(entry, k.Name[strings.LastIndexByte(k.Name, '.')+1:])
	entry[parts[len(parts)-1]] = json.RawMessage(k.Example)
}

// parseEntry parses one entry, which must be usable, beside one called db.
func parseEntry(t *testing.T, dir string, entry map[string]any) Server {
	t.Helper()
	text, err := json.Marshal(map[string]any{"servers": map[string]any{"s": entry, "db": map[string]any{"command": "x"}}})
	require.NoError(t, err)
	f := mustParse(t, text, "mcp.json", WithWorkspace(dir), WithLookup(func(string) (string, bool) { return "value", true }))
	checkSchema(t, text, f)
	require.Len(t, f.Servers, 2, "%s: %v", text, f.Problems)
	return f.Servers[1]
}

// differences adds the paths of the fields in which two values differ.
func differences(paths []string, path string, a, b reflect.Value) []string {
	switch kind := a.Kind(); {
	case a.Type() == reflect.TypeFor[mcpvisor.Auth]() && !a.IsNil() && !b.IsNil():
		return differences(paths, path, a.Elem(), b.Elem())
	case kind == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return differences(paths, path, a.Elem(), b.Elem())
	case kind == reflect.Pointer || kind == reflect.Func || kind == reflect.Interface:
		if a.IsNil() != b.IsNil() {
			paths = append(paths, path)
		}
		return paths
	case kind == reflect.Struct:
		for i := range a.NumField() {
			paths = differences(paths, strings.TrimPrefix(path+"."+a.Type().Field(i).Name, "."), a.Field(i), b.Field(i))
		}
		return paths
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		return append(paths, path)
	}
	return paths
}

// The example of each key sets the field that the table names, and no other.
// Aliases do the same.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{".env": "A=1", "key.pem": "a key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	keys := configkeys.All()
	require.Greater(t, len(keys), 50)
	for _, k := range keys {
		parent := k.Name[:strings.LastIndexByte(k.Name, '.')+1]
		for _, name := range append([]string{k.Name}, k.Aliases...) {
			name = parent + strings.TrimPrefix(name, parent)
			t.Run(name, func(t *testing.T) { checkKey(t, dir, k, name) })
		}
	}
}

func checkKey(t *testing.T, dir string, k configkeys.Key, name string) {
	before, after := contextOf(t, k), contextOf(t, k)
	if parent, _, nested := strings.Cut(name, "."); nested && before[parent] == nil {
		before[parent] = map[string]any{}
	}
	set(t, after, k, name)
	a, b := parseEntry(t, dir, before), parseEntry(t, dir, after)
	if k.Name == "disabled" || k.Name == "enabled" {
		require.True(t, b.Disabled)
		return
	}
	changed := differences(nil, "", reflect.ValueOf(a.Spec), reflect.ValueOf(b.Spec))
	if k.Field == "" {
		require.Empty(t, changed)
		return
	}
	require.NotEmpty(t, changed, "%s does not set %s", k.Example, k.Field)
	for _, path := range changed {
		require.True(t, path == k.Field || strings.HasPrefix(path, k.Field+".") || path == alsoSets[k.Name],
			"it sets %s, and its row says %q", path, k.Field)
	}
}

// Each row says everything that the documentation shows.
func TestKeys_complete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range configkeys.All() {
		require.False(t, seen[k.Name], "%q has two rows", k.Name)
		seen[k.Name] = true
		require.NotEmpty(t, k.Type, k.Name)
		require.NotEmpty(t, k.Example, k.Name)
		require.Regexp(t, `^[^a-z ].*\.$|^false .*\.$|^"`, k.Meaning, "%q: write sentences", k.Name)
		if k.Field != "" {
			requireField(t, reflect.TypeFor[mcpvisor.ServerSpec](), k.Field)
		}
	}
}

// requireField fails unless a struct type has the field that a path names.
func requireField(t *testing.T, of reflect.Type, path string) {
	t.Helper()
	for _, part := range strings.Split(path, ".") {
		if of == reflect.TypeFor[mcpvisor.Auth]() {
			of = reflect.TypeFor[oauth.Config]()
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		field, ok := of.FieldByName(part)
		require.True(t, ok, "mcpvisor.ServerSpec has no field %s", path)
		of = field.Type
	}
}

// docs/config.md holds the table of keys, between marks.
func TestKeys_documented(t *testing.T) {
	const path, begin, end = "../docs/config.md", "<!-- BEGIN KEYS -->\n", "<!-- END KEYS -->\n"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, begins := strings.Cut(string(page), begin)
	_, tail, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "%s has the marks %s and %s", path, begin, end)
	text := head + begin + keysTables() + gatewayTables() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	if text != string(page) {
		t.Errorf("%s is out of date at %q; run: go test ./config -run TestKeys -update", path, firstDifference(text, string(page)))
	}
}

// firstDifference returns the line of want at which the two texts differ.
func firstDifference(want, got string) string {
	wanted, lines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i, line := range wanted {
		if i >= len(lines) || lines[i] != line {
			return line
		}
	}
	return "the end"
}

// gatewayTables are the tables of docs/config.md about "gateway" and "groups".
func gatewayTables() string {
	var b strings.Builder
	cell := strings.NewReplacer("|", `\|`).Replace
	for _, s := range []struct {
		title string
		rows  []row
	}{{"Keys of a tool", toolSettingRows}, {"Keys of `gateway`", gatewayRows}, {"Keys of a profile", profileRows}, {"Keys of a group", groupRows}, {"Keys of a rule", ruleRows}} {
		fmt.Fprintf(&b, "## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", s.title)
		for _, k := range flatten(nil, "", s.rows) {
			fmt.Fprintf(&b, "| `%s` | %s, as in `%s` | %s | %s |\n", k.Name, cell(k.Type), cell(k.Example), cell(k.Default), cell(k.Meaning))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// keysTables are the tables of docs/config.md.
func keysTables() string {
	var b strings.Builder
	b.WriteString("\n")
	cell := strings.NewReplacer("|", `\|`).Replace
	for _, s := range []struct{ title, prefix string }{
		{"Keys of an entry", ""}, {"retry", "retry."}, {"timeouts", "timeouts."}, {"limits", "limits."}, {"probe", "probe."}, {"tools", "tools."}, {"tls", "tls."}, {"auth", "auth."},
	} {
		title := s.title
		if s.prefix != "" {
			title = "Keys of `" + s.title + "`"
		}
		fmt.Fprintf(&b, "## %s\n\n| key | value | default | sets | meaning |\n|---|---|---|---|---|\n", title)
		for _, k := range configkeys.All() {
			rest, below := strings.CutPrefix(k.Name, s.prefix)
			if !below || s.prefix == "" && strings.Contains(rest, ".") {
				continue
			}
			names := "`" + rest + "`"
			for _, alias := range k.Aliases {
				names += ", `" + alias + "`"
			}
			field := ""
			if k.Field != "" {
				field = "`" + k.Field + "`"
			}
			fmt.Fprintf(&b, "| %s | %s, as in `%s` | %s | %s | %s |\n", names, cell(k.Type), cell(k.Example), cell(k.Default), field, cell(k.Meaning))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "## Keys of other hosts\n\nThese keys of other hosts are skipped without a warning: `%s`.\n\n", strings.Join(ignoredKeys, "`, `"))
	b.WriteString("These keys of other hosts change what happens there, and are not supported here. An entry that has one of them is an error, unless its value is `null`, `false` or `{}`.\n\n" +
		"| key | without it |\n|---|---|\n")
	for _, u := range configkeys.AllUnsupported() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(u.Names, "`, `"), cell(u.Lacks))
	}
	b.WriteString("\n")
	return b.String()
}

const schemaFile = "mcpvisor.schema.json"

// The schema is committed, so that editors can fetch it.
func TestSchema_committed(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, configkeys.Schema(), 0o644))
	}
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, string(text), string(configkeys.Schema()), "run: go test ./config -run TestSchema -update")
	require.True(t, strings.HasSuffix(configkeys.SchemaURL, "/config/"+schemaFile))
}

// resolvedSchema is the schema as a validator reads it.
var resolvedSchema = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(configkeys.Schema(), &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
})

// onlyLoader are the problems that a schema cannot see: those of the environment, of
// several values together, and of what JSON values mean.
var onlyLoader = regexp.MustCompile(strings.Join([]string{
	"is (set|defined) twice", "no server is called", "has a (slash|')", "cannot be part of a path", "servers are listed twice", "environment variable", "needs an answer", "was not answered", "has no }",
	"is not a variable", "is not the name of a variable", "two keys set", "^tool settings: ", "is a list without a program", `unknown key "tools\.`, "so the pattern matches", "defaults do not nest", "cannot be read", "envFile", "control character", "command line", "has spaces",
	"the name (has characters|is empty|is longer)", "the name is", "http transport:", "stdio transport:", `is read as`, "has no effect",
	"is negative", "no tool of this server is offered", `is ignored, because it is for an endpoint`, `has both "auth"`, "cannot be reached: ", "HTTP\\+SSE does not know", "standby: ", "policy: ",
	` needs (either|"client_id"|"token_endpoint")`, `no "client_id" in`, "Authorization header", "user in the URL",
	"no server or group is called", "in a circle", "is a member of a group already", "also the name of a server", "idle stop is", "^group \"", "transient: ", "waits for itself",
	"ends the call first", "cannot be used", "set a positive bound", "^oauth: ", "^\"[a-z_]+\" in \"auth\"",
}, "|"))

// checkSchema fails unless schema and loader agree about the text of a file that was
// parsed. Every test of this package that parses a file goes through it.
func checkSchema(t require.TestingT, text []byte, file *File) {
	schema, err := resolvedSchema()
	require.NoError(t, err)
	plain, err := hujson.Standardize([]byte(strings.TrimPrefix(string(text), "\xef\xbb\xbf")))
	require.NoError(t, err)
	var value any
	require.NoError(t, json.Unmarshal(plain, &value))
	rejected := schema.Validate(value)
	var seen []Problem // those that the schema must see, too
	for _, p := range file.Problems {
		if !onlyLoader.MatchString(p.Message) {
			seen = append(seen, p)
		}
	}
	switch {
	case len(file.Problems) == 0:
		require.NoError(t, rejected, "the loader accepts %s", text)
	case len(seen) > 0:
		require.Error(t, rejected, "the loader reports %s of %s", seen[0], text)
	}
}

// The files of other tests, valid and invalid.
func TestSchema_of_files(t *testing.T) {
	for _, name := range []string{"claude_desktop", "mcp", "vscode", "settings", "broken"} {
		text, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(t, err)
		f := mustParse(t, text, name, env(map[string]string{"TOKEN": "t", "MCPVISOR_INPUT_KEY": "k"}))
		checkSchema(t, text, f)
	}
	schema, err := resolvedSchema()
	require.NoError(t, err)
	for _, text := range []string{`[]`, `{}`, `{"mcpservers": {}}`, `{"mcpServers": []}`, `{"mcp": {}}`, `{"servers": {"a": []}}`} {
		_, err := Parse([]byte(text), "x.json")
		var value any
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		if err == nil { // an entry that is no object
			require.Contains(t, text, `"a"`)
		}
		require.Error(t, schema.Validate(value), text)
	}
	for _, text := range []string{`{"$schema": "` + configkeys.SchemaURL + `", "mcpServers": {}}`, `{"mcp": {"servers": {}}}`, `{"servers": {}, "inputs": []}`} {
		_, err := Parse([]byte(text), "x.json")
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		require.NoError(t, schema.Validate(value), text)
	}
}

// Schema and loader agree about each key with each kind of value. The loader alone knows
// what a text means, so texts are the examples of keys only.
func TestSchema_of_each_key(t *testing.T) {
	values := []string{`null`, `true`, `false`, `0`, `1`, `7`, `1.5`, `-1`, `-2.5`, `1e300`, `4294967296`, `"5s"`, `"1h2m3.5ms"`, `"soon"`, `""`, `"a b"`,
		`"none"`, `"unlimited"`, `"keyring"`, `"sse"`, `"Streamable-HTTP"`, `"modern"`, `[]`, `["a"]`, `[""]`, `[1]`, `[null]`, `[["a"]]`, `{}`,
		`{"a": "b"}`, `{"a": 1}`, `{"a": null}`, `{"a": []}`, `{"allow": ["x"]}`, `{"deny": [7]}`, `{"nonsense": 1}`}
	checked, dir := 0, t.TempDir()
	for _, k := range configkeys.All() {
		for _, value := range append(values, k.Example) {
			entry := contextOf(t, k)
			if parent, _, nested := strings.Cut(k.Name, "."); nested && entry[parent] == nil {
				entry[parent] = map[string]any{}
			}
			k.Example = value
			set(t, entry, k, k.Name)
			text, err := json.Marshal(map[string]any{"servers": map[string]any{"s": entry}})
			require.NoError(t, err)
			f := mustParse(t, text, "mcp.json", env(nil), WithWorkspace(dir))
			checkSchema(t, text, f)
			checked++
		}
	}
	require.Greater(t, checked, 2000)
}

// Each row has a schema, also one whose words are new.
func TestSchema_of_an_unknown_type(t *testing.T) {
	r := row{Key: configkeys.Key{Name: "x", Type: "a colour"}}
	require.PanicsWithValue(t, `config: the type "a colour" of "x" has no schema; add it to typeSchemas`, func() { r.valueSchema() })
}

func ExampleSchema() {
	var schema struct {
		Title       string
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(configkeys.Schema(), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(schema.Title)
	fmt.Println(schema.Definitions["server"].Properties["args"].Description)
	// Output:
	// MCP servers
	// The arguments of the program.
}

// Fields of a Go program are replaced by keys of a file, other words stay.
func TestKeyTerms(t *testing.T) {
	for text, want := range map[string]string{
		"raise Timeouts.CallTotal":                       `raise "call_total" in "timeouts"`,
		"raise Timeouts.Call":                            `raise "call" in "timeouts"`,
		"raise Limits.MaxInFlight or Limits.MaxQueued":   `raise "max_in_flight" in "limits" or "max_queued" in "limits"`,
		"MaxAttempts is -3":                              `"max_attempts" in "retry" is -3`,
		"set ServerSpec.Policy.Base":                     `set "base" in "retry"`,
		"remove ServerSpec.Standby":                      `remove "standby"`,
		"grant needs ClientID":                           `grant needs "client_id" in "auth"`,
		"set HTTP.Auth.Enterprise.ClientID":              `set "client_id" in "enterprise" in "auth"`,
		"correct HTTP.URL":                               `correct "url"`,
		"change Stdio.Dir":                               `change "cwd"`,
		"Tools and the Policy of a URL":                  "Tools and the Policy of a URL",
		"Timeouts.Callback and MyLimits.MaxItems remain": `Timeouts.Callback and MyLimits."max_items" in "limits" remain`,
	} {
		require.Equal(t, want, configkeys.Terms(text), text)
	}
}
