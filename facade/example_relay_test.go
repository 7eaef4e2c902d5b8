package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// askForName has the server ask for the user's name.
var askForName = json.RawMessage(`{"method":"elicitation/create","params":{"message":"Who are you?",
	"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`)

// The trace of a request continues at the server.
func ExampleWithMeta() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	_, err := c.CallToolRaw(ctx, "demo/echo", json.RawMessage(`{"text":"hello"}`),
		facade.WithMeta(json.RawMessage(`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`)))
	fmt.Println(err)
	_, err = c.CallToolRaw(ctx, "demo/echo", nil, facade.WithMeta(json.RawMessage(`[]`)))
	fmt.Println(err)
	// Output:
	// <nil>
	// call demo/echo: invalid; nothing was sent: the _meta of WithMeta is not a JSON object
}

// One client serves many users, and each is asked for its own calls.
func ExampleWithCallHandlers() {
	ctx := context.Background()
	c := newExampleClient(facade.WithDeclared(facade.Declared{Elicitation: true})) // servers before 2026-07-28 are told once
	defer func() { _ = c.Close(ctx) }()
	for _, user := range []string{"Ada", "Grace"} {
		handlers := &facade.CallHandlers{Elicitation: func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			fmt.Printf("%s is asked: %s\n", user, r.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": user}}, nil
		}}
		result, err := c.CallTool(ctx, "demo/consult", askForName, facade.WithCallHandlers(handlers))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// Ada is asked: Who are you?
	// {"action":"accept","content":{"name":"Ada"}}
	// Grace is asked: Who are you?
	// {"action":"accept","content":{"name":"Grace"}}
}

// A gateway passes on what a server requires, and the answer of its own client.
func ExampleWithRelay() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	next := facade.Continuation{}
	for {
		result, err := c.CallToolRaw(ctx, "demo/consult", askForName, facade.WithRelay(next))
		if err != nil {
			fmt.Println(err)
			return
		}
		required, more := facade.ReadInputRequired(result)
		if !more {
			fmt.Println("done:", strings.Contains(string(result), "Ada"))
			return
		}
		fmt.Println("required:", strings.Contains(string(required.InputRequests), "Who are you?"))
		next = facade.Continuation{RequestState: required.RequestState,
			InputResponses: json.RawMessage(`{"consult":{"action":"accept","content":{"name":"Ada"}}}`)}
	}
	// Output:
	// required: true
	// done: true
}

func ExampleWithLogMessages() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	_, err := c.CallToolRaw(ctx, "demo/log", json.RawMessage(`{"level":"warning","text":"disk is almost full"}`),
		facade.WithLogMessages("info", func(m mcpvisor.LogMessage) { fmt.Println(m.Level, m.Text) }))
	fmt.Println(err)
	// Output:
	// warning disk is almost full
	// <nil>
}

// A host that passes lists on has what it does not know itself, too.
func ExampleClient_Catalogs_raw() {
	ctx := context.Background()
	c := newExampleClient()
	defer func() { _ = c.Close(ctx) }()
	for catalog := range c.Catalogs() {
		fmt.Println(catalog.Server, catalog.Version > 0, strings.HasPrefix(string(catalog.Tools[0].Raw), `{"name":"add",`))
	}
	// Output: demo true true
}
