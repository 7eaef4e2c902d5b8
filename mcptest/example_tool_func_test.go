package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func init() { //nolint:gochecknoinits // Stdio runs the binary again, so the tool must be registered before main
	mcptest.RegisterTool("greet", func(_ context.Context, arguments json.RawMessage) (any, error) {
		var args struct{ Name string }
		if err := json.Unmarshal(arguments, &args); err != nil {
			return nil, err
		}
		return "Hello, " + args.Name + "!", nil
	})
}

// A test of your service: your own tool, in a server that dies in the first call.
func ExampleRegisterTool() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	script := mcptest.Script{
		Tools:  []mcptest.ToolDef{{Name: "greet"}},
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "greet", Starts: []int{1}, Do: mcptest.ActionExit, Code: 1}},
	}
	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script), Policy: supervisor.Retry(3, 0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		result, err := client.CallTool(ctx, "s/greet", map[string]any{"name": "Ada"}, facade.WithWaitReady())
		if errors.Is(err, mcpvisor.ErrCrashed) {
			fmt.Println("the server crashed")
			continue
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// the server crashed
	// Hello, Ada!
}
