package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

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
