package genkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	gk "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/adapters/genkit"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/adaptertest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// docs/frameworks.md has these lines.
func generate(ctx context.Context, client *facade.Client, g *gk.Genkit, model ai.Model, prompt string) (*ai.ModelResponse, error) {
	var tools []ai.ToolRef
	for _, tool := range genkit.Tools(client) {
		tools = append(tools, tool)
	}
	response, err := gk.Generate(ctx, g, ai.WithModel(model), ai.WithPrompt(prompt), ai.WithTools(tools...))
	return response, err
}

func TestPage(t *testing.T) { adaptertest.RequireOnPage(t, "genkit", "genkit_test.go") }

// A request of Genkit finishes although its server is killed in the middle of a call. The
// model learns that the outcome is not known, and the call does not run twice.
func TestTools_request_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	crash := adaptertest.NewCrash(ctx, t)
	var m scriptedModel
	g := gk.Init(ctx)
	model := gk.DefineModel(g, "test/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, m.generate)
	response, err := generate(ctx, crash.Client, g, model, "Count, then echo.")
	require.NoError(t, err)
	crash.Check(t, response.Text(), slices.Collect(maps.Keys(m.tools)), m.observed)
}

// scriptedModel calls count, then echo, and then answers with what echo returned.
type scriptedModel struct {
	tools    map[string]map[string]any // the schemas that it was given, by name
	observed []string                  // what the tools returned
}

func (m *scriptedModel) generate(_ context.Context, r *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	m.tools = map[string]map[string]any{}
	for _, t := range r.Tools {
		m.tools[t.Name] = t.InputSchema
	}
	last := r.Messages[len(r.Messages)-1]
	if last.Role == ai.RoleTool {
		m.observed = append(m.observed, fmt.Sprint(last.Content[0].ToolResponse.Output))
	}
	answer := func(part *ai.Part) (*ai.ModelResponse, error) {
		return &ai.ModelResponse{Request: r, Message: ai.NewModelMessage(part), FinishReason: ai.FinishReasonStop}, nil
	}
	switch n := len(m.observed); n {
	case 0:
		return answer(ai.NewToolRequestPart(&ai.ToolRequest{Name: adaptertest.FirstTool, Ref: "1", Input: json.RawMessage(adaptertest.FirstArgs)}))
	case 1:
		return answer(ai.NewToolRequestPart(&ai.ToolRequest{Name: adaptertest.SecondTool, Ref: "2", Input: json.RawMessage(adaptertest.SecondArgs)}))
	default:
		return answer(ai.NewTextPart(adaptertest.Finished + m.observed[n-1]))
	}
}

// Genkit can use the schemas of all tools.
func TestTools(t *testing.T) {
	c := adaptertest.Fixture(t)
	tools := genkit.Tools(c)
	require.Len(t, tools, len(c.Tools()))
	for _, tool := range tools {
		require.Equal(t, "object", tool.Definition().InputSchema["type"])
		if tool.Name() == "mcp__fixture__echo" {
			out, err := tool.RunRaw(t.Context(), map[string]any{"text": "hello"})
			require.NoError(t, err)
			require.Equal(t, "hello", out)
		}
	}
}

// Genkit refuses no arguments that a tool takes because its validator reads the schema in
// another way, or cannot read it.
func TestTools_odd_schemas(t *testing.T) {
	for _, odd := range [][2]string{
		{`{"type":"string","pattern":"^(?!-)[a-z]+$"}`, `"ok"`},
		{`{"type":"object","patternProperties":{"^(?!-)x":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"x":"s"}`},
		{`{"type":"string","maxLength":1e20}`, `"ok"`},
		{`{"type":"string","enum":[]}`, `"ok"`},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}`, `["x",1]`},
		{`{"type":"array","contains":{"type":"string"},"minContains":0}`, `[1]`},
		{`{"type":"string","extends":5,"dependencies":5,"$ref":5,"id":5,"definitions":5}`, `"ok"`},
		{`{"type":"array","additionalItems":5,"divisibleBy":"x","disallow":5}`, `[]`},
	} {
		var a any
		require.NoError(t, json.Unmarshal([]byte(odd[1]), &a))
		c := adaptertest.OddServer(t, `{"type":"object","properties":{"a":`+odd[0]+`}}`)
		out, err := genkit.Tools(c)[0].RunRaw(t.Context(), map[string]any{"a": a})
		require.NoError(t, err, odd[0])
		require.Equal(t, "ran", out, odd[0])
	}
}

func TestTools_have_no_hidden_characters(t *testing.T) {
	tool := genkit.Tools(adaptertest.HiddenText(t))[0].Definition()
	adaptertest.RequireVisible(t, tool.Description, tool.InputSchema)
}
