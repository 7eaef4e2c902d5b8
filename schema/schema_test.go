package schema_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// update rewrites the golden files:
//
//	go test ./schema -update
var update = flag.Bool("update", false, "rewrite the golden files")

var formats = map[string]schema.Format{
	"openai": schema.OpenAI, "openai-responses": schema.OpenAIResponses, "anthropic": schema.Anthropic,
	"gemini": schema.Gemini, "ollama": schema.Ollama,
}

// tool returns a tool with an input schema.
func tool(server, name, description string, input any) mcpvisor.Tool {
	if text, ok := input.(string); ok {
		input = json.RawMessage(text)
	}
	return mcpvisor.Tool{Name: mcpvisor.Qualify(server, name), Server: server, OriginalName: name, Alias: mcpvisor.Alias(server, name),
		Definition: &mcp.Tool{Name: name, Description: description, InputSchema: input}}
}

// parts returns the three parts of a function of any provider.
func parts(t *testing.T, f map[string]any) (name, description string, parameters map[string]any) {
	t.Helper()
	if inner, ok := f["function"].(map[string]any); ok {
		f = inner
	}
	name, _ = f["name"].(string)
	description, _ = f["description"].(string)
	for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
		if m, ok := f[key].(map[string]any); ok {
			parameters = m
		}
	}
	require.NotNil(t, parameters)
	return name, description, parameters
}

// catalogs reads the recorded catalogs. See test/real/record.
func catalogs(t *testing.T) map[string][]mcpvisor.Tool {
	t.Helper()
	files, err := filepath.Glob("testdata/catalogs/*.jsonl.gz")
	require.NoError(t, err)
	all := map[string][]mcpvisor.Tool{}
	for _, file := range files {
		server := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		lines := bufio.NewScanner(bytes.NewReader(unzipped(t, file)))
		lines.Buffer(nil, 10<<20)
		for lines.Scan() {
			var definition struct {
				Name, Description string
				InputSchema       json.RawMessage
			}
			require.NoError(t, json.Unmarshal(lines.Bytes(), &definition), file)
			all[server] = append(all[server], tool(server, definition.Name, definition.Description, definition.InputSchema))
		}
		require.NoError(t, lines.Err())
	}
	return all
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(zip)
	require.NoError(t, err)
	return text
}

// checkGolden compares text with a golden file, which is zipped if its name says so. The
// error shows the first line that differs.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", "golden", file)
	if *update {
		data := []byte(got)
		if strings.HasSuffix(file, ".gz") {
			var out bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			_, err := zip.Write(data)
			require.NoError(t, err)
			require.NoError(t, zip.Close())
			data = out.Bytes()
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, data, 0o644))
		return
	}
	var want string
	if strings.HasSuffix(file, ".gz") {
		want = string(unzipped(t, file))
	} else {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		want = strings.ReplaceAll(string(data), "\r\n", "\n")
	}
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		require.Equal(t, w[i], g[i], "%s:%d; if the change is right: go test ./schema -update", file, i+1)
	}
	require.Len(t, g, len(w), "%s: lines", file)
}

// TestCatalogs: what real servers list becomes what each provider takes, and what was
// changed is noted.
func TestCatalogs(t *testing.T) {
	all := catalogs(t)
	require.GreaterOrEqual(t, len(all), 30, "recorded servers")
	servers := slices.Sorted(maps.Keys(all))
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		t.Run(provider, func(t *testing.T) {
			var functions, changes strings.Builder
			for _, server := range servers {
				list, notes := schema.List(all[server], formats[provider])
				for _, f := range list {
					name, description, parameters := parts(t, roundTrip(t, f))
					require.Empty(t, providerRules[provider].check(name, description, parameters), name)
					functions.Write(append(compact(t, f), '\n'))
				}
				for _, n := range notes {
					fmt.Fprintln(&changes, n)
				}
			}
			checkGolden(t, provider+".jsonl.gz", functions.String())
			checkGolden(t, provider+".notes.txt", changes.String())
		})
	}
}

// TestAwkward: schemas that servers really send, or that hostile ones can, each in the
// form of each provider.
func TestAwkward(t *testing.T) {
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		t.Run(provider, func(t *testing.T) {
			var out strings.Builder
			for _, a := range awkward() {
				f, notes := formats[provider](a)
				name, description, parameters := parts(t, roundTrip(t, f))
				require.Empty(t, providerRules[provider].check(name, description, parameters), a.Name)
				text, err := json.MarshalIndent(parameters, "", "  ")
				require.NoError(t, err)
				if len(text) > 4000 {
					text = append(text[:4000], "…"...)
				}
				fmt.Fprintf(&out, "== %s\n", a.OriginalName)
				for _, n := range notes {
					fmt.Fprintf(&out, "# %s\n", strings.TrimPrefix(n.String(), a.Name))
				}
				fmt.Fprintf(&out, "%s\n\n", text)
			}
			checkGolden(t, provider+".awkward.txt", out.String())
		})
	}
}

func compact(t *testing.T, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return bytes.TrimSpace(out.Bytes())
}

// roundTrip returns what a provider reads. It differs from v if v is not of plain values.
func roundTrip(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	var read map[string]any
	require.NoError(t, json.Unmarshal(compact(t, v), &read))
	require.Equal(t, v, read, "the values are plain")
	return read
}

// awkward are tools whose input schemas providers reject as they are.
func awkward() (tools []mcpvisor.Tool) {
	for _, a := range [][2]string{
		{"no-schema", ``},
		{"null", `null`},
		{"true", `true`},
		{"not-json", `{"type":`},
		{"a-list", `[]`},
		{"empty", `{}`},
		{"no-properties", `{"type":"object"}`},
		{"type-array", `{"type":"array","items":{"type":"string"}}`},
		{"type-or-null", `{"type":["object","null"],"properties":{"a":{"type":"string"}}}`},
		{"properties-list", `{"type":"object","properties":[],"required":[]}`},
		{"meta", `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","$comment":"c","type":"object","properties":{"$schema":{"type":"string"}}}`},
		{"ref", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"outer"},"q":{"$ref":"#/definitions/a~1b%20c"}},"$defs":{"P":{"type":"object","description":"inner","properties":{"x":{"type":"number"}},"required":["x"]}},"definitions":{"a/b c":{"type":"string"}}}`},
		{"ref-root", `{"$ref":"#/$defs/Args","$defs":{"Args":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`},
		{"ref-missing", `{"type":"object","properties":{"p":{"$ref":"#/$defs/none"},"f":{"$ref":"file:///etc/passwd"},"h":{"$ref":"http://127.0.0.1/x.json"},"i":{"$ref":"other.json#/a"},"d":{"$dynamicRef":"#node"}}}`},
		{"ref-recursive", `{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","title":"Node","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`},
		{"ref-to-itself", `{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"$ref":"#/$defs/c"},"r":{"$ref":"#"}},"$defs":{"c":{"$ref":"#/$defs/d"},"d":{"$ref":"#/$defs/c"}}}`},
		{"all-of", `{"type":"object","properties":{"v":{"allOf":[{"type":["string","integer"],"minLength":1},{"type":"string","minLength":3,"maxLength":9,"enum":["abc","x"]}],"enum":["abc","abcd"],"description":"outer"},"o":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"maxLength":3},"b":{"type":"number"}},"required":["b","a"]}]}}}`},
		{"root-any-of-required", `{"type":"object","properties":{"route":{"type":"string"},"file":{"type":"string"}},"anyOf":[{"required":["route"]},{"required":["file"]}]}`},
		{"root-one-of-objects", `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"const":"b"},"x":{"type":"number"}},"required":["kind"]}]}`},
		{"root-all-of-if", `{"type":"object","properties":{"mode":{"type":"string"}},"allOf":[{"if":{"properties":{"mode":{"const":"big"}}},"then":{"properties":{"size":{"type":"integer"}},"required":["size"]}}],"not":{"required":["z"]}}`},
		{"boolean-schemas", `{"type":"object","properties":{"any":true,"none":false,"list":{"type":"array","items":true},"alt":{"anyOf":[true,false,{"type":"string"}]}},"additionalProperties":false}`},
		{"draft-4", `{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false},"t":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false},"r":{"type":"string","required":true}},"dependencies":{"n":["t"]}}`},
		{"openapi", `{"type":"object","properties":{"s":{"type":"string","nullable":true,"enum":["a","b"],"example":"a"},"t":{"$ref":"#/$defs/T","nullable":true}},"$defs":{"T":{"type":"integer"}}}`},
		{"types", `{"type":"object","properties":{"a":{"type":"int"},"b":{"type":"any"},"c":{"type":["string","String","null"]},"d":{"type":[]},"e":{"type":7},"f":{"type":"array"},"g":{"type":["array","null"]},"h":{"type":["object","string"]}}}`},
		{"wrong-forms", `{"type":"object","description":5,"properties":{"a":{"type":"string","minLength":"3","maxLength":-1,"pattern":7,"format":{},"enum":[],"title":null},"b":7,"c":null,"d":{"type":"number","minimum":"0","multipleOf":0},"e":{"anyOf":{}},"f":{"required":"x","properties":[],"items":3}},"required":["a","a",5]}`},
		{"enums", `{"type":"object","properties":{"n":{"type":"integer","enum":[1,2,2]},"b":{"type":"boolean","enum":[true]},"m":{"enum":["a",1,null]},"z":{"type":"string","enum":["a",null]},"u":{"enum":["x","y"]},"o":{"enum":[{"a":1},{"a":1}]},"nul":{"enum":[null]},"k":{"const":"only"},"kn":{"const":null}},"required":["n"]}`},
		{"required-undefined", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a","ghost"]}`},
		{"formats", `{"type":"object","properties":{"u":{"type":"string","format":"uri"},"d":{"type":"string","format":"date-time"},"i":{"type":"integer","format":"int64","minimum":-9007199254740991,"maximum":9007199254740991},"e":{"type":"number","exclusiveMinimum":0}}}`},
		{"patterns", `{"type":"object","properties":{"ok":{"type":"string","pattern":"^[a-z0-9_.-]+\\d{2,}$"},"look":{"type":"string","pattern":"^(?!x)"},"uni":{"type":"string","pattern":"^\\p{L}+$"},"named":{"type":"string","pattern":"(?<y>\\d{4})"},"bad":{"type":"string","pattern":"["},"end":{"type":"string","pattern":"a\\"}},"patternProperties":{"^\\p{L}":{"type":"string"},"^x-":{"type":"number"}}}`},
		{"keys", `{"type":"object","properties":{"ok.key-1":{"type":"string"},"has space":{"type":"string"},"@type":{"type":"string"},"":{"type":"string"}},"required":["@type","ok.key-1"]}`},
		{"unknown-keywords", `{"type":"object","properties":{"a":{"type":"string","x-order":1,"optional":true,"$vendor":2,"default":{"deep":[1]}}}}`},
		{"types-that-are-objects", `{"type":"object","properties":{"a":{"allOf":[{"type":{}},{"type":[{}]},{"type":"string"}],"nullable":"yes"}},"oneOf":[{"properties":{"k":{"const":1,"type":["integer","null"]}}},{"properties":{"k":{"const":2,"type":["integer","null"]}}}]}`},
		{"tuple", `{"type":"object","properties":{"p":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"minItems":2,"maxItems":2}}}`},
		{"nested-union", `{"type":"object","properties":{"v":{"oneOf":[{"type":"string"},{"type":"object","properties":{"id":{"const":5}},"additionalProperties":{"type":"string"}}],"anyOf":[{"minLength":1}]},"w":{"oneOf":[{"type":"string"},{"type":"null"}]}}}`},
	} {
		var input any = a[1]
		if a[1] == "" {
			input = nil
		}
		tools = append(tools, tool("odd", a[0], "", input))
	}
	deep := strings.Repeat(`{"type":"object","properties":{"d":`, 100) + `{"type":"string"}` + strings.Repeat(`}}`, 100)
	return append(tools, tool("odd", "deep", "", deep))
}

// TestFormats_of_any_JSON: whatever a server sends as a schema, each provider gets what it
// takes, and the same each time.
func TestFormats_of_any_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input, err := json.Marshal(schematest.DrawJSON(t, 4))
		require.NoError(t, err)
		for _, provider := range slices.Sorted(maps.Keys(formats)) {
			f, notes := formats[provider](tool("s", "t", "", string(input)))
			m := parametersOf(f)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			var read map[string]any
			require.NoError(t, json.Unmarshal(text, &read))
			require.Empty(t, providerRules[provider].check("t", "", read), "%s: %s becomes %s", provider, input, text)

			s := new(jsonschema.Schema)
			require.NoError(t, json.Unmarshal(text, s), "%s: %s becomes %s", provider, input, text)
			again, sameNotes := formats[provider](tool("s", "t", "", string(input)))
			require.Equal(t, f, again)
			require.Equal(t, notes, sameNotes)
		}
	})
}

// TestFormats_refuse_no_arguments_that_the_tool_takes: a model that keeps to what the
// provider gets may send everything that the server's own schema allows.
func TestFormats_refuse_no_arguments_that_the_tool_takes(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		input := map[string]any{"type": "object", "$defs": map[string]any{"x": drawSchema(t, 1), "y": drawSchema(t, 1),
			"tree": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"$ref": "#/$defs/tree"}}, "additionalProperties": false}}}
		object := drawObject(t, 1)
		for _, alternatives := range []string{"anyOf", "oneOf", "allOf", "if", "then"} {
			delete(object, alternatives) // the exception that the package comment names
		}
		maps.Copy(input, object)
		input["properties"] = map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 1)}
		own := resolve(t, input)
		var args []any
		for range 8 {
			if v := drawArguments(t, 3); own.Validate(v) == nil {
				args = append(args, v)
			}
		}
		taken += len(args)
		for _, provider := range slices.Sorted(maps.Keys(formats)) {
			f, _ := formats[provider](tool("s", "t", "", input))
			parameters := resolve(t, parametersOf(f))
			for _, v := range args {
				require.NoError(t, parameters.Validate(v), "%s refuses %v, which the tool takes: %v becomes %v", provider, v, input, f)
			}
		}
	})
	require.NotZero(t, taken, "the test has arguments to send")
}

func resolve(t *rapid.T, m map[string]any) *jsonschema.Resolved {
	text, err := json.Marshal(m)
	require.NoError(t, err)
	s := new(jsonschema.Schema)
	require.NoError(t, json.Unmarshal(text, s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err, string(text))
	return resolved
}

func parametersOf(f map[string]any) map[string]any {
	if inner, ok := f["function"].(map[string]any); ok {
		f = inner
	}
	for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
		if m, ok := f[key].(map[string]any); ok {
			return m
		}
	}
	return nil
}

var drawName = rapid.SampledFrom([]string{"a", "b", "c"})

// drawValues are those that drawn schemas and arguments have in common.
var drawValue = rapid.SampledFrom([]any{"a", "bb", 1.0, 2.0, 2.5, true, nil})

func drawArguments(t *rapid.T, depth int) any {
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		m[drawName.Draw(t, "name")] = drawAny(t, depth-1)
	}
	return m
}

func drawAny(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case depth > 0 && kind == 0:
		return drawArguments(t, depth)
	case depth > 0 && kind == 1:
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, drawAny(t, depth-1))
		}
		return list
	}
	return drawValue.Draw(t, "value")
}

// drawObject draws what an object says about its properties.
func drawObject(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	properties := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		properties[drawName.Draw(t, "name")] = drawSchema(t, depth-1)
	}
	add := func(keyword string, v func() any) {
		if rapid.IntRange(0, 4).Draw(t, keyword) == 0 {
			m[keyword] = v()
		}
	}
	if len(properties) > 0 {
		m["properties"] = properties
	}
	add("required", func() any { return []any{drawName.Draw(t, "name")} })
	add("additionalProperties", func() any {
		if rapid.Bool().Draw(t, "described") {
			return drawSchema(t, depth-1)
		}
		return rapid.Bool().Draw(t, "more")
	})
	add("prefixItems", func() any { return []any{drawSchema(t, depth-1)} })
	add("contains", func() any { return drawSchema(t, depth-1) })
	add("patternProperties", func() any {
		return map[string]any{rapid.SampledFrom([]string{"^a", `^\p{L}$`}).Draw(t, "pattern"): drawSchema(t, depth-1)}
	})
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		add(keyword, func() any { return []any{drawSchema(t, depth-1), drawSchema(t, depth-1)} })
	}
	add("if", func() any { return drawSchema(t, depth-1) })
	add("then", func() any { return drawSchema(t, depth-1) })
	add("not", func() any { return drawSchema(t, 0) })
	add("maxProperties", func() any { return 2.0 })
	return m
}

func drawSchema(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 9).Draw(t, "schema")
	if depth <= 0 || depth == 1 && kind == 3 { // a definition refers to no other, or the validator may never end
		kind = 5 + kind%5
	}
	switch kind {
	case 0, 1:
		return drawObject(t, depth)
	case 2:
		m := drawObject(t, depth)
		m["type"] = "object"
		return m
	case 3:
		return map[string]any{"$ref": "#/$defs/" + rapid.SampledFrom([]string{"x", "y", "tree"}).Draw(t, "ref"), "description": "d"}
	case 4:
		return map[string]any{"type": "array", "items": drawSchema(t, depth-1), "maxItems": 1.0}
	case 5:
		return map[string]any{"enum": []any{drawValue.Draw(t, "value"), drawValue.Draw(t, "value")}}
	case 6:
		return map[string]any{"const": drawValue.Draw(t, "value")}
	case 7:
		return map[string]any{"type": []any{"string", "null"}, "maxLength": 1.0}
	case 8:
		return map[string]any{"type": "number", "exclusiveMinimum": 1.0, "multipleOf": 1.0}
	}
	return rapid.SampledFrom([]any{true, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "boolean"}}).Draw(t, "simple")
}

// TestNames: the name of a function obeys the rules of every provider, belongs to one tool
// only, and leads back to it.
func TestNames(t *testing.T) {
	servers := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`)
	rapid.Check(t, func(t *rapid.T) {
		tools := map[string]mcpvisor.Tool{}
		for range 3 {
			own := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_/.]{1,80}`)).Draw(t, "tool")
			made := tool(servers.Draw(t, "server"), own, "", nil)
			tools[made.Name] = made
		}
		names := map[string]string{}
		for _, made := range tools {
			for provider, format := range formats {
				f, _ := format(made)
				if inner, ok := f["function"].(map[string]any); ok {
					f = inner
				}
				name := f["name"].(string)
				require.Regexp(t, providerRules[provider].name, name)
				require.Contains(t, []string{"", made.Name}, names[name], "two tools have one name")
				names[name] = made.Name
				if server, own, ok := mcpvisor.SplitAlias(name); ok {
					require.Equal(t, made.Name, mcpvisor.Qualify(server, own))
				}
			}
		}
	})
	_, notes := schema.List([]mcpvisor.Tool{{Server: "fs", OriginalName: "list", Name: "fs/list"}}, schema.OpenAI)
	require.Empty(t, notes, "a tool without a definition takes any arguments")
}
