package facade_test

import (
	"context"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host that calls for its own clients hands the task over, and asks for it when it is asked.
func ExampleWithTaskRelay() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	server := mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "build", As: "echo", Task: &mcptest.TaskDef{}}}})
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "ci", InMemory: server}); err != nil {
		panic(err)
	}
	var made facade.TaskRelay
	if _, err := client.CallToolRaw(ctx, "ci/build", []byte(`{"text":"main"}`), facade.WithTaskRelay(&made)); err != nil {
		panic(err)
	}
	task, err := client.TaskOf(made.Server, made.ID, facade.WithTaskOrigin(made.Origin)) // in another process, too
	if err != nil {
		panic(err)
	}
	answer, err := task.Ask(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(made.Server, answer.State)
	// Output: ci completed
}
