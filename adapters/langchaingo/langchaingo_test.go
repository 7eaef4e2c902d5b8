package langchaingo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/adapters/langchaingo"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/adaptertest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// scriptedModel calls count, then echo, and then answers with what echo returned.
type scriptedModel struct {
	wrap     bool     // arguments in the one text that agents show a model
	tools    []string // that it was given
	observed []string // what the tools returned
}

func (m *scriptedModel) GenerateContent(_ context.Context, messages []llms.MessageContent, opts ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, opt := range opts {
		opt(&o)
	}
	m.tools = nil
	for _, f := range o.Functions {
		m.tools = append(m.tools, f.Name)
	}
	for _, t := range o.Tools {
		m.tools = append(m.tools, t.Function.Name)
	}
	if last := messages[len(messages)-1]; last.Role == llms.ChatMessageTypeTool {
		m.observed = append(m.observed, last.Parts[0].(llms.ToolCallResponse).Content)
	}
	call := func(name, args, wrapped string) *llms.ContentResponse {
		if m.wrap {
			args = wrapped
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{{ID: name, Type: "function",
			FunctionCall: &llms.FunctionCall{Name: name, Arguments: args}}}}}}
	}
	switch n := len(m.observed); n {
	case 0:
		return call(adaptertest.FirstTool, adaptertest.FirstArgs, `{"__arg1":"{\"key\":\"k\"}"}`), nil
	case 1:
		return call(adaptertest.SecondTool, adaptertest.SecondArgs, `{"__arg1":"{\"text\":\"still here\"}"}`), nil
	default:
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: adaptertest.Finished + m.observed[n-1]}}}, nil
	}
}

func (m *scriptedModel) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("not scripted")
}

// docs/frameworks.md has these lines.
func run(ctx context.Context, client *facade.Client, model llms.Model, prompt string) (string, error) {
	agent := agents.NewOpenAIFunctionsAgent(model, langchaingo.Tools(client))
	answer, err := chains.Run(ctx, agents.NewExecutor(agent), prompt)
	return answer, err
}

func TestPage(t *testing.T) { adaptertest.RequireOnPage(t, "langchaingo", "langchaingo_test.go") }

// An agent of langchaingo finishes although its server is killed in the middle of a call.
// The model learns that the outcome is not known, and the call does not run twice.
func TestTools_agent_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	crash := adaptertest.NewCrash(ctx, t)
	m := &scriptedModel{wrap: true}
	answer, err := run(ctx, crash.Client, m, "Count, then echo.")
	require.NoError(t, err)
	crash.Check(t, answer, m.tools, m.observed)
}

// A loop of the host does, too.
func TestFunctions_loop_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	crash := adaptertest.NewCrash(ctx, t)
	m := &scriptedModel{}
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Count, then echo.")}
	for {
		response, err := m.GenerateContent(ctx, messages, llms.WithTools(langchaingo.Functions(crash.Client)))
		require.NoError(t, err)
		choice := response.Choices[0]
		if len(choice.ToolCalls) == 0 {
			crash.Check(t, choice.Content, m.tools, m.observed)
			return
		}
		for _, call := range choice.ToolCalls {
			messages = append(messages, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}},
				llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{langchaingo.Call(ctx, crash.Client, call)}})
		}
	}
}

func TestTools(t *testing.T) {
	c := adaptertest.Fixture(t)
	for _, tool := range langchaingo.Tools(c) {
		require.Contains(t, tool.Description(), `"type":"object"`)
		if tool.Name() == "mcp__fixture__echo" {
			text, err := tool.Call(t.Context(), "not JSON")
			require.NoError(t, err)
			require.Contains(t, text, "Error: The arguments for mcp__fixture__echo cannot be used")
		}
	}
	require.Len(t, langchaingo.Functions(c), len(c.Tools()))
	require.Equal(t, "Error: the call names no function.", langchaingo.Call(t.Context(), c, llms.ToolCall{}).Content)
}

func TestTools_have_no_hidden_characters(t *testing.T) {
	c := adaptertest.HiddenText(t)
	adaptertest.RequireVisible(t, langchaingo.Tools(c)[0].Description(), nil)
	function := langchaingo.Functions(c)[0].Function
	adaptertest.RequireVisible(t, function.Description, function.Parameters)
}
