package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
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
		Auth: &oauth.Config{Store: oauth.NewMemoryStore()}, // the default is files
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
