package facade_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// What a model is given stays the same while a server is down.
func ExampleWithStickyTools() {
	ctx := context.Background()
	client, err := facade.New(facade.WithStickyTools())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "notes", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(5, time.Minute)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.CallTool(ctx, "notes/crash", nil) // the server crashes
	tool, listed := client.Tool("notes/echo")
	fmt.Println(listed, tool.Unavailable)
	// Output: true true
}
