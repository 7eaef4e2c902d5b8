package facade_test

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server behind a transport of the go-sdk, here one in memory. Each start makes a new
// transport, so that a lost connection is replaced.
func ExampleClient_Register_transport() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()

	server := mcp.NewServer(&mcp.Implementation{Name: "clock", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "day"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Monday"}}}, nil, nil
	})
	err = c.Register(ctx, mcpvisor.ServerSpec{
		Name: "clock",
		Transport: &mcpvisor.Transport{
			New: func(ctx context.Context) (mcp.Transport, error) {
				ours, theirs := mcp.NewInMemoryTransports()
				_, err := server.Connect(ctx, theirs, nil)
				return ours, err
			},
			Target: "the clock in this program",
		},
		Policy: supervisor.Retry(3, 500*time.Millisecond),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "clock/day", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output: Monday
}
