package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
)

const schemaFile = "mcpvisor.schema.json"

// The schema is committed, so that editors can fetch it.
func TestSchema_committed(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, Schema(), 0o644))
	}
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, string(text), string(Schema()), "run: go test ./config -run TestSchema -update")
	require.True(t, strings.HasSuffix(SchemaURL, "/config/"+schemaFile))
}

// resolvedSchema is the schema as a validator reads it.
var resolvedSchema = sync.OnceValues(func() (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
})

// onlyLoader are the problems that a schema cannot see: those of the environment, of
// several values together, and of what JSON values mean.
var onlyLoader = regexp.MustCompile(strings.Join([]string{
	"is (set|defined) twice", "no server is called", "has a (slash|')", "cannot be part of a path", "servers are listed twice", "environment variable", "needs an answer", "was not answered", "has no }",
	"is not a variable", "defaults do not nest", "cannot be read", "envFile", "control character", "command line", "has spaces",
	"the name (has characters|is empty|is longer)", "the name is", "http transport:", "stdio transport:", `is read as`, "has no effect",
	"is negative", "no tool of this server is offered", `"auth" is ignored`, "HTTP\\+SSE does not know", "standby: ", "policy: ",
	` needs (either|"client_id"|"token_endpoint")`, `no "client_id" in`, "Authorization header", "user in the URL",
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
		f, err := Parse(text, name, env(map[string]string{"TOKEN": "t", "MCPVISOR_INPUT_KEY": "k"}))
		require.NoError(t, err)
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
	for _, text := range []string{`{"$schema": "` + SchemaURL + `", "mcpServers": {}}`, `{"mcp": {"servers": {}}}`, `{"servers": {}, "inputs": []}`} {
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
	for _, k := range Keys() {
		for _, value := range append(values, k.Example) {
			entry := contextOf(t, k)
			if parent, _, nested := strings.Cut(k.Name, "."); nested && entry[parent] == nil {
				entry[parent] = map[string]any{}
			}
			k.Example = value
			set(t, entry, k, k.Name)
			text, err := json.Marshal(map[string]any{"servers": map[string]any{"s": entry}})
			require.NoError(t, err)
			f, err := Parse(text, "mcp.json", env(nil), WithWorkspace(dir))
			require.NoError(t, err)
			checkSchema(t, text, f)
			checked++
		}
	}
	require.Greater(t, checked, 2000)
}

// Each row has a schema, also one whose words are new.
func TestSchema_of_an_unknown_type(t *testing.T) {
	r := row{Key: Key{Name: "x", Type: "a colour"}}
	require.PanicsWithValue(t, `config: the type "a colour" of "x" has no schema; add it to typeSchemas`, func() { r.valueSchema() })
}

func ExampleSchema() {
	var schema struct {
		Title       string
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(schema.Title)
	fmt.Println(schema.Definitions["server"].Properties["args"].Description)
	// Output:
	// MCP servers
	// The arguments of the program.
}
