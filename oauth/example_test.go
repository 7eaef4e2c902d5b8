package oauth_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// A workload gets tokens without a user: its platform keeps a signed assertion in a
// file, and the authorization server trusts the platform.
func ExampleConfig_assertion() {
	web := mcptest.NewHTTP(mcptest.Script{})
	defer web.Close()
	guard := oauthtest.NewServer(web.URL)
	defer guard.Close()
	guard.Set(oauthtest.Rules{Assertion: "signed-by-the-platform"})

	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{
		Grant: oauth.GrantJWTBearer,
		FetchAssertion: func(_ context.Context, wanted oauth.AssertionRequest) (string, error) {
			fmt.Println("for the authorization server:", wanted.Issuer == guard.Issuer)
			return "signed-by-the-platform", nil // or os.ReadFile of a projected token
		},
	}}})
	if err != nil {
		panic(err)
	}
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
	fmt.Println("call:", err)
	// Output:
	// for the authorization server: true
	// call: <nil>
}

// In an enterprise one login is enough: its identity provider decides which servers the
// user may use.
func ExampleEnterprise() {
	auth := &oauth.Config{
		Grant:    oauth.GrantJWTBearer,
		ClientID: "this-host", // at the servers' authorization server
		Enterprise: &oauth.Enterprise{
			TokenEndpoint: "https://idp.example.com/token",
			ClientID:      "this-host-at-the-idp",
			FetchIDToken:  func(context.Context) (string, error) { return "the ID token of the login", nil },
		},
	}
	spec := mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: auth}}
	fmt.Println(spec.Name, spec.TransportKind())
	// Output: web http
}

// Tokens are stored in files by default. Another directory, the keyring of the operating
// system, or memory are chosen with Config.Store.
func ExampleNewFileStore() {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := oauth.NewFileStore(filepath.Join(dir, "tokens"))
	if err != nil {
		panic(err)
	}
	spec := mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: &oauth.Config{Store: store}}}
	fmt.Println(spec.Validate())
	// Output: <nil>
}
