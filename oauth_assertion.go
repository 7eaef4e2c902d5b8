package mcpvisor

import (
	"context"
	"fmt"
)

// GrantAssertion: the client shows an assertion about it that somebody signed
// whom the authorization server trusts (RFC 7523, section 2.1): its workload's
// platform (OAuth.Assertion), or an enterprise's identity provider
// (OAuth.Enterprise).
const GrantAssertion Grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// AssertionRequest says what an assertion is wanted for.
type AssertionRequest struct {
	// Issuer is the authorization server, and the assertion's audience.
	Issuer string
	// Resource is the MCP server's identifier.
	Resource string
	// ClientID is OAuth.ClientID.
	ClientID string
	// Scopes are those that the token is asked for.
	Scopes []string
}

// Assertion returns a signed JWT. It is called for every token, so that it may
// read a file that is renewed. An error is taken to pass by itself, and is asked
// about again later, unless it is an [AuthRequired].
type Assertion func(ctx context.Context, wanted AssertionRequest) (string, error)

// Enterprise is an organization's identity provider that decides which MCP
// servers its people may use (enterprise-managed authorization, SEP-990). What a
// person's login there yielded is exchanged for an assertion (RFC 8693), and that
// for a token: nobody consents to each server.
type Enterprise struct {
	// TokenEndpoint is the provider's.
	TokenEndpoint string
	// ClientID is how the provider knows this client; ClientSecret goes with it,
	// if there is one.
	ClientID     string
	ClientSecret string
	// IDToken returns the ID token of the person's login. Errors are as for
	// [Assertion].
	IDToken func(ctx context.Context) (string, error)
}

// Unattended reports whether tokens are had without a person. They are not kept:
// there is always another one.
func (o *OAuth) Unattended() bool { return o.Grant == GrantClient || o.Grant == GrantAssertion }

func (o *OAuth) validateAssertion() error {
	switch e := o.Enterprise; {
	case o.Grant != GrantAssertion:
		if o.Assertion != nil || e != nil {
			return fmt.Errorf("Assertion and Enterprise are for grant %q; set that, or remove them", GrantAssertion)
		}
	case (o.Assertion != nil) == (e != nil):
		return fmt.Errorf("grant %q needs either Assertion or Enterprise", o.Grant)
	case e != nil && (e.TokenEndpoint == "" || e.ClientID == "" || e.IDToken == nil || o.ClientID == ""):
		return fmt.Errorf("Enterprise needs TokenEndpoint, ClientID and IDToken, and OAuth its own ClientID")
	}
	return nil
}
