package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// The methods of client authentication at the token endpoint (RFC 7591, section 2, and
// OpenID Connect Core 1.0, section 9).
const (
	authNone          = "none"
	authSecretBasic   = "client_secret_basic"
	authSecretPost    = "client_secret_post"
	authPrivateKeyJWT = "private_key_jwt"
)

// clientIdentity is the identity of this program at one authorization server. It is not changed
// after it was made.
type clientIdentity struct {
	id, secret    string
	secretExpires time.Time // zero: never
	authMethod    string
	privateKey    string // PEM, for private_key_jwt
	redirectURI   string // the registered one
	dynamic       bool   // registered by RFC 7591
}

// clientFor returns the client for an authorization server, in the order of MCP
// (2025-11-25, "Client Registration Approaches"): pre-registered, by a client ID
// metadata document, or by dynamic registration, an earlier one or a new one.
func (a *authorizer) clientFor(ctx context.Context, s *oauthex.AuthServerMeta, known *authorization, redirectURI string, scopes []string) (*clientIdentity, error) {
	o := &a.config
	switch {
	case o.ClientID != "": // pre-registered
		if err := a.checkIssuer(s.Issuer); err != nil {
			return nil, err
		}
		c := &clientIdentity{id: o.ClientID, secret: o.ClientSecret, privateKey: o.PrivateKey, redirectURI: redirectURI}
		c.authMethod = authMethodFor(c, s.TokenEndpointAuthMethodsSupported)
		return c, nil
	// The client_id is the URL of the document (draft-ietf-oauth-client-id-metadata-document).
	case o.ClientMetadataURL != "" && s.ClientIDMetadataDocumentSupported:
		return &clientIdentity{id: o.ClientMetadataURL, authMethod: authNone, redirectURI: redirectURI}, nil
	}
	if c := reusableRegistration(known, s.Issuer, redirectURI); c != nil {
		return c, nil
	}
	if s.RegistrationEndpoint == "" {
		return nil, fmt.Errorf("the authorization server %s has no dynamic client registration; register a client there and set ClientID", s.Issuer)
	}
	return a.registerClient(ctx, s, redirectURI, scopes)
}

// checkIssuer protects the spec's credentials from an authorization server that they do
// not belong to: another one than Config.Issuer, or than the one they were used at first.
func (a *authorizer) checkIssuer(issuer string) error {
	own := a.config.Issuer
	if own == "" {
		a.mu.Lock()
		own = a.boundIssuer
		a.mu.Unlock()
	}
	if own == "" || metadata.SameIssuer(own, issuer) {
		return nil
	}
	return fmt.Errorf("the server now names the authorization server %s, and the client %q belongs to %s; if that is intended, set a new ClientID and Issuer", issuer, a.config.ClientID, own)
}

// dropRegistration removes the registration from an authorization, and the pending
// authorization requests of that client.
func (a *authorizer) dropRegistration(n *authorization) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pending, func(_ string, r *authRequest) bool { return r.client.id == n.ClientID })
	n.ClientID, n.ClientSecret, n.RedirectURL = "", "", ""
}

// reusableRegistration returns the client of an earlier dynamic registration; nil if
// its issuer or redirect URI differs, or if its secret has expired.
func reusableRegistration(known *authorization, issuer, redirectURI string) *clientIdentity {
	switch {
	case known == nil || known.ClientID == "" || known.Issuer != issuer || redirectURI != "" && known.RedirectURL != redirectURI:
		return nil
	case !known.ClientSecretExpires.IsZero() && time.Now().After(known.ClientSecretExpires):
		return nil
	}
	return &clientIdentity{id: known.ClientID, secret: known.ClientSecret, secretExpires: known.ClientSecretExpires, authMethod: known.AuthMethod,
		redirectURI: known.RedirectURL, dynamic: true}
}

// authMethodFor chooses the method of client authentication. Of the two methods for a
// secret it takes the one that the server lists first, or client_secret_basic, the
// default of RFC 8414, section 2.
func authMethodFor(c *clientIdentity, supported []string) string {
	switch {
	case c.privateKey != "":
		return authPrivateKeyJWT
	case c.secret == "":
		return authNone
	}
	for _, method := range supported {
		if method == authSecretBasic || method == authSecretPost {
			return method
		}
	}
	return authSecretBasic
}

// registerClient registers a client (RFC 7591, section 3) for all scopes that it may
// request later, because some servers grant no others. Other servers refuse a
// registration that names scopes; then it tries once without.
// maxUnixTime is the last second of the year 9999. A later time cannot be stored as JSON.
const maxUnixTime = 253402300799

func (a *authorizer) registerClient(ctx context.Context, s *oauthex.AuthServerMeta, redirectURI string, scopes []string) (*clientIdentity, error) {
	name := a.config.ClientName
	if name == "" {
		name = "mcpvisor"
	}
	// RFC 7591, section 2.
	wanted := oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirectURI}, ClientName: name, ApplicationType: "web", Scope: strings.Join(scopes, " "),
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
	if u, err := url.Parse(redirectURI); err == nil && (safehttp.IsLoopback(u.Hostname()) || u.Scheme != "https" && u.Scheme != "http") {
		wanted.ApplicationType = "native" // OpenID Connect Dynamic Client Registration 1.0, section 2
	}
	// Some servers refuse a registration for grants that they do not support.
	if len(s.GrantTypesSupported) > 0 && !slices.Contains(s.GrantTypesSupported, "refresh_token") {
		wanted.GrantTypes = wanted.GrantTypes[:1]
	}
	if slices.Contains(s.GrantTypesSupported, grantDevice) {
		wanted.GrantTypes = append(wanted.GrantTypes, grantDevice)
	}
	// A program on the user's machine cannot keep a secret from the user (RFC 8252,
	// section 8.5), so it registers as a public client where it may.
	if m := s.TokenEndpointAuthMethodsSupported; len(m) == 0 || slices.Contains(m, authNone) {
		wanted.TokenEndpointAuthMethod = authNone
	} else {
		wanted.TokenEndpointAuthMethod = authMethodFor(&clientIdentity{secret: "any"}, m)
	}
	c, err := a.postRegistration(ctx, s, &wanted)
	if _, temporary := safehttp.IsTemporary(err); err != nil && !temporary && wanted.Scope != "" {
		wanted.Scope = ""
		c, err = a.postRegistration(ctx, s, &wanted)
	}
	return c, err
}

// postRegistration sends one registration request (RFC 7591, section 3.1) and reads the
// answer (sections 3.2.1 and 3.2.2).
func (a *authorizer) postRegistration(ctx context.Context, s *oauthex.AuthServerMeta, wanted *oauthex.ClientRegistrationMetadata) (*clientIdentity, error) {
	body, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	status, _, answer, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("registering this client: %w", err)
	}
	var got struct {
		ClientID         string  `json:"client_id"`
		ClientSecret     string  `json:"client_secret"`
		AuthMethod       string  `json:"token_endpoint_auth_method"`
		SecretExpiresAt  float64 `json:"client_secret_expires_at"`
		Error            string  `json:"error"`
		ErrorDescription string  `json:"error_description"`
	}
	err = json.Unmarshal(answer, &got)
	a.redactor.add(got.ClientSecret)
	switch {
	case got.Error != "": // section 3.2.2
		err = a.newErrorResponse(got.Error, got.ErrorDescription)
	case status != http.StatusCreated && status != http.StatusOK: // some servers answer 200
		err = fmt.Errorf("HTTP %d", status)
	case err == nil && got.ClientID == "":
		err = errors.New("the answer has no client_id")
	}
	if err != nil {
		return nil, fmt.Errorf("registering this client at %s failed: %w; register a client there and set ClientID", s.Issuer, err)
	}
	c := &clientIdentity{id: got.ClientID, secret: got.ClientSecret, authMethod: got.AuthMethod, redirectURI: wanted.RedirectURIs[0], dynamic: true}
	if got.SecretExpiresAt > 0 && got.ClientSecret != "" {
		c.secretExpires = time.Unix(int64(min(got.SecretExpiresAt, maxUnixTime)), 0).UTC()
	}
	// Some servers issue a secret and do not say how to use it, or say "none".
	if c.authMethod == "" || c.authMethod == authNone && c.secret != "" && wanted.TokenEndpointAuthMethod != authNone {
		c.authMethod = authMethodFor(c, s.TokenEndpointAuthMethodsSupported)
	}
	return c, nil
}
