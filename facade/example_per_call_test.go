package facade_test

import (
	"context"
	"fmt"

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
