package schema_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/schema"
)

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
