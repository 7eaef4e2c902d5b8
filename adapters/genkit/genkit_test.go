package genkit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	gk "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/adapters/genkit"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// A request of Genkit finishes although its server is killed in the middle of a call. The
// model learns that the outcome is not known, and the call does not run twice.
func TestTools_request_survives_a_crash(t *testing.T) {
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
	var m scriptedModel
	g := gk.Init(ctx)
	model := gk.DefineModel(g, "test/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, m.generate)
	response, err := generate(ctx, c, g, model, "Count, then echo.")
	require.NoError(t, err)
	require.NoError(t, <-killed)
	require.Equal(t, "finished: still here", response.Text())
	require.Len(t, m.observed, 2)
	require.Contains(t, m.observed[0], "crashed")
	require.Contains(t, m.observed[0], "Whether it had an effect is not known")
	require.Equal(t, 1, mcptest.Executions(script.StateDir)["k"], "the call ran once")
	require.Contains(t, m.tools, "mcp__fixture__count")
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
		return answer(ai.NewToolRequestPart(&ai.ToolRequest{Name: "mcp__fixture__count", Ref: "1", Input: map[string]any{"key": "k"}}))
	case 1:
		return answer(ai.NewToolRequestPart(&ai.ToolRequest{Name: "mcp__fixture__echo", Ref: "2", Input: map[string]any{"text": "still here"}}))
	default:
		return answer(ai.NewTextPart("finished: " + m.observed[n-1]))
	}
}

// Genkit can use the schemas of all tools.
func TestTools(t *testing.T) {
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fixture", InMemory: mcptest.InMemory(mcptest.Script{})}))
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
