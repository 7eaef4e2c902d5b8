package facade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A server that requires OAuth waits in the state unauthorized until the user has
// authorized the client. Calls fail at once meanwhile.
func ExampleClient_Authorize() {
	web := mcptest.NewHTTP(mcptest.Script{})
	defer web.Close()
	guard := oauthtest.NewServer(web.URL) // an authorization server in front of it
	defer guard.Close()

	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "web", StartSupervised: true, HTTP: &mcpvisor.HTTP{
		URL:  guard.URL,
		Auth: &mcpvisor.OAuth{Store: facade.NewMemoryTokenStore()}, // the default is files
	}})
	if err != nil {
		panic(err)
	}
	err = c.WaitReady(ctx, "web")
	var required *mcpvisor.AuthRequired
	fmt.Println("authorization required:", errors.As(err, &required), required.Resource == guard.URL)

	err = c.Authorize(ctx, "web", func(url string) error {
		go func() { _, _ = consent(url, true) }() // the user opens it in a browser
		return nil
	})
	if err != nil {
		panic(err)
	}
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"}, facade.WithWaitReady())
	fmt.Println("call:", err)
	// Output:
	// authorization required: true true
	// call: <nil>
}

// Tokens are stored in files by default. Another directory, the keyring of the operating
// system, or memory are chosen with OAuth.Store.
func ExampleNewFileTokenStore() {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := facade.NewFileTokenStore(filepath.Join(dir, "tokens"))
	if err != nil {
		panic(err)
	}
	spec := mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: &mcpvisor.OAuth{Store: store}}}
	fmt.Println(spec.Validate())
	// Output: <nil>
}
