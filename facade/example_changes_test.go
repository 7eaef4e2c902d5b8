package facade_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A server announces that its tools have changed, and the listing follows.
func ExampleClient_Watch_changes() {
	c, ctx := newExampleClient(), context.Background()
	defer func() { _ = c.Close(ctx) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events := c.Watch(watching)
	if _, err := c.CallTool(ctx, "demo/add_tool", map[string]any{"name": "fresh"}); err != nil {
		panic(err)
	}
	for e := range events {
		if e.Kind == mcpvisor.EventChanged {
			fmt.Println(e.Change.Tools.Added)
			break
		}
	}
	// Output: [demo/fresh]
}

// Refresh reads the lists of a server that does not announce changes.
func ExampleClient_Refresh() {
	c, ctx := newExampleClient(), context.Background()
	defer func() { _ = c.Close(ctx) }()
	fmt.Println(c.Refresh(ctx, "demo"))
	// Output: <nil>
}

// A subscription is made again for each incarnation.
func ExampleClient_Subscribe() {
	c, ctx := newExampleClient(), context.Background()
	defer func() { _ = c.Close(ctx) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events := c.Watch(watching)
	if err := c.Subscribe(ctx, "demo", "mcptest://text"); err != nil {
		panic(err)
	}
	if err := c.Restart(ctx, "demo"); err != nil {
		panic(err)
	}
	if _, err := c.CallTool(ctx, "demo/touch", map[string]any{"uri": "mcptest://text"}, facade.WithWaitReady()); err != nil {
		panic(err)
	}
	for e := range events {
		if e.Kind == mcpvisor.EventResourceUpdated {
			fmt.Println(e.Server, e.URI)
			break
		}
	}
	fmt.Println(c.Unsubscribe(ctx, "demo", "mcptest://text"))
	// Output:
	// demo mcptest://text
	// <nil>
}

// Log messages of a server go to the client's logger and to watchers.
func ExampleClient_SetLoggingLevel() {
	c, ctx := newExampleClient(), context.Background()
	defer func() { _ = c.Close(ctx) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events := c.Watch(watching)
	if err := c.SetLoggingLevel(ctx, "demo", "warning"); err != nil {
		panic(err)
	}
	for _, level := range []string{"debug", "error"} {
		if _, err := c.CallTool(ctx, "demo/log", map[string]any{"level": level, "text": "from " + level}); err != nil {
			panic(err)
		}
	}
	for e := range events {
		if e.Kind == mcpvisor.EventLog {
			fmt.Println(e.Log.Level, e.Log.Text)
			break
		}
	}
	// Output: error from error
}

// Each progress notification restarts the call's timeout: a tool that works may take its
// time, one that hangs may not.
func ExampleWithProgress() {
	c, ctx := newExampleClient(), context.Background()
	defer func() { _ = c.Close(ctx) }()
	_, err := c.CallTool(ctx, "demo/slow_progress", map[string]any{"steps": 3},
		facade.WithTimeout(10*time.Second),
		facade.WithProgress(func(p mcpvisor.Progress) { fmt.Printf("%v of %v\n", p.Progress, p.Total) }))
	fmt.Println(err)
	// Output:
	// 1 of 3
	// 2 of 3
	// 3 of 3
	// <nil>
}

// The server completes an argument of a prompt.
func ExampleClient_Complete() {
	ctx := context.Background()
	c := exampleClient(mcpvisor.ServerSpec{InMemory: rawServer(func(method, _ string) string {
		if method == "completion/complete" {
			return `{"completion":{"values":["Ada","Alan"]}}`
		}
		return ""
	})})
	defer func() { _ = c.Close(ctx) }()
	names, err := c.Complete(ctx, "demo", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	fmt.Println(names.Values, err)
	// Output: [Ada Alan] <nil>
}
