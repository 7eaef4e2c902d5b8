package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// newExampleClient makes a client with one server.
func newExampleClient(name string, script mcptest.Script) *facade.Client {
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	if err := c.Register(context.Background(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(script)}); err != nil {
		panic(err)
	}
	return c
}

// A gateway passes on what a server requires, and the answer of its own client.
func ExampleWithRelay() {
	ctx := context.Background()
	c := newExampleClient("demo", mcptest.Script{})
	defer func() { _ = c.Close(ctx) }()
	ask := json.RawMessage(`{"method":"elicitation/create","params":{"message":"Who are you?",
	"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`)
	next := relay.Continuation{}
	for {
		result, err := c.CallToolRaw(ctx, "demo/consult", ask, relay.WithRelay(next))
		if err != nil {
			fmt.Println(err)
			return
		}
		required, more := relay.ReadInputRequired(result)
		if !more {
			fmt.Println("done:", strings.Contains(string(result), "Ada"))
			return
		}
		fmt.Println("required:", strings.Contains(string(required.InputRequests), "Who are you?"))
		next = relay.Continuation{RequestState: required.RequestState,
			InputResponses: json.RawMessage(`{"consult":{"action":"accept","content":{"name":"Ada"}}}`)}
	}
	// Output:
	// required: true
	// done: true
}

// A host that calls for its own clients hands the task over, and asks for it when it is asked.
func ExampleWithTaskRelay() {
	ctx := context.Background()
	client := newExampleClient("ci", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "build", As: "echo", Task: &mcptest.TaskDef{}}}})
	defer func() { _ = client.Close(ctx) }()
	var made relay.TaskRelay
	if _, err := client.CallToolRaw(ctx, "ci/build", []byte(`{"text":"main"}`), relay.WithTaskRelay(&made)); err != nil {
		panic(err)
	}
	task, err := relay.Of(client).TaskOf(made.Server, made.ID, relay.WithTaskOrigin(made.Origin)) // in another process, too
	if err != nil {
		panic(err)
	}
	answer, err := relay.Ask(ctx, task)
	if err != nil {
		panic(err)
	}
	fmt.Println(made.Server, answer.State)
	// Output: ci completed
}

// A host that passes lists on has what it does not know itself, too.
func ExampleMethods_catalogs() {
	ctx := context.Background()
	c := newExampleClient("demo", mcptest.Script{})
	defer func() { _ = c.Close(ctx) }()
	for catalog := range relay.Of(c).Catalogs() {
		fmt.Println(catalog.Server, catalog.Version > 0, strings.HasPrefix(string(catalog.Tools[0].Raw), `{"name":"add",`))
	}
	// Output: demo true true
}

// A viewer that was disconnected continues after the last event that it has seen.
func ExampleMethods_watchFrom() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := newExampleClient("demo", mcptest.Script{})
	defer func() { _ = c.Close(context.Background()) }()
	const lastSeen = 2
	fmt.Println(<-relay.Of(c).WatchFrom(ctx, lastSeen))
	// Output: demo ready: 21 tools, 3 resources, 2 prompts, protocol 2026-07-28, epoch 1
}
