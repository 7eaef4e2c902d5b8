package facade_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
)

// A server may ask the user for input while it works on a call. The handler shows which
// server asks, and the call continues with the answer, in every protocol version.
func ExampleWithElicitationHandler() {
	ctx := context.Background()
	c := newExampleClient(facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		fmt.Printf("%s asks: %s\n", r.Server, r.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
	}))
	defer func() { _ = c.Close(ctx) }()
	res, err := c.CallTool(ctx, "demo/consult", map[string]any{"method": "elicitation/create", "params": map[string]any{
		"message":         "Who are you?",
		"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// demo asks: Who are you?
	// {"action":"accept","content":{"name":"Ada"}}
}

func ExampleWithSamplingHandler() {
	ctx := context.Background()
	c := newExampleClient(facade.WithSamplingHandler(func(_ context.Context, r facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
		prompt := r.Messages[0].Content[0].(*mcp.TextContent).Text
		return &mcp.CreateMessageWithToolsResult{Model: "parrot", Content: []mcp.Content{&mcp.TextContent{Text: prompt + ", " + prompt}}}, nil
	}))
	defer func() { _ = c.Close(ctx) }()
	res, err := c.CallTool(ctx, "demo/consult", map[string]any{"method": "sampling/createMessage", "params": map[string]any{
		"maxTokens": 10,
		"messages":  []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "hello"}}},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// {"content":{"type":"text","text":"hello, hello"},"model":"parrot","role":"assistant"}
}

func ExampleClient_SetRoots() {
	ctx := context.Background()
	c, err := facade.New(facade.WithRoots(mcp.Root{URI: "file:///home/ada/notes", Name: "notes"}))
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	fmt.Println(c.SetRoots(mcp.Root{URI: "file:///home/ada/letters", Name: "letters"}))
	fmt.Println(c.SetRoots(mcp.Root{URI: "letters"}))
	// Output:
	// <nil>
	// set roots: invalid: root "letters" must be a file:// URI; write it as file:///path
}

// A server may ask the user to visit a URL, for example to log in at another service. The
// handler only asks for consent.
func ExampleWithURLElicitationHandler() {
	ctx := context.Background()
	done := make(chan struct{})
	client := newExampleClient(facade.WithURLElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		fmt.Printf("%s asks to visit %s: %s\n", r.Server, r.URL, r.Message)
		close(done)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}))
	defer func() { _ = client.Close(ctx) }()
	_, err := client.CallTool(ctx, "demo/consult", map[string]any{"method": "elicitation/create", "params": map[string]any{
		"mode": "url", "message": "log in", "url": "https://example.org/login", "elicitationId": "e1"}})
	<-done
	fmt.Println(err)
	// Output:
	// demo asks to visit https://example.org/login: log in
	// <nil>
}
