package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// newExampleClient returns a client with one server, "demo".
func newExampleClient() *facade.Client {
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	if err := c.Register(context.Background(), mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()

	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	type args struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello " + a.Name}}}, nil, nil
	})
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "hi", InMemory: facade.ServeInMemory(server)}); err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "hi/greet", map[string]any{"name": "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output: Hello Ada
}

// A subprocess that is restarted 500 ms, 1 s and 2 s after its crashes.
func ExampleClient_Register() {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{
		Name:   "fs",
		Stdio:  &mcpvisor.Stdio{Command: "no-such-server", Args: []string{"/tmp"}},
		Policy: supervisor.Retry(3, 500*time.Millisecond),
	})
	fmt.Println(errors.Is(err, mcpvisor.ErrStart), c.Servers())
	// Output: true []
}

func ExampleClient_RegisterAll() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	err := c.RegisterAll(context.Background(), []mcpvisor.ServerSpec{
		{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})},
		{Name: "b", InMemory: mcptest.InMemory(mcptest.Script{})},
		{Name: "c/d", InMemory: mcptest.InMemory(mcptest.Script{})},
	})
	fmt.Println(errors.Is(err, mcpvisor.ErrInvalid), c.Servers())
	// Output: true [a b demo]
}

func ExampleClient_CallTool() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	res, err := c.CallTool(context.Background(), "demo/add", map[string]any{"a": 2, "b": 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)

	_, err = c.CallTool(context.Background(), "demo/eccho", nil, facade.WithTimeout(time.Second))
	fmt.Println(err)
	// Output:
	// {"sum":5}
	// call demo/eccho: unknown tool; nothing was sent; did you mean demo/echo?
}

func ExampleClient_CallToolRaw() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	raw, err := c.CallToolRaw(context.Background(), "demo/echo", json.RawMessage(`{"text":"as it is"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var result struct{ Content []struct{ Text string } }
	fmt.Println(json.Unmarshal(raw, &result), result.Content[0].Text)
	// Output: <nil> as it is
}

func ExampleClient_CallToolForModel() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	res := c.CallToolForModel(context.Background(), "demo/ecko", map[string]any{"text": "x"})
	fmt.Println(res.IsError, res.Content[0].(*mcp.TextContent).Text)
	// Output: true There is no tool demo/ecko. Did you mean demo/echo?
}

// A call that waits until its server is ready again.
func ExampleWithWaitReady() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, 10*time.Millisecond)})
	if err != nil {
		panic(err)
	}
	_, crashed := c.CallTool(ctx, "s/crash", nil)
	_, err = c.CallTool(ctx, "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	fmt.Println(errors.Is(crashed, mcpvisor.ErrCrashed), err)
	// Output: true <nil>
}
