package mcpvisor

import (
	"context"
	"fmt"
)

// AssertionFunc returns a signed JWT for [GrantJWTBearer]. It is called once for every
// token, so it may read a file that the platform renews. It may be called from several
// goroutines. An error counts as temporary, and the function is called again later,
// unless the error is an [AuthRequired].
type AssertionFunc func(ctx context.Context, wanted AssertionRequest) (string, error)

// AssertionRequest says what an assertion is for.
type AssertionRequest struct {
	// Issuer is the authorization server, which must be the audience of the assertion
	// (RFC 7523, section 3).
	Issuer string
	// Resource is the resource identifier of the MCP server.
	Resource string
	// ClientID is OAuth.ClientID.
	ClientID string
	// Scopes are the scopes that the token request names.
	Scopes []string
}

// Enterprise is the identity provider of an organization that decides which MCP servers
// its users may use (MCP extension "Enterprise-Managed Authorization", SEP-990). The ID
// token of a user's login is exchanged for an assertion (RFC 8693), and that for an
// access token, so users need not consent to each server.
type Enterprise struct {
	// TokenEndpoint is the token endpoint of the identity provider. Required.
	TokenEndpoint string
	// ClientID is the client_id of this client at the identity provider. Required.
	ClientID string
	// ClientSecret is the client_secret there. Default: none, a public client.
	ClientSecret string
	// FetchIDToken returns the ID token of the user's login. Required. Errors and
	// concurrency are as for [AssertionFunc].
	FetchIDToken func(ctx context.Context) (string, error)
}

// validateAssertion checks that exactly one source of assertions is set with
// GrantJWTBearer, and none with any other grant.
func (o *OAuth) validateAssertion() error {
	switch e := o.Enterprise; {
	case o.Grant != GrantJWTBearer:
		if o.FetchAssertion != nil || e != nil {
			return fmt.Errorf("FetchAssertion and Enterprise are for grant %q; set that grant, or remove them", GrantJWTBearer)
		}
	case (o.FetchAssertion != nil) == (e != nil):
		return fmt.Errorf("grant %q needs either FetchAssertion or Enterprise", o.Grant)
	case e != nil && (e.TokenEndpoint == "" || e.ClientID == "" || e.FetchIDToken == nil || o.ClientID == ""):
		return fmt.Errorf("Enterprise needs TokenEndpoint, ClientID and FetchIDToken, and OAuth its own ClientID")
	}
	return nil
}
