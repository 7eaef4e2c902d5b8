package gateway_test

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// One session with the tools of all servers. It survives the crash of a server.
func Example() {
	ctx := context.Background()
	client, err := facade.New(facade.WithDefaultWaitReady())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{
		Name:     "demo",
		InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy:   supervisor.Retry(3, time.Millisecond),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := host.Connect(ctx, gateway.Transport(client), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	for _, call := range []*mcp.CallToolParams{
		{Name: "mcp__demo__crash"},
		{Name: "mcp__demo__echo", Arguments: map[string]any{"text": "The session continues."}},
	} {
		result, err := session.CallTool(ctx, call)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// Internal Error: the server of mcp__demo__crash crashed during the call. Whether it had an effect is not known; check before you repeat it.
	// The session continues.
}

// The program as an MCP server for another one: it answers on a stream, here a pair of pipes.
// A host that starts the program is reached with &mcp.StdioTransport{}.
func ExampleServe() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		fmt.Println(err)
		return
	}
	fromHost, toServer := io.Pipe()
	fromServer, toHost := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- gateway.Serve(ctx, gateway.Transport(client), &mcp.IOTransport{Reader: fromHost, Writer: toHost})
	}()

	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	session, err := host.Connect(ctx, &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__demo__echo", Arguments: map[string]any{"text": "Hello."}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	_ = session.Close()
	fmt.Println("served:", <-served)
	// Output:
	// Hello.
	// served: <nil>
}
