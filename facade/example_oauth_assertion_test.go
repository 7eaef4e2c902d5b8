package facade_test

import (
	"context"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A workload gets tokens without a user: its platform keeps a signed assertion in a
// file, and the authorization server trusts the platform.
func ExampleClient_Register_assertion() {
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
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &mcpvisor.OAuth{
		Grant: mcpvisor.GrantJWTBearer,
		FetchAssertion: func(_ context.Context, wanted mcpvisor.AssertionRequest) (string, error) {
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
