// Package metadata finds the authorization server of an MCP server and says how
// to get tokens from it.
//
// The search follows the authorization chapter of MCP (2025-11-25, "Authorization
// Server Location"):
//
//  1. A refused request carries a challenge, the header WWW-Authenticate, which
//     may name the address of the metadata document ([ParseChallenge]; RFC 6750,
//     section 3, and RFC 9728, section 5.1).
//  2. The protected resource metadata of the MCP server names its authorization
//     servers (RFC 9728).
//  3. The authorization server metadata names the endpoints (RFC 8414, or OpenID
//     Connect Discovery 1.0).
//
// A server of 2025-03-26 publishes no protected resource metadata. Its own origin
// is then the authorization server ([Discover]).
package metadata

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// Discovery holds what the metadata of an MCP server and of its authorization server
// say. It is never changed after [Discover] returned it.
type Discovery struct {
	// Resource is the identifier of the MCP server, exactly as it published it. It
	// is the resource parameter of RFC 8707.
	Resource string
	// ResourceScopes are scopes_supported of the protected resource metadata.
	ResourceScopes []string
	// Server is the metadata of the authorization server.
	Server *oauthex.AuthServerMeta
	// DeviceEndpoint is device_authorization_endpoint (RFC 8628, section 4); empty: none.
	DeviceEndpoint string
	// DPoP: the authorization server accepts DPoP proofs with ES256 (RFC 9449, section 5.1).
	DPoP bool
	// resourceDPoP: the metadata of the MCP server names DPoP.
	resourceDPoP bool
	// Guessed: the server publishes no metadata, and Server holds the default
	// endpoints of MCP 2025-03-26.
	Guessed bool
}

// Discover finds the authorization server of the MCP server that c belongs to.
// metadataURL is that of the server's challenge, or empty. Of several authorization
// servers it chooses preferredIssuer, or the first. The error is a
// [safehttp.Temporary] if a later attempt may succeed.
func Discover(ctx context.Context, c *safehttp.Client, metadataURL, preferredIssuer string) (*Discovery, error) {
	d := &Discovery{Resource: safehttp.Redacted(c.Server())}
	resource, err := protectedResource(ctx, c, metadataURL)
	if err != nil && !errors.Is(err, safehttp.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		// MCP 2025-03-26, sections 2.3.2 and 2.3.3: the authorization base URL is the
		// origin of the MCP server. A server without metadata has default endpoints.
		issuer := safehttp.Origin(c.Server())
		if err = d.readServer(ctx, c, issuer, sameOrigin); !errors.Is(err, safehttp.ErrNotFound) {
			return d, err
		}
		d.Server = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize",
			TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register"}
		d.Guessed = true
		return d, nil
	}
	d.Resource, d.ResourceScopes = resource.Resource, UnionScopes(resource.ScopesSupported)
	// RFC 9728, section 7.6: the client chooses among the authorization servers.
	issuer := resource.AuthorizationServers[0]
	if i := slices.IndexFunc(resource.AuthorizationServers, func(s string) bool { return SameIssuer(s, preferredIssuer) }); i >= 0 {
		issuer = resource.AuthorizationServers[i]
	}
	d.resourceDPoP = resource.DPOPBoundAccessTokensRequired || slices.Contains(resource.DPOPSigningAlgValuesSupported, dpopAlg)
	err = d.readServer(ctx, c, issuer, SameIssuer)
	if errors.Is(err, safehttp.ErrNotFound) {
		err = fmt.Errorf("the authorization server %s publishes no metadata", issuer)
	}
	return d, err
}

// protectedResource reads the protected resource metadata (RFC 9728, section 3): at the
// address that the challenge named, else at the well-known addresses (MCP, "Protected
// Resource Metadata Discovery Requirements"). The error is [safehttp.ErrNotFound] if there is no such document.
func protectedResource(ctx context.Context, c *safehttp.Client, challenged string) (*oauthex.ProtectedResourceMetadata, error) {
	server := c.Server()
	base := safehttp.Origin(server) + "/.well-known/oauth-protected-resource"
	var addresses []string
	if challenged != "" {
		// RFC 9728 asks for an absolute URL; some servers send a path.
		if u, err := server.Parse(challenged); err == nil {
			challenged = u.String()
		}
		if err := c.CheckURL(ctx, "address of the server's metadata", challenged); err != nil {
			return nil, err
		}
		addresses = append(addresses, challenged)
	}
	// RFC 9728, section 3.1: the well-known suffix is inserted before the path. MCP adds the
	// address without a path.
	if path := strings.TrimSuffix(server.EscapedPath(), "/"); path != "" {
		addresses = append(addresses, base+path)
	}
	for _, address := range append(addresses, base) {
		var m oauthex.ProtectedResourceMetadata
		err := c.GetJSON(ctx, address, &m)
		switch {
		case errors.Is(err, safehttp.ErrNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the server's authorization metadata: %w", err)
		// RFC 9728, section 3.3: otherwise another server could name its own authorization
		// server for this one.
		case !IsResourceOf(m.Resource, server):
			return nil, fmt.Errorf("the metadata at %s is for %q, which is not this server; the authorization server that it names is not used", address, display.Shorten(m.Resource, display.MaxQuoteBytes))
		case len(m.AuthorizationServers) == 0:
			return nil, fmt.Errorf("the metadata at %s names no authorization server", address)
		}
		return &m, nil
	}
	return nil, safehttp.ErrNotFound
}

// IsResourceOf reports whether a resource identifier stands for the server: its
// URL (RFC 9728, section 3.3), or a path above it at the same origin, which many
// servers publish. A token for any other resource must not be sent to the server.
func IsResourceOf(identifier string, server *url.URL) bool {
	u, err := url.Parse(identifier)
	if err != nil || u.Fragment != "" || !strings.EqualFold(u.Scheme, server.Scheme) || safehttp.HostPort(u) != safehttp.HostPort(server) {
		return false
	}
	if u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	path, below := strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	return below == path || strings.HasPrefix(below, path+"/")
}

// dpopAlg is the algorithm of this client's DPoP proofs.
const dpopAlg = "ES256"

// WantsDPoP reports whether tokens should be bound to a key (RFC 9449): the authorization
// server can do it, and the MCP server asks for it, in its challenge c or in its metadata.
// Many authorization servers announce DPoP for all their resources, and a server that knows
// only bearer tokens refuses others.
func (d *Discovery) WantsDPoP(c Challenge) bool { return d.DPoP && (c.DPoP || d.resourceDPoP) }

// readServer reads the metadata of an authorization server from its
// well-known addresses. same compares the issuer in the document with the one that
// was asked for (RFC 8414, section 3.3). The error is [safehttp.ErrNotFound] if
// there is no such document.
func (d *Discovery) readServer(ctx context.Context, c *safehttp.Client, issuer string, same func(published, expected string) bool) error {
	if err := c.CheckURL(ctx, "authorization server's address", issuer); err != nil {
		return err
	}
	for _, address := range wellKnownURLs(issuer) {
		var m struct {
			oauthex.AuthServerMeta
			DPoPAlgs       []string `json:"dpop_signing_alg_values_supported"`
			DeviceEndpoint string   `json:"device_authorization_endpoint"`
		}
		err := c.GetJSON(ctx, address, &m)
		switch {
		case errors.Is(err, safehttp.ErrNotFound):
			continue
		case err != nil:
			return fmt.Errorf("reading the metadata of the authorization server: %w", err)
		case !same(m.Issuer, issuer):
			return fmt.Errorf("the metadata of the authorization server %s says that its issuer is %q; it is not used", issuer, display.Shorten(m.Issuer, display.MaxQuoteBytes))
		}
		d.Server, d.DPoP, d.DeviceEndpoint = &m.AuthServerMeta, slices.Contains(m.DPoPAlgs, dpopAlg), m.DeviceEndpoint
		return d.checkEndpoints(ctx, c)
	}
	return safehttp.ErrNotFound
}

// wellKnownURLs returns where the metadata of an issuer may be, in the order that MCP
// requires ("Authorization Server Metadata Discovery"): RFC 8414, section 3.1, and OpenID Connect with the path inserted, then OpenID
// Connect with the path appended.
func wellKnownURLs(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	base, path := safehttp.Origin(u), strings.TrimSuffix(u.EscapedPath(), "/")
	addresses := []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		addresses = append(addresses, base+path+"/.well-known/openid-configuration")
	}
	return addresses
}

// checkEndpoints checks the addresses of the endpoints that a server names. A
// missing endpoint is an error of the step that needs it.
func (d *Discovery) checkEndpoints(ctx context.Context, c *safehttp.Client) error {
	m := d.Server
	for name, address := range map[string]string{"token endpoint": m.TokenEndpoint, "device authorization endpoint": d.DeviceEndpoint,
		"authorization endpoint": m.AuthorizationEndpoint, "registration endpoint": m.RegistrationEndpoint} {
		if address == "" {
			continue
		}
		if err := c.CheckURL(ctx, name+" of "+m.Issuer, address); err != nil {
			return err
		}
	}
	return nil
}

// SameIssuer compares two issuers and ignores a slash at the end, which servers add
// where one document names another. The iss parameter of a redirect is compared
// exactly (RFC 9207, section 2.4).
func SameIssuer(a, b string) bool {
	return a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// sameOrigin compares the origins of two issuers. It is the check for servers of
// 2025-03-26: they name no issuer, so the expected one is guessed from the origin.
func sameOrigin(published, expected string) bool {
	a, errA := url.Parse(published)
	b, errB := url.Parse(expected)
	return errA == nil && errB == nil && a.User == nil && strings.EqualFold(a.Scheme, b.Scheme) && safehttp.HostPort(a) == safehttp.HostPort(b)
}

// Challenge holds the header WWW-Authenticate of a server when it refuses a request
// (RFC 6750, section 3; RFC 9728, section 5.1).
type Challenge struct {
	// Received is false as long as the server has refused no request.
	Received bool
	// MetadataURL is resource_metadata: where the protected resource metadata is.
	MetadataURL string
	// Scopes are those that the request needs.
	Scopes []string
	// DPoP: the server accepts DPoP proofs with ES256 (RFC 9449, section 7.1).
	DPoP bool
	// Code and Description are error and error_description.
	Code        string
	Description string
}

// CodeInsufficientScope is the error code of a valid token that lacks scopes (RFC
// 6750, section 3.1). It starts the step-up authorization of MCP.
const CodeInsufficientScope = "insufficient_scope"

const (
	// maxChallengeBytes and maxChallengeParts bound what is read of the
	// WWW-Authenticate headers of one response. Parts are separated by commas. The
	// time to parse them grows with the product of both.
	maxChallengeBytes = 16 << 10
	maxChallengeParts = 128
)

// ParseChallenge reads the headers WWW-Authenticate. A header that cannot be
// parsed, or that exceeds the bounds together with those before it, is skipped.
func ParseChallenge(h http.Header) Challenge {
	c := Challenge{Received: true}
	bytes, parts := maxChallengeBytes, maxChallengeParts
	for _, value := range h.Values("WWW-Authenticate") {
		n := 1 + strings.Count(value, ",")
		if len(value) > bytes || n > parts {
			continue
		}
		bytes, parts = bytes-len(value), parts-n
		list, err := oauthex.ParseWWWAuthenticate([]string{value})
		if err != nil {
			continue
		}
		for _, one := range list {
			// RFC 9449, section 7.1: servers with DPoP send the same parameters there.
			if one.Scheme != "bearer" && one.Scheme != "dpop" {
				continue
			}
			// RFC 9449, section 7.1: without algs, any algorithm will do.
			if algs := one.Params["algs"]; one.Scheme == "dpop" && (algs == "" || slices.Contains(strings.Fields(algs), dpopAlg)) {
				c.DPoP = true
			}
			// Of several challenges the first one that has a parameter counts.
			first := func(into *string, name string) {
				if *into == "" {
					*into = one.Params[name]
				}
			}
			first(&c.MetadataURL, "resource_metadata")
			first(&c.Code, "error")
			first(&c.Description, "error_description")
			if one.Params["scope"] != "" && c.Scopes == nil {
				c.Scopes = ParseScopes(one.Params["scope"])
			}
		}
	}
	return c
}

// Err returns the reason that the server gave for its refusal; nil if it gave none.
func (c Challenge) Err() error {
	switch {
	case c.Description != "":
		return errors.New(c.Description)
	case c.Code != "":
		return errors.New(c.Code)
	}
	return nil
}

const (
	// maxScopes and maxScopeBytes bound one list of scopes. A longer list does not
	// fit into an authorization URL.
	maxScopes     = 1000
	maxScopeBytes = 32 << 10
)

// ParseScopes splits a scope parameter at its spaces (RFC 6749, section 3.3). The
// list is bounded.
func ParseScopes(text string) []string { return UnionScopes(strings.Fields(text)) }

// UnionScopes returns the scopes of all lists in their order, each scope once. The
// list is bounded.
func UnionScopes(lists ...[]string) (all []string) {
	seen := make(map[string]bool)
	left := maxScopeBytes
	for _, list := range lists {
		for _, scope := range list {
			if seen[scope] {
				continue
			}
			if left -= len(scope) + 1; left < 0 || len(all) == maxScopes {
				return all
			}
			seen[scope] = true
			all = append(all, scope)
		}
	}
	return all
}

// CoverScopes reports whether granted holds every needed scope.
func CoverScopes(granted, needed []string) bool {
	if len(needed) == 0 {
		return true
	}
	have := make(map[string]bool, len(granted))
	for _, scope := range granted {
		have[scope] = true
	}
	for _, scope := range needed {
		if !have[scope] {
			return false
		}
	}
	return true
}
