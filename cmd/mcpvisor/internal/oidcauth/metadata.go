package oidcauth

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// MetadataPath is where clients find who issues tokens for a resource (RFC 9728). The path of the
// resource follows it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Resource is an MCP server as its clients know it.
type Resource struct {
	// URL is its address, as in https://mcp.example.com/mcp.
	URL *url.URL
	// Issuer issues the tokens, and Scopes are those that a token needs.
	Issuer string
	Scopes []string
}

// MetadataURL is the address of its metadata, which an answer without a valid token names.
func (r Resource) MetadataURL() string {
	u := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: MetadataPath + strings.TrimSuffix(r.URL.Path, "/")}
	return u.String()
}

// ServeHTTP implements http.Handler: it serves [MetadataPath] and what is below it. What is below the
// resource has metadata of its own.
func (r Resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	below, own := strings.TrimPrefix(request.URL.Path, MetadataPath), strings.TrimSuffix(r.URL.Path, "/")
	name, inside := strings.CutPrefix(below, own)
	if below != "" && below != "/" && (!inside || name != "" && name[0] != '/') {
		http.NotFound(w, request)
		return
	}
	resource := *r.URL
	if inside && name != "/" {
		resource.Path = own + name
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{Resource: resource.String(), AuthorizationServers: []string{r.Issuer},
		ScopesSupported: r.Scopes, BearerMethodsSupported: []string{"header"}, ResourceName: "mcpvisor"}).ServeHTTP(w, request)
}
