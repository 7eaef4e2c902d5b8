package gateway_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A profile offers a part of the servers to some clients, and may change while they are connected.
func ExampleProfile() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read", Text: "read"}, {Name: "write", Text: "written"}}}
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "files", InMemory: mcptest.InMemory(script)}); err != nil {
		panic(err)
	}

	var settings gateway.SettingsVar
	profiles := map[string]gateway.Profile{"review": {Tools: gateway.Filter{Deny: []string{"files/write"}}}}
	if err := settings.Set(gateway.Settings{Profiles: profiles}); err != nil {
		panic(err)
	}

	// Over HTTP the token, or the path /mcp/review, says which profile a client has.
	handler := gateway.Handler(client, gateway.WithSettings(&settings), gateway.WithTokens(
		gateway.Token{Principal: "ci", Profile: "review", SHA256: gateway.HashToken(gateway.NewToken())}))
	defer handler.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/mcp/{"+gateway.ProfilePath+"}", handler)

	// A transport has one profile.
	transport := gateway.Transport(client, gateway.WithSettings(&settings), gateway.WithProfile("review"))
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = session.Close() }()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			panic(err)
		}
		fmt.Println(tool.Name)
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__files__write"})
	fmt.Println(err)
	// Output:
	// mcp__files__read
	// calling "tools/call": unknown tool "mcp__files__write"; did you mean mcp__files__read?
}
