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

	"github.com/mcpvisor/mcpvisor"
)

// The ways in which a client says who it is at the token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
)

// client is who we are at one authorization server.
type client struct {
	id, secret string
	expires    time.Time // of the secret
	method     string
	key        string // PEM, for methodJWT
	redirect   string // the one that was registered
	dynamic    bool
}

// clientAt finds out who we are at a server: registered by hand, known by our
// metadata document, registered before, or registered now.
func (a *Authorizer) clientAt(ctx context.Context, s *oauthex.AuthServerMeta, known *mcpvisor.Authorization, redirect string, scopes []string) (*client, error) {
	o := &a.oauth
	switch {
	case o.ClientID != "":
		if err := a.mayPresent(s.Issuer); err != nil {
			return nil, err
		}
		c := &client{id: o.ClientID, secret: o.ClientSecret, key: o.PrivateKey, redirect: redirect}
		c.method = methodFor(c, s.TokenEndpointAuthMethodsSupported)
		return c, nil
	case o.ClientMetadataURL != "" && s.ClientIDMetadataDocumentSupported:
		return &client{id: o.ClientMetadataURL, method: methodNone, redirect: redirect}, nil
	}
	if c := registered(known, s.Issuer, redirect); c != nil {
		return c, nil
	}
	if s.RegistrationEndpoint == "" {
		return nil, fmt.Errorf("the authorization server %s registers no clients by itself; register one there by hand and set ClientID", s.Issuer)
	}
	return a.register(ctx, s, redirect, scopes)
}

// mayPresent keeps credentials from a server that they were not made for: not
// OAuth.Issuer, or not the one that they were used at first.
func (a *Authorizer) mayPresent(issuer string) error {
	belongs := a.oauth.Issuer
	if belongs == "" {
		a.mu.Lock()
		belongs = a.bound
		a.mu.Unlock()
	}
	if belongs == "" || sameIssuer(belongs, issuer) {
		return nil
	}
	return fmt.Errorf("the server now names the authorization server %s, and the client %q belongs to %s; set ClientID and Issuer anew if that is meant", issuer, a.oauth.ClientID, belongs)
}

// unregister takes the registration out of an authorization, and what was begun
// with it.
func (a *Authorizer) unregister(n *mcpvisor.Authorization) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pending, func(_ string, c *consent) bool { return c.client.id == n.ClientID })
	n.ClientID, n.ClientSecret, n.RedirectURL = "", "", ""
}

// registered is the client of an earlier registration, if it still fits.
func registered(known *mcpvisor.Authorization, issuer, redirect string) *client {
	switch {
	case known == nil || known.ClientID == "" || known.Issuer != issuer || redirect != "" && known.RedirectURL != redirect:
		return nil
	case !known.ClientSecretExpires.IsZero() && time.Now().After(known.ClientSecretExpires):
		return nil
	}
	return &client{id: known.ClientID, secret: known.ClientSecret, expires: known.ClientSecretExpires, method: known.AuthMethod,
		redirect: known.RedirectURL, dynamic: true}
}

// methodFor chooses how to authenticate: of the two ways to show a secret the
// one that the server names first. RFC 8414: without a list it supports
// client_secret_basic.
func methodFor(c *client, supported []string) string {
	switch {
	case c.key != "":
		return methodJWT
	case c.secret == "":
		return methodNone
	}
	for _, method := range supported {
		if method == methodBasic || method == methodPost {
			return method
		}
	}
	return methodBasic
}

// register registers a client (RFC 7591), for the scopes that it may come to
// ask for: some servers give no others. Others let nobody name scopes.
func (a *Authorizer) register(ctx context.Context, s *oauthex.AuthServerMeta, redirect string, scopes []string) (*client, error) {
	name := a.oauth.ClientName
	if name == "" {
		name = "mcpvisor"
	}
	wanted := oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, ClientName: name, ApplicationType: "web", Scope: strings.Join(scopes, " "),
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
	if u, err := url.Parse(redirect); err == nil && (isLoopback(u.Hostname()) || u.Scheme != "https" && u.Scheme != "http") {
		wanted.ApplicationType = "native"
	}
	if len(s.GrantTypesSupported) > 0 && !slices.Contains(s.GrantTypesSupported, "refresh_token") {
		wanted.GrantTypes = wanted.GrantTypes[:1]
	}
	// A program on somebody's machine keeps no secret from its user.
	if m := s.TokenEndpointAuthMethodsSupported; len(m) == 0 || slices.Contains(m, methodNone) {
		wanted.TokenEndpointAuthMethod = methodNone
	} else {
		wanted.TokenEndpointAuthMethod = methodFor(&client{secret: "any"}, m)
	}
	c, err := a.enroll(ctx, s, &wanted)
	if _, passes := mayPass(err); err != nil && !passes && wanted.Scope != "" {
		wanted.Scope = ""
		c, err = a.enroll(ctx, s, &wanted)
	}
	return c, err
}

// enroll makes one registration request.
func (a *Authorizer) enroll(ctx context.Context, s *oauthex.AuthServerMeta, wanted *oauthex.ClientRegistrationMetadata) (*client, error) {
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
	status, _, answer, err := a.web.do(req)
	if err != nil {
		return nil, fmt.Errorf("registering this client: %w", err)
	}
	var got struct {
		ID      string  `json:"client_id"`
		Secret  string  `json:"client_secret"`
		Method  string  `json:"token_endpoint_auth_method"`
		Expires float64 `json:"client_secret_expires_at"`
		Error   string  `json:"error"`
		Text    string  `json:"error_description"`
	}
	err = json.Unmarshal(answer, &got)
	a.secrets.hide(got.Secret)
	switch {
	case got.Error != "":
		err = a.refused(got.Error, got.Text)
	case status != http.StatusCreated && status != http.StatusOK:
		err = fmt.Errorf("HTTP %d", status)
	case err == nil && got.ID == "":
		err = errors.New("the answer names no client")
	}
	if err != nil {
		return nil, fmt.Errorf("registering this client at %s failed: %w; register one by hand and set ClientID", s.Issuer, err)
	}
	c := &client{id: got.ID, secret: got.Secret, method: got.Method, redirect: wanted.RedirectURIs[0], dynamic: true}
	if got.Expires > 0 && got.Secret != "" {
		c.expires = time.Unix(int64(min(got.Expires, 1<<40)), 0)
	}
	if c.method == "" || c.method == methodNone && c.secret != "" && wanted.TokenEndpointAuthMethod != methodNone {
		c.method = methodFor(c, s.TokenEndpointAuthMethodsSupported)
	}
	return c, nil
}
