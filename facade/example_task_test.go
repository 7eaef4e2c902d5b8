package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The task asks the user, and the host has no handler: it answers by hand.
func ExampleTask_Answer() {
	ctx := context.Background()
	client := exampleClient(mcpvisor.ServerSpec{Name: "files",
		InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{"2026-07-28"}, Tools: []mcptest.ToolDef{{Name: "delete", Text: "deleted",
			Task: &mcptest.TaskDef{Input: json.RawMessage(`{"sure":{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}`)}}}})})
	defer func() { _ = client.Close(ctx) }()
	task, err := client.StartTask(ctx, "files/delete", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = task.Wait(ctx); !errors.Is(err, mcpvisor.ErrInputRequired) {
		fmt.Println(err)
		return
	}
	questions, err := task.Inputs(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, question := range questions {
		fmt.Println(question.Key, question.Method)
		if err := task.Answer(ctx, question.Key, &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	result, err := task.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// sure elicitation/create
	// deleted
}

// The server crashes while it works on a task. The handle asks the next incarnation for it.
func ExampleClient_StartTask() {
	ctx := context.Background()
	client := exampleClient(mcpvisor.ServerSpec{Name: "builds", Policy: mcpvisor.Retry(3, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{Tools: append(mcptest.DefaultTools(),
			mcptest.ToolDef{Name: "run", Text: "built", Task: &mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true}})})})
	defer func() { _ = client.Close(ctx) }()
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
