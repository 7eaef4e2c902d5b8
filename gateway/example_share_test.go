package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A server that keeps something for its client runs once for each client, and ends with it.
func ExampleWithShare() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}

	transport := gateway.Transport(client, gateway.WithShare(gateway.ShareClient, "browser"))
	for _, host := range []string{"ann", "bob"} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: host, Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			panic(err)
		}
		defer func() { _ = session.Close() }()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "browser/pid"})
		if err != nil {
			panic(err)
		}
		var incarnation struct{ Start int }
		if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &incarnation); err != nil {
			panic(err)
		}
		fmt.Println(host, "has incarnation", incarnation.Start)
	}
	// Output:
	// ann has incarnation 2
	// bob has incarnation 3
}
