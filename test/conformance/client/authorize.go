package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/mcpvisor/mcpvisor/oauth"
)

// callTestTool calls the tool of the suite's protected servers.
var callTestTool = calls(call{"test-tool", map[string]any{}})

// authorization returns HTTP.Auth for a scenario about authorization. The suite's
// authorization servers consent to everything, so no user is needed.
func authorization(scenario string) (*oauth.Config, error) {
	o := &oauth.Config{
		ClientMetadataURL:      "https://conformance-test.local/client-metadata.json",
		RedirectURL:            "http://localhost:3000/callback",
		Store:                  oauth.NewMemoryStore(),
		FetchAuthorizationCode: fetchCode,
	}
	var supplied struct {
		ClientID   string `json:"client_id"`
		Secret     string `json:"client_secret"`
		PrivateKey string `json:"private_key_pem"`
		Issuer     string `json:"issuer"`
		// These belong to an identity provider, and to the platform of a workload.
		ProviderID       string `json:"idp_client_id"`
		ProviderEndpoint string `json:"idp_token_endpoint"`
		Login            string `json:"idp_id_token"`
		Assertion        string `json:"valid_jwt"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &supplied); err != nil {
			return nil, fmt.Errorf("MCP_CONFORMANCE_CONTEXT is not valid: %w", err)
		}
	}
	o.ClientID, o.ClientSecret, o.PrivateKey, o.Issuer = supplied.ClientID, supplied.Secret, supplied.PrivateKey, supplied.Issuer
	if strings.HasPrefix(scenario, "auth/client-credentials-") {
		o.Grant = oauth.GrantClientCredentials
	}
	if supplied.Login != "" {
		o.Grant = oauth.GrantJWTBearer
		o.Enterprise = &oauth.Enterprise{TokenEndpoint: supplied.ProviderEndpoint, ClientID: supplied.ProviderID,
			FetchIDToken: func(context.Context) (string, error) { return supplied.Login, nil }}
	}
	if supplied.Assertion != "" {
		o.Grant = oauth.GrantJWTBearer
		o.FetchAssertion = func(context.Context, oauth.AssertionRequest) (string, error) { return supplied.Assertion, nil }
	}
	return o, nil
}

// fetchCode opens an authorization URL and returns the URL of the redirect. It does not
// follow the redirect, because no server listens there.
func fetchCode(ctx context.Context, url string) (redirect string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	if redirect = resp.Header.Get("Location"); redirect == "" {
		return "", errors.New("the authorization server did not redirect")
	}
	return redirect, nil
}
