package eino_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	einoschema "github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/adapters/eino"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/adaptertest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// docs/frameworks.md has these lines.
func newAgent(ctx context.Context, client *facade.Client, model model.ToolCallingChatModel) (*react.Agent, error) {
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: eino.Tools(client)},
	})
	return agent, err
}

func TestPage(t *testing.T) { adaptertest.RequireOnPage(t, "eino", "eino_test.go") }

// An agent of Eino finishes although its server is killed in the middle of a call. The
// model learns that the outcome is not known, and the call does not run twice.
func TestTools_agent_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	crash := adaptertest.NewCrash(ctx, t)
	m := &scriptedModel{}
	agent, err := newAgent(ctx, crash.Client, m)
	require.NoError(t, err)
	answer, err := agent.Generate(ctx, []*einoschema.Message{einoschema.UserMessage("Count, then echo.")})
	require.NoError(t, err)
	crash.Check(t, answer.Content, m.names, m.observed)
}

// scriptedModel calls count, then echo, and then answers with what echo returned.
type scriptedModel struct {
	names    []string // of the tools that it was given
	observed []string // what the tools returned
}

func (m *scriptedModel) WithTools(tools []*einoschema.ToolInfo) (model.ToolCallingChatModel, error) {
	for _, t := range tools {
		m.names = append(m.names, t.Name)
	}
	return m, nil
}

func (m *scriptedModel) Generate(_ context.Context, input []*einoschema.Message, _ ...model.Option) (*einoschema.Message, error) {
	last := input[len(input)-1]
	if last.Role == einoschema.Tool {
		m.observed = append(m.observed, last.Content)
	}
	call := func(name, args string) *einoschema.Message {
		return einoschema.AssistantMessage("", []einoschema.ToolCall{{ID: name, Type: "function",
			Function: einoschema.FunctionCall{Name: name, Arguments: args}}})
	}
	switch len(m.observed) {
	case 0:
		return call(adaptertest.FirstTool, adaptertest.FirstArgs), nil
	case 1:
		return call(adaptertest.SecondTool, adaptertest.SecondArgs), nil
	}
	return einoschema.AssistantMessage(adaptertest.Finished+strings.TrimSpace(last.Content), nil), nil
}

func (m *scriptedModel) Stream(context.Context, []*einoschema.Message, ...model.Option) (*einoschema.StreamReader[*einoschema.Message], error) {
	return nil, errors.New("not scripted")
}

// Eino can read the schemas of all tools, and gives a model's mistakes back to it.
func TestTools(t *testing.T) {
	c := adaptertest.Fixture(t)
	tools := eino.Tools(c)
	require.Len(t, tools, len(c.Tools()))
	for _, listed := range tools {
		info, err := listed.Info(t.Context())
		require.NoError(t, err)
		s, err := info.ToJSONSchema()
		require.NoError(t, err)
		require.Equal(t, "object", s.Type)
		if info.Name != "mcp__fixture__echo" {
			continue
		}
		text, err := listed.(tool.InvokableTool).InvokableRun(t.Context(), `{"text":`)
		require.NoError(t, err)
		require.Contains(t, text, "Error: The arguments for mcp__fixture__echo cannot be used")
	}
}

// A tool with an odd schema does not take the tools of all servers from an agent, and keeps
// the names of its parameters.
func TestTools_odd_schemas(t *testing.T) {
	for _, property := range []string{
		`{"type":"string","maxLength":1e20}`,
		`{"type":"string","contentSchema":5}`,
		`{"type":"string","Enum":7}`,
		`{"type":"string","AllOf":7}`,
		`{"type":"array","items":{"type":"string"},"Required":true}`,
	} {
		c := adaptertest.OddServer(t, `{"type":"object","properties":{"a":`+property+`}}`)
		_, err := newAgent(t.Context(), c, &scriptedModel{})
		require.NoError(t, err, property)
		info, err := eino.Tools(c)[0].Info(t.Context())
		require.NoError(t, err, property)
		s, err := info.ToJSONSchema()
		require.NoError(t, err, property)
		_, has := s.Properties.Get("a")
		require.True(t, has, property)
	}
}

func TestTools_have_no_hidden_characters(t *testing.T) {
	info, err := eino.Tools(adaptertest.HiddenText(t))[0].Info(t.Context())
	require.NoError(t, err)
	s, err := info.ToJSONSchema()
	require.NoError(t, err)
	adaptertest.RequireVisible(t, info.Desc, s)
}
