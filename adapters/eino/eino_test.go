package eino_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	einoschema "github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/adapters/eino"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// An agent of Eino finishes although its server is killed in the middle of a call. The
// model learns that the outcome is not known, and the call does not run twice.
func TestTools_agent_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, err := facade.New(facade.WithDefaultWaitReady())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour}}}
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "fixture", Stdio: mcptest.Stdio(script),
		Policy: supervisor.Retry(3, 10*time.Millisecond)}))

	killed := make(chan error, 1)
	go func() { killed <- killDuringCount(ctx, c, script.StateDir) }()
	m := &scriptedModel{}
	agent, err := newAgent(ctx, c, m)
	require.NoError(t, err)
	answer, err := agent.Generate(ctx, []*einoschema.Message{einoschema.UserMessage("Count, then echo.")})
	require.NoError(t, err)
	require.NoError(t, <-killed)
	require.Equal(t, "finished: still here", answer.Content)
	require.Len(t, m.observed, 2)
	require.Contains(t, m.observed[0], "crashed")
	require.Contains(t, m.observed[0], "Whether it had an effect is not known")
	require.Equal(t, 1, mcptest.Executions(script.StateDir)["k"], "the call ran once")
	require.Contains(t, m.names, "mcp__fixture__count")
}

// killDuringCount kills the server while it works on the first call.
func killDuringCount(ctx context.Context, c *facade.Client, stateDir string) error {
	for mcptest.Executions(stateDir)["k"] == 0 {
		select {
		case <-ctx.Done():
			return errors.New("the tool was not called")
		case <-time.After(time.Millisecond):
		}
	}
	status, _ := c.ServerStatus("fixture")
	p, err := os.FindProcess(status.Session.PID)
	if err != nil {
		return err
	}
	return p.Kill()
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
		return call("mcp__fixture__count", `{"key":"k"}`), nil
	case 1:
		return call("mcp__fixture__echo", `{"text":"still here"}`), nil
	}
	return einoschema.AssistantMessage("finished: "+strings.TrimSpace(last.Content), nil), nil
}

func (m *scriptedModel) Stream(context.Context, []*einoschema.Message, ...model.Option) (*einoschema.StreamReader[*einoschema.Message], error) {
	return nil, errors.New("not scripted")
}

// Eino can read the schemas of all tools, and gives a model's mistakes back to it.
func TestTools(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fixture", InMemory: mcptest.InMemory(mcptest.Script{})}))
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
