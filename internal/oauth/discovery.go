package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// place is where tokens for a server come from.
type place struct {
	// resource is the server's identifier, exactly as it published it.
	resource string
	// suggested are the scopes that the server's metadata lists.
	suggested []string
	server    *oauthex.AuthServerMeta
	// guessed: the server publishes no metadata (2025-03-26).
	guessed bool
}

// discover finds the place. favourite is an issuer that is taken if it is among
// those named.
func (w *web) discover(ctx context.Context, metadata, favourite string) (*place, error) {
	p := &place{resource: bare(w.server)}
	resource, err := w.resource(ctx, metadata)
	if err != nil && !errors.Is(err, errAbsent) {
		return nil, err
	}
	if err != nil {
		// 2025-03-26 knows no metadata of resources: the server's own origin is the
		// authorization server, with endpoints of fixed names if need be.
		issuer := origin(w.server)
		if p.server, err = w.issuer(ctx, issuer, sameOrigin); !errors.Is(err, errAbsent) {
			return p, err
		}
		p.server = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize",
			TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register"}
		p.guessed = true
		return p, nil
	}
	p.resource, p.suggested = resource.Resource, union(resource.ScopesSupported)
	issuer := resource.AuthorizationServers[0]
	if i := slices.IndexFunc(resource.AuthorizationServers, func(s string) bool { return sameIssuer(s, favourite) }); i >= 0 {
		issuer = resource.AuthorizationServers[i]
	}
	p.server, err = w.issuer(ctx, issuer, sameIssuer)
	if errors.Is(err, errAbsent) {
		err = fmt.Errorf("the authorization server %s publishes no metadata", issuer)
	}
	return p, err
}

// resource reads the metadata of the MCP server (RFC 9728): where its
// challenge says, else at the well-known places. errAbsent: there is none.
func (w *web) resource(ctx context.Context, named string) (*oauthex.ProtectedResourceMetadata, error) {
	base := origin(w.server) + "/.well-known/oauth-protected-resource"
	var addresses []string
	if named != "" {
		if err := w.allowedText(ctx, "address of the server's metadata", named); err != nil {
			return nil, err
		}
		addresses = append(addresses, named)
	}
	if path := strings.TrimSuffix(w.server.EscapedPath(), "/"); path != "" {
		addresses = append(addresses, base+path)
	}
	for _, address := range append(addresses, base) {
		var m oauthex.ProtectedResourceMetadata
		err := w.document(ctx, address, &m)
		switch {
		case errors.Is(err, errAbsent):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the server's authorization metadata: %w", err)
		case !isResource(m.Resource, w.server):
			return nil, fmt.Errorf("the metadata at %s is for %q, which is not this server; nothing is asked of the authorization server that it names", address, shown(m.Resource))
		case len(m.AuthorizationServers) == 0:
			return nil, fmt.Errorf("the metadata at %s names no authorization server", address)
		}
		return &m, nil
	}
	return nil, errAbsent
}

// isResource reports whether an identifier speaks for the server: its URL, or
// a path above it at the same origin. Other tokens would be for somebody else.
func isResource(identifier string, server *url.URL) bool {
	u, err := url.Parse(identifier)
	if err != nil || u.Fragment != "" || !strings.EqualFold(u.Scheme, server.Scheme) || hostPort(u) != hostPort(server) {
		return false
	}
	if u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	path, under := strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	return under == path || strings.HasPrefix(under, path+"/")
}

// issuer reads the metadata of an authorization server, in the three forms
// that the specification names. same tells whether who speaks there is the one
// that is meant. errAbsent: there is none.
func (w *web) issuer(ctx context.Context, issuer string, same func(says, meant string) bool) (*oauthex.AuthServerMeta, error) {
	if err := w.allowedText(ctx, "authorization server's address", issuer); err != nil {
		return nil, err
	}
	for _, address := range metadataAddresses(issuer) {
		var m oauthex.AuthServerMeta
		err := w.document(ctx, address, &m)
		switch {
		case errors.Is(err, errAbsent):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the metadata of the authorization server: %w", err)
		case !same(m.Issuer, issuer):
			return nil, fmt.Errorf("the metadata of the authorization server %s says that it is %q; it is not used", issuer, shown(m.Issuer))
		}
		return &m, w.sound(ctx, &m)
	}
	return nil, errAbsent
}

func metadataAddresses(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	base, path := origin(u), strings.TrimSuffix(u.EscapedPath(), "/")
	addresses := []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		addresses = append(addresses, base+path+"/.well-known/openid-configuration")
	}
	return addresses
}

// sound checks what is used of a server's metadata.
func (w *web) sound(ctx context.Context, m *oauthex.AuthServerMeta) error {
	for name, address := range map[string]string{"token endpoint": m.TokenEndpoint,
		"authorization endpoint": m.AuthorizationEndpoint, "registration endpoint": m.RegistrationEndpoint} {
		if address == "" {
			continue // whoever needs it will miss it
		}
		if err := w.allowedText(ctx, name+" of "+m.Issuer, address); err != nil {
			return err
		}
	}
	return nil
}

// sameIssuer forgives a slash at the end, which is written carelessly where one
// document names another. What comes back with a code is compared exactly.
func sameIssuer(a, b string) bool {
	return a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// sameOrigin is what can be asked of servers of 2025-03-26: they name no issuer,
// so that it is guessed, and one with a path at that origin is no other party.
func sameOrigin(says, meant string) bool {
	a, errA := url.Parse(says)
	b, errB := url.Parse(meant)
	return errA == nil && errB == nil && a.User == nil && strings.EqualFold(a.Scheme, b.Scheme) && hostPort(a) == hostPort(b)
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
