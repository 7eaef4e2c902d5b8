package oauthtest_test

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A client without a token is refused. With a token it is forwarded to the MCP
// endpoint; this example has no endpoint, so that the answer is 204.
func Example() {
	server := oauthtest.NewServer("")
	defer server.Close()
	server.AddClient("service", "secret")

	refused, err := http.Post(server.URL, "application/json", nil)
	if err != nil {
		panic(err)
	}
	defer refused.Body.Close()
	fmt.Println("without a token:", refused.StatusCode)

	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"service"},
		"client_secret": {"secret"}, "resource": {server.URL}}
	answer, err := http.PostForm(server.Issuer+"/token", form)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	fmt.Println("token request:", answer.StatusCode)
	fmt.Println("client credential grants:", server.Counts().ClientGrants)
	// Output:
	// without a token: 401
	// token request: 200
	// client credential grants: 1
}
