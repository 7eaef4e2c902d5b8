package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/schema"
)

// hiddenText is "hi" in tag characters, an escape sequence, a mark of direction and a
// zero-width space.
const hiddenText = "\U000E0068\U000E0069\x1b[8m\u202e\u200b"

// hide adds hidden characters to the texts of a value of JSON, to its names, or to both.
func hide(v any, texts, names bool) any {
	switch v := v.(type) {
	case string:
		if texts {
			return v + hiddenText
		}
	case []any:
		for i := range v {
			v[i] = hide(v[i], texts, names)
		}
	case map[string]any:
		for _, name := range slices.Collect(maps.Keys(v)) {
			e := hide(v[name], texts, names)
			delete(v, name)
			if names {
				name = hiddenText + name
			}
			v[name] = e
		}
	}
	return v
}

// Wherever a server hides characters, no model gets them.
func TestFormats_pass_no_hidden_characters(t *testing.T) {
	for _, input := range awkward() {
		raw, isText := input.Definition.InputSchema.(json.RawMessage)
		for _, where := range [][2]bool{{true, false}, {false, true}, {true, true}} {
			var v any
			if isText && json.Unmarshal(raw, &v) == nil {
				text, err := json.Marshal(hide(v, where[0], where[1]))
				require.NoError(t, err)
				raw = text
			}
			for provider, format := range formats {
				f, notes := format(tool("s", "t", "a"+hiddenText, string(raw)))
				require.Empty(t, hiddenIn(f), "%s: %s", provider, raw)
				require.NotEmpty(t, notes)
				for _, n := range notes {
					require.Equal(t, display.Line(n.String()), n.String())
					require.Empty(t, hiddenIn(n.Text))
				}
			}
		}
	}
}

// hiddenIn returns the texts and names in a value that have hidden characters.
func hiddenIn(v any) (found []string) {
	switch v := v.(type) {
	case string:
		if clean, _ := display.ForModel(v); clean != v {
			found = append(found, v)
		}
	case []any:
		for _, e := range v {
			found = append(found, hiddenIn(e)...)
		}
	case map[string]any:
		for name, e := range v {
			found = append(append(found, hiddenIn(name)...), hiddenIn(e)...)
		}
	}
	return found
}

// Prose loses the characters; what a server reads is removed as a whole, and the notes say so.
func TestOpenAI_says_which_hidden_characters_it_removed(t *testing.T) {
	const tag = "\U000E0041"
	f, notes := schema.OpenAI(tool("s", "t", "Reads.\r\nThen 👩\u200d💻 می\u200cخواهم"+tag+"\x1b", `{"type":"object","properties":{
		"p\u202e":{"type":"string"},
		"q":{"type":"string","title":"Q`+tag+`","enum":["a","b\u200b"],"default":"b\u200b"},
		"r":{"type":"string","pattern":"^[^`+tag+`]$","const":"`+tag+`"}},"required":["p\u202e","q"]}`))
	require.Equal(t, map[string]any{"name": mcpvisor.Alias("s", "t"), "description": "Reads.\nThen 👩\u200d💻 می\u200cخواهم", "parameters": map[string]any{
		"type": "object", "required": []any{"q"}, "properties": map[string]any{
			"q": map[string]any{"type": "string", "title": "Q", "enum": []any{"a"}},
			"r": map[string]any{"type": "string"}}}}, f["function"])
	var lines []string
	for _, n := range notes {
		lines = append(lines, n.String())
	}
	const why = ", which a model reads and people do not see"
	require.Equal(t, []string{
		"s/t /properties/q: default was removed: it has invisible characters" + why,
		"s/t /properties/q/enum: an element was removed: it has invisible characters" + why,
		"s/t /properties/q: tag characters were removed from the title" + why,
		"s/t /properties/r: const was removed: it has tag characters" + why,
		"s/t /properties/r: pattern was removed: it has tag characters" + why,
		`s/t: the entry "p\u202e" of properties was removed: its name has marks of the text direction` + why,
		"s/t /required: an element was removed: it has marks of the text direction" + why,
		"s/t: control characters, tag characters were removed from the description" + why,
	}, lines)
}

func TestOpenAI_omits_a_description_of_hidden_characters(t *testing.T) {
	f, _ := schema.OpenAI(tool("s", "t", hiddenText[:8], `{}`))
	require.NotContains(t, f["function"], "description")
}

func TestText_passes_no_hidden_characters(t *testing.T) {
	const removed = "\n[removed from this text: control characters, tag characters, which a model reads and people do not see]"
	text := func(text string) string {
		return schema.Text(&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}})
	}
	require.Equal(t, "red"+removed, text("\x1bre\U000E0041d\n"))
	require.Equal(t, "می\u200cخواهم 👩\u200d💻\n", text("می\u200cخواهم 👩\u200d💻\r\n"))
	require.Equal(t, `{"a":"\u001bb"}`+strings.Replace(removed, "control characters, ", "", 1),
		schema.Text(&mcp.CallToolResult{StructuredContent: map[string]any{"a": "\x1bb\U000E0041"}}))
}

// A framework gets the description that the formats give to a provider, whatever its length.
func TestDescription(t *testing.T) {
	long := strings.Repeat("x", 2000)
	require.Equal(t, long+"[8m", schema.Description(tool("s", "t", long+hiddenText, "{}")))
	require.Empty(t, schema.Description(mcpvisor.Tool{}))
}

func listed(n int, element func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = element(i)
	}
	return strings.Join(list, ",")
}

// TestFormats_bound_what_references_multiply: a server cannot make a request of megabytes
// with a schema of kilobytes, and not the memory that it takes to write one.
func TestFormats_bound_what_references_multiply(t *testing.T) {
	uses := `{"type":"object","properties":{` + listed(1000, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/e"}`, i) }) + `},"$defs":{"e":%s}}`
	long := strings.Repeat("x", 50_000)
	for what, e := range map[string]string{
		"a long description":     `{"description":"` + long + `"}`,
		"an unknown keyword":     `{"x-own":["` + long + `"]}`,
		"the name of a property": `{"properties":{"` + long + `":{}}}`,
		"a long enum":            `{"enum":[` + listed(20_000, func(i int) string { return fmt.Sprint(i) }) + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, notes := formats["openai"](tool("s", "t", "", fmt.Sprintf(uses, e)))
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(100), "megabytes for %s", what)
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.Less(t, len(text), 2<<20, what)
		require.Contains(t, fmt.Sprint(notes), "the rest was left out", what)
		require.Len(t, parametersOf(f)["properties"], 1000, "the names of the parameters stay")
	}
}

// TestFormats_long_lists: elements of long lists are compared by keys. With each element
// compared with each other one, this takes minutes.
func TestFormats_long_lists(t *testing.T) {
	lists := listed(30_000, func(i int) string { return fmt.Sprintf("[%d]", i) })
	alternatives := listed(3000, func(i int) string { return fmt.Sprintf(`{"properties":{"a":{"maxLength":%d}}}`, i) })
	for _, input := range []string{
		`{"type":"object","properties":{"a":{"enum":[` + lists + `]}}}`,
		`{"type":"object","properties":{"a":{"allOf":[{"enum":[` + lists + `]},{"enum":[` + lists + `]}]}}}`,
		`{"type":"object","anyOf":[` + alternatives + `]}`,
	} {
		f, _ := formats["openai"](tool("s", "t", "", input))
		require.Contains(t, parametersOf(f)["properties"], "a")
	}
	names := func(format string) string {
		return listed(20_000, func(i int) string { return fmt.Sprintf(format, i) })
	}
	f, _ := formats["anthropic"](tool("s", "t", "", `{"type":"object","properties":{`+names(`"%d ":{}`)+`},"required":[`+names(`"%d "`)+`]}`))
	require.Empty(t, parametersOf(f)["properties"])
}

// TestFormats_still_take: arguments that a change once refused.
func TestFormats_still_take(t *testing.T) {
	for _, c := range [][2]string{
		{`{"not":{"pattern":"^\\p{Lu}"}}`, `"abc"`},
		{`{"if":{"pattern":"^(?=x)"},"then":{"maxLength":2}}`, `"abc"`},
		{`{"oneOf":[{"pattern":"^\\p{L}"},{"pattern":"^1"}]}`, `"1a"`},
		{`{"allOf":[{"if":{"required":["k"]},"then":{"required":["l"]}},{"if":{"required":["m"]},"else":{"required":["n"]}}]}`, `{"m":1}`},
		{`{"allOf":[{"contains":{"type":"string"}},{"contains":{"type":"number"},"minContains":2}]}`, `["x",1,2]`},
		{`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"xa":"s"}`},
		{`{"patternProperties":{"^\\p{L}":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"xa":"s"}`},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"boolean"}}`, `["x",1,true]`},
		{`{"type":["string","any"]}`, `1`},
		{`{"allOf":[{"type":["string","any"]},{"type":["string","integer"]}]}`, `1`},
		{`{"allOf":[{"type":["int","string"]},{"type":["integer","string"]}]}`, `1`},
		{`{"nullable":true,"anyOf":[{"type":"string"}]}`, `null`},
		{`{"nullable":true,"type":"string","const":"x"}`, `null`},
	} {
		checkTaken(t, `{"type":"object","properties":{"a":`+c[0]+`}}`, `{"a":`+c[1]+`}`)
	}
	checkTaken(t, `{"type":"object","unevaluatedProperties":false,"anyOf":[{"anyOf":[{"properties":{"a":{"type":"string"}}}]}]}`, `{"a":"x"}`)
	checkTaken(t, `{"type":"object","if":{"required":["b"]},"then":{"properties":{"a":{"type":"string"}}},"else":{"properties":{"a":{"type":"number"}}}}`, `{"a":1}`)
}

func checkTaken(t *testing.T, input, args string) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(args), &v))
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		if provider == "anthropic" && strings.Contains(input, `\\p`) {
			continue // it keeps patterns, and the validator of this test knows no more than Go
		}
		f, _ := formats[provider](tool("s", "t", "", input))
		text, err := json.Marshal(parametersOf(f))
		require.NoError(t, err)
		s := new(jsonschema.Schema)
		require.NoError(t, json.Unmarshal(text, s))
		resolved, err := s.Resolve(nil)
		if strings.Contains(input, "(?=") && err != nil {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, resolved.Validate(v), "%s refuses %s: %s becomes %s", provider, args, input, text)
	}
}

// A regular expression that takes much memory to compile is removed without compiling it.
func TestOpenAI_large_patterns(t *testing.T) {
	for _, p := range []string{strings.Repeat(".{1000}", 140), "(?:" + strings.Repeat("a{1000}", 140) + ")", "[" + strings.Repeat("B-𞤀", 160) + "](?:" + strings.Repeat("(?:b?){1000}", 60) + ")"} {
		text, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "pattern": p}}})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, _ := formats["openai"](tool("s", "t", "", string(text)))
		runtime.ReadMemStats(&after)
		require.NotContains(t, fmt.Sprint(f), "1000")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
	}
}

// Many regular expressions that are small one by one have a bound together.
func TestOpenAI_many_patterns(t *testing.T) {
	fields := map[string]any{}
	for n := range 1000 {
		fields[fmt.Sprint(n)] = map[string]any{"type": "string", "pattern": strings.Repeat("[a-z]?", 160) + fmt.Sprint(n)}
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": fields})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, changed := formats["openai"](tool("s", "t", "", string(text)))
	runtime.ReadMemStats(&after)
	require.Less(t, strings.Count(fmt.Sprint(f), "pattern:"), 20)
	require.Contains(t, fmt.Sprint(changed), "pattern was removed")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		want   string
		result *mcp.CallToolResult
	}{
		{"(no content)", nil},
		{"(no content)", &mcp.CallToolResult{}},
		{"(no content)", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{}}}},
		{"one\ntwo", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "one"}, nil, &mcp.TextContent{}, &mcp.TextContent{Text: "two"}}}},
		{"text", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "text"}}, StructuredContent: map[string]any{"a": 1}}},
		{`{"a":1}`, &mcp.CallToolResult{StructuredContent: map[string]any{"a": 1}}},
		{"[image, image/png, 3 bytes]\n[audio, 2 bytes]", &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("abc")}, &mcp.AudioContent{Data: []byte("ab")}}}},
		{"[resource notes file:///n.txt]\ninside\n[resource file:///b, application/zip, 4 bytes]", &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ResourceLink{Name: "notes", URI: "file:///n.txt"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "inside"}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", MIMEType: "application/zip", Blob: []byte("abcd")}},
			&mcp.EmbeddedResource{}}}},
	} {
		require.Equal(t, c.want, schema.Text(c.result))
	}
}

func TestOpenAI_shortens_descriptions(t *testing.T) {
	description := func(text string) (string, []schema.Note) {
		f, notes := schema.OpenAI(tool("s", "t", text, `{}`))
		return f["function"].(map[string]any)["description"].(string), notes
	}
	longest := strings.Repeat("é", 1024)
	got, notes := description(longest)
	require.Equal(t, longest, got)
	require.Empty(t, notes)
	got, notes = description(longest + "é")
	require.Equal(t, 1024, utf8.RuneCountInString(got))
	require.True(t, utf8.ValidString(got))
	require.Equal(t, []schema.Note{{Tool: "s/t", Count: 1, Text: "the description was shortened from 1025 to 1024 characters, the longest that the provider takes"}}, notes)
	f, notes := schema.Anthropic(tool("s", "t", longest+"é", `{}`))
	require.Equal(t, longest+"é", f["description"])
	require.Empty(t, notes)
}

// Many references to many references would make any number of schemas.
func TestParameters_are_bounded(t *testing.T) {
	defs := map[string]any{"d0": map[string]any{"type": "string"}}
	for i := range 40 {
		ref := map[string]any{"$ref": "#/$defs/d" + string(rune('0'+i))}
		defs["d"+string(rune('1'+i))] = map[string]any{"type": "object", "properties": map[string]any{"a": ref, "b": ref, "c": ref}}
	}
	input := map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"$ref": "#/$defs/dX"}}, "$defs": defs}
	for provider, format := range formats {
		f, notes := format(tool("s", "t", "", input))
		require.Less(t, len(compact(t, f)), 2<<20, provider)
		require.NotEmpty(t, notes)
		require.LessOrEqual(t, len(notes), 51)
	}
	require.Contains(t, input, "$defs", "the input is unchanged")

	alternatives := []any{}
	for range 1000 {
		alternatives = append(alternatives, map[string]any{"allOf": []any{map[string]any{"$ref": "#/$defs/all"}}})
	}
	m, notes := schema.Parameters(tool("s", "t", "", map[string]any{"$ref": "#/$defs/all", "$defs": map[string]any{"all": map[string]any{"allOf": alternatives}}}))
	require.Equal(t, map[string]any{"type": "object", "properties": map[string]any{}}, m)
	require.NotEmpty(t, notes)
}

// The functions share nothing with the definition, which all listings share.
func TestFormats_share_no_memory(t *testing.T) {
	input := map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"default": map[string]any{"k": "v"}, "enum": []any{"x"}}}}
	definition := tool("s", "t", "d", input)
	for provider, format := range formats {
		f, _ := format(definition)
		scribble(f)
		require.Equal(t, map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"default": map[string]any{"k": "v"}, "enum": []any{"x"}}}}, input, provider)
	}
}

// scribble overwrites all values.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			scribble(e)
			v[k] = "overwritten"
		}
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "overwritten"
		}
	}
}

func TestNote_is_one_line(t *testing.T) {
	require.Equal(t, "s/t /properties/a: gone (2 places)", schema.Note{Tool: "s/t", Path: "/properties/a", Count: 2, Text: "gone"}.String())
	require.Equal(t, "s/t: gone", schema.Note{Tool: "s/t", Count: 1, Text: "gone"}.String())
	_, notes := schema.Gemini(tool("s", "t", "", `{"properties":{"a/b~c":{"x-y":1}}}`))
	require.Equal(t, "/properties/a~1b~0c", notes[0].Path)
}

func TestParameters_of_a_tool_without_definition(t *testing.T) {
	m, notes := schema.Parameters(mcpvisor.Tool{Name: "s/t"})
	require.Equal(t, map[string]any{"type": "object", "properties": map[string]any{}}, m)
	require.Empty(t, notes)
}

func TestTextWithError(t *testing.T) {
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "no paper"}}}
	require.Equal(t, "no paper", schema.TextWithError(result))
	result.IsError = true
	require.Equal(t, "Error: no paper", schema.TextWithError(result))
	require.Equal(t, "Error: (no content)", schema.TextWithError(&mcp.CallToolResult{IsError: true}))
	require.Equal(t, "(no content)", schema.TextWithError(nil))
}
