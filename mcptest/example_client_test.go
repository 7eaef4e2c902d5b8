package mcptest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A service under test gets its servers from scripts: here the second call of echo ends the
// server, and the tool consult asks for what the handlers of the client answer.
func Example_client() {
	ctx := context.Background()
	client, err := facade.New(
		facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"city": "Oslo"}}, nil
		}),
		facade.WithSamplingHandler(func(_ context.Context, r facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Model: "test", Content: []mcp.Content{&mcp.TextContent{Text: "42"}}}, nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{
		Name: "web",
		InMemory: mcptest.InMemory(mcptest.Script{
			Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "echo", Nth: 2, Do: mcptest.ActionExit, Code: 3}},
		}),
		Policy: supervisor.Retry(3, 0),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for range 2 {
		result, err := client.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
		if errors.Is(err, mcpvisor.ErrCrashed) {
			fmt.Println("crashed:", err.(*mcpvisor.Error).Outcome)
			continue
		}
		fmt.Println(schema.Text(result))
	}
	questions := []map[string]any{
		{"method": "elicitation/create", "params": map[string]any{"message": "Where?", "requestedSchema": map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}},
		{"method": "sampling/createMessage", "params": map[string]any{"maxTokens": 3, "messages": []any{
			map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "What is 6 times 7?"}}}}},
	}
	for _, question := range questions {
		result, err := client.CallTool(ctx, "web/consult", question, facade.WithWaitReady())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(schema.Text(result))
	}
	// Output:
	// hello
	// crashed: unknown
	// {"action":"accept","content":{"city":"Oslo"}}
	// {"content":{"type":"text","text":"42"},"model":"test","role":"assistant"}
}
