package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// A server that keeps something for its client runs once for each client, and ends with it.
func ExampleShare() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{})}); err != nil {
		panic(err)
	}

	var settings gateway.SettingsVar
	if err := settings.Set(gateway.Settings{ShareOf: map[string]gateway.Share{"browser": gateway.ShareClient}}); err != nil {
		panic(err)
	}
	transport := gateway.Transport(client, gateway.WithSettings(&settings))
	for _, host := range []string{"ann", "bob"} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: host, Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			panic(err)
		}
		defer func() { _ = session.Close() }()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "browser/pid"})
		if err != nil {
			panic(err)
		}
		var incarnation struct{ Start int }
		if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &incarnation); err != nil {
			panic(err)
		}
		fmt.Println(host, "has incarnation", incarnation.Start)
	}
	// Output:
	// ann has incarnation 2
	// bob has incarnation 3
}

// A handler behind an authentication that the program has already: the middleware knows the user, and the handler asks it.
func ExampleWithOwnAuthentication() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()

	type userKey struct{}
	authenticate := func(inner http.Handler) http.Handler { // stands for that of the program
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user == "ann" && password == "secret" {
				r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
			}
			inner.ServeHTTP(w, r)
		})
	}
	handler := gateway.Handler(client, gateway.WithOwnAuthentication(func(r *http.Request) (gateway.Identity, error) {
		user, ok := r.Context().Value(userKey{}).(string)
		if !ok {
			return gateway.Identity{}, errors.New("log in first")
		}
		return gateway.Identity{Principal: user}, nil
	}))
	defer handler.Close()
	server := authenticate(handler)

	for _, user := range []string{"ann", "eve"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "https://tools.example.com/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.SetBasicAuth(user, "secret")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// eve 401
}
