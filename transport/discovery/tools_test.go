package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

var toolTexts = []string{
	`null`, `7`, `"x"`, `[]`, `{}`, `{"name":null}`, `{"name":7}`, `{"name":""}`, ` { "name" : "a" } `,
	`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"a":[1.0, 2]}}`, `{"name":"a","inputSchema":null,"outputSchema":7}`,
	`{"name":"g\u00f6\n\"","title":"t\/","description":"\ud83d\ude00 \ud83d"}`, "{\"name\":\"\xff\"}", `{"n\u0061me":"a","\u0069nputSchema":{}}`,
	`{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":false,"title":"x"}}`, `{"name":"a","annotations":7}`, `{"name":"a","annotations":null}`,
	`{"name":"a","icons":[{"src":"data:"}],"_meta":{"k":[1]}}`, `{"name":"a","icons":{}}`, `{"name":"a","_meta":[]}`,
	`{"name":"a","name":"b","description":"x","description":null,"annotations":{"title":"1"},"annotations":{"readOnlyHint":true}}`,
	`{"name":"a","description":7}`, `{"name":"a","title":{}}`, `{"name":"a","unknown":{"name":"b"}}`,
}

func TestToolDecoder_agrees_with_encoding_json(t *testing.T) {
	for _, text := range toolTexts {
		t.Run(text, func(t *testing.T) { requireSameTool(t, []byte(text)) })
	}
}

func FuzzTool(f *testing.F) {
	for _, text := range toolTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || hasDuplicates(text) {
			t.Skip("a page holds valid entries only; which of two duplicates is refused may differ")
		}
		requireSameTool(t, text)
	})
}

// hasDuplicates reports whether a member of an object occurs twice.
func hasDuplicates(text []byte) bool {
	seen := map[string]bool{}
	duplicates := false
	_ = jsonscan.EachMember(text, func(key string, _ []byte) error {
		duplicates = duplicates || seen[key]
		seen[key] = true
		return nil
	})
	return duplicates
}

// requireSameTool decodes a tool in one pass and with encoding/json, and compares. Of
// duplicate members the last one counts. Schemas stay text.
func requireSameTool(t *testing.T, text []byte) {
	t.Helper()
	got := toolDecoder{}
	gotErr := got.add(text, newBounds())
	want := new(mcp.Tool)
	var members map[string]json.RawMessage
	err := json.Unmarshal(text, &members)
	for key, into := range map[string]any{"name": &want.Name, "title": &want.Title, "description": &want.Description,
		"annotations": &want.Annotations, "icons": &want.Icons, "_meta": &want.Meta} {
		if value, ok := members[key]; ok && err == nil {
			err = json.Unmarshal(value, into)
		}
	}
	for key, into := range map[string]*any{"inputSchema": &want.InputSchema, "outputSchema": &want.OutputSchema} {
		if value, ok := members[key]; ok && string(value) != "null" {
			*into = value
		}
	}
	if err != nil || want.Name == "" {
		require.Error(t, gotErr, "%q", text)
		require.Empty(t, got.named("srv"))
		return
	}
	require.NoError(t, gotErr, "%q", text)
	tools := got.named("srv")
	require.Equal(t, []mcpvisor.Tool{{Name: mcpvisor.Qualify("srv", want.Name), Server: "srv", OriginalName: want.Name,
		Alias: mcpvisor.Alias("srv", want.Name), Definition: want, Raw: tools[0].Raw}}, tools, "%q", text)
}

// The names of many tools share memory. Each is right, even where entries between them were
// left out.
func TestToolDecoder_names_many_tools(t *testing.T) {
	l := toolDecoder{}
	for i := range 500 {
		if i%7 == 3 {
			require.Error(t, l.add([]byte(`{"description":"left over","name":7}`), newBounds()))
		}
		require.NoError(t, l.add(fmt.Appendf(nil, `{"name":"tool %d%s"}`, i, strings.Repeat("x", i%90)), newBounds()))
	}
	tools := l.named("srv")
	require.Len(t, tools, 500)
	for i, tool := range tools {
		name := fmt.Sprintf("tool %d%s", i, strings.Repeat("x", i%90))
		require.Equal(t, &mcp.Tool{Name: name}, tool.Definition)
		require.Equal(t, mcpvisor.Tool{Name: "srv/" + name, Server: "srv", OriginalName: name,
			Alias: mcpvisor.Alias("srv", name), Definition: tool.Definition, Raw: tool.Raw}, tool)
	}
}

func newBounds() *bounds { return &bounds{decoded: new(int)} }
