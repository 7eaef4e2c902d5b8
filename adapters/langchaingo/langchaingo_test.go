package langchaingo_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/adapters/langchaingo"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// newFixture returns a client of a server that is killed while it works on its first call.
// killed is what came of that.
func newFixture(ctx context.Context, t *testing.T) (c *facade.Client, stateDir string, killed chan error) {
	t.Helper()
	c, err := facade.New(facade.WithDefaultWaitReady())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour}}}
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "fixture", Stdio: mcptest.Stdio(script),
		Policy: supervisor.Retry(3, 10*time.Millisecond)}))
	killed = make(chan error, 1)
	go func() { killed <- killDuringCount(ctx, c, script.StateDir) }()
	return c, script.StateDir, killed
}

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
		return call("mcp__fixture__count", `{"key":"k"}`, `{"__arg1":"{\"key\":\"k\"}"}`), nil
	case 1:
		return call("mcp__fixture__echo", `{"text":"still here"}`, `{"__arg1":"{\"text\":\"still here\"}"}`), nil
	default:
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "finished: " + m.observed[n-1]}}}, nil
	}
}

func (m *scriptedModel) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("not scripted")
}

func (m *scriptedModel) check(t *testing.T, answer, stateDir string) {
	t.Helper()
	require.Equal(t, "finished: still here", answer)
	require.Len(t, m.observed, 2)
	require.Contains(t, m.observed[0], "crashed")
	require.Contains(t, m.observed[0], "Whether it had an effect is not known")
	require.Equal(t, 1, mcptest.Executions(stateDir)["k"], "the call ran once")
	require.Contains(t, m.tools, "mcp__fixture__count")
}

// An agent of langchaingo finishes although its server is killed in the middle of a call.
// The model learns that the outcome is not known, and the call does not run twice.
func TestTools_agent_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, stateDir, killed := newFixture(ctx, t)
	m := &scriptedModel{wrap: true}
	answer, err := run(ctx, c, m, "Count, then echo.")
	require.NoError(t, err)
	require.NoError(t, <-killed)
	m.check(t, answer, stateDir)
}

// A loop of the host does, too.
func TestFunctions_loop_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, stateDir, killed := newFixture(ctx, t)
	m := &scriptedModel{}
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Count, then echo.")}
	for {
		response, err := m.GenerateContent(ctx, messages, llms.WithTools(langchaingo.Functions(c)))
		require.NoError(t, err)
		choice := response.Choices[0]
		if len(choice.ToolCalls) == 0 {
			require.NoError(t, <-killed)
			m.check(t, choice.Content, stateDir)
			return
		}
		for _, call := range choice.ToolCalls {
			messages = append(messages, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}},
				llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{langchaingo.Call(ctx, c, call)}})
		}
	}
}

func TestTools(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fixture", InMemory: mcptest.InMemory(mcptest.Script{})}))
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
