package facade_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// userKey is the key of the user in the context of a call.
type userKey struct{}

// Each call carries the token of the user that it is made for.
func ExampleClient_CallTool_tokenOfTheUser() {
	ctx := context.Background()
	server := mcptest.NewHTTP(mcptest.Script{})
	defer server.Close()
	client := exampleClient(mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: server.URL,
		HeaderFunc: func(ctx context.Context) (map[string]string, error) {
			if user, ok := ctx.Value(userKey{}).(string); ok {
				return map[string]string{"Authorization": "Bearer token-of-" + user}, nil
			}
			return nil, nil // a request of the runtime itself
		}}})
	defer func() { _ = client.Close(ctx) }()
	forAnn := context.WithValue(ctx, userKey{}, "ann")
	result, err := client.CallTool(forAnn, "s/echo", map[string]any{"text": "hello"})
	fmt.Println(err == nil && !result.IsError)
	// Output: true
}

// A service begins to serve when all its servers are ready, and asks one whether it answers.
func ExampleClient_WaitReady() {
	ctx := context.Background()
	client, err := facade.New(facade.WithDefaultWaitReady())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	for _, name := range []string{"a", "b"} {
		spec := mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}), StartSupervised: true}
		if err := client.Register(ctx, spec); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("all ready:", client.WaitReady(ctx) == nil)
	fmt.Println("a answers:", client.Ping(ctx, "a") == nil)
	// Output:
	// all ready: true
	// a answers: true
}

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
