package daemon

import (
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/oidcauth"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/gateway"
)

// hasOIDC reports whether tokens of an issuer are asked for.
func (cmd *Serving) hasOIDC() bool {
	return cmd.MCPOIDCIssuer != "" || cmd.MCPOIDCAudience != "" || len(cmd.MCPOIDCScopes) > 0 || cmd.MCPOIDCProfile != ""
}

// useOIDC makes the MCP server accept the tokens of an issuer, and say where clients get one. An
// issuer that cannot be reached is asked again when a token comes.
func (cmd *Serving) useOIDC(inv *servers.Opener, e *endpoint, p *page) error {
	switch {
	case !cmd.hasOIDC() && cmd.MCPURL != "":
		return cli.UsageError("--mcp-url is for clients that get their tokens from an issuer; set --mcp-oidc-issuer")
	case !cmd.hasOIDC():
		return nil
	}
	public, err := cmd.publicURL(e, p)
	if err != nil {
		return err
	}
	if cmd.MCPTokens != "" {
		return cli.UsageError("--mcp-tokens and --mcp-oidc-issuer are two ways to know a client; keep one")
	}
	verifier, err := oidcauth.New(oidcauth.Options{Issuer: cmd.MCPOIDCIssuer, Audience: cmd.MCPOIDCAudience, ProfileClaim: cmd.MCPOIDCProfile,
		Log: func(text string) { inv.Warn("", "%s", text) }})
	if err != nil {
		return cli.UsageError("--mcp-oidc-issuer, --mcp-oidc-audience: %v", err)
	}
	_ = verifier.Prepare(inv.Context) // it was warned of
	resource := oidcauth.Resource{URL: public, Issuer: cmd.MCPOIDCIssuer, Scopes: cmd.MCPOIDCScopes}
	e.metadata = resource
	e.options = append(e.options, gateway.WithHosts(public.Hostname()),
		gateway.WithTokenVerifier(verifier.Verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: resource.MetadataURL(), Scopes: cmd.MCPOIDCScopes}))
	return nil
}

// publicURL is the address at which clients reach the MCP server.
func (cmd *Serving) publicURL(e *endpoint, p *page) (*url.URL, error) {
	text := cmd.MCPURL
	if audience, err := url.Parse(cmd.MCPOIDCAudience); text == "" && err == nil && isAddress(audience) {
		text = cmd.MCPOIDCAudience
	}
	if text == "" {
		text = e.url(p)
	}
	public, err := url.Parse(text)
	if err != nil || !isAddress(public) {
		return nil, cli.UsageError("--mcp-url %q is not the address of the MCP server; write for instance https://mcp.example.com/mcp", text)
	}
	return public, nil
}

func isAddress(u *url.URL) bool {
	return (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
