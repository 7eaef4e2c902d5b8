package facade_test

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The server crashes while it works on a task. The handle asks the next incarnation for it.
func ExampleClient_StartTask() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "builds", Policy: mcpvisor.Retry(3, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{Tools: append(mcptest.DefaultTools(),
			mcptest.ToolDef{Name: "run", Text: "built", Task: &mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true}})})})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, err := client.StartTask(ctx, "builds/run", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.CallTool(ctx, "builds/crash", nil)
	for _, open := range client.Tasks() {
		fmt.Println(open.Server, open.Tool, open.State)
	}
	result, err := task.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// builds run working
	// built
}
