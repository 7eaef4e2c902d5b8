package facade_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func ExampleClient_Tools() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	for _, t := range c.Tools()[:2] {
		fmt.Println(t.Name, t.Alias, t.OriginalName)
	}
	// Output:
	// demo/add mcp__demo__add add
	// demo/add_tool mcp__demo__add_tool add_tool
}

func ExampleClient_ReadResource() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	first := c.Resources()[0]
	res, err := c.ReadResource(ctx, first.Server, first.URI)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(c.ResourceTemplates()) > 0, res.Contents[0].URI == first.URI)
	// Output: true true
}

func ExampleClient_GetPrompt() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	for _, p := range c.Prompts() {
		fmt.Println(p.Name)
	}
	res, err := c.GetPrompt(ctx, "demo/greet", map[string]string{"name": "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Messages[0].Content.(*mcp.TextContent).Text)
	// Output:
	// demo/greet
	// demo/hello
	// Greet Ada.
}

func ExampleClient_Status() {
	c := newExampleClient()
	defer func() { _ = c.Close(context.Background()) }()
	for _, s := range c.Status() {
		fmt.Println(s.Name, s.State, s.Transport, s.Epoch)
	}
	one, ok := c.ServerStatus("demo")
	fmt.Println(ok, one.Catalog.Tools == len(c.Tools()))
	// Output:
	// demo ready memory 1
	// true true
}

func ExampleClient_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	all := c.Watch(ctx)
	some := c.Watch(ctx, mcpvisor.EventReady, mcpvisor.EventDown)
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}
	if err := c.Unregister(ctx, "s"); err != nil {
		panic(err)
	}
	_ = c.Close(ctx)
	for event := range all { // the channel is closed with the client
		fmt.Println("all: ", event.Kind)
	}
	for event := range some {
		fmt.Println("some:", event.Kind)
	}
	// Output:
	// all:  registered
	// all:  connecting
	// all:  ready
	// all:  down
	// all:  unregistered
	// some: ready
	// some: down
}

func ExampleClient_Restart() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	_, _ = c.CallTool(ctx, "demo/crash", nil) // NoRetry: evicted
	fmt.Println(c.Restart(ctx, "demo"), c.WaitReady(ctx, "demo"))
	s, _ := c.ServerStatus("demo")
	fmt.Println(s.State, s.Epoch)
	// Output:
	// <nil> <nil>
	// ready 2
}
