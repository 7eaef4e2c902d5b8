package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// The example of docs/migration.md that needs mcp-go, so that a compiler reads
// it. A test of test/house compares the two.
var _ = listFiles

func listFiles(ctx context.Context) error {
	c, err := client.NewStdioMCPClient("npx", nil, "-y", "@modelcontextprotocol/server-filesystem", "/tmp")
	if err != nil {
		return err
	}
	defer c.Close()
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "host", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return err
	}
	call := mcp.CallToolRequest{}
	call.Params.Name = "list_directory"
	call.Params.Arguments = map[string]any{"path": "/tmp"}
	result, err := c.CallTool(ctx, call)
	if err != nil {
		return err
	}
	fmt.Println(len(result.Content))
	return nil
}
