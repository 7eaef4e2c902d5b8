package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// tokenResponse is the answer of a token endpoint (RFC 6749, section 5.1).
type tokenResponse struct {
	accessToken, refreshToken string
	expires                   time.Time    // zero: the answer does not say
	scopes                    []string     // nil: the answer does not say
	key                       *jwt.DPoPKey // that the tokens are bound to; nil: bearer tokens
}

// minTokenLifetime and maxTokenLifetime bound what is believed about the lifetime of a token.
const (
	minTokenLifetime = time.Second
	maxTokenLifetime = 10 * 365 * 24 * time.Hour
)

// requestToken sends one request to a token endpoint (RFC 6749, section 3.2) as the client
// c. issuer is the audience of a signed client assertion. A redirect is not followed,
// because the request holds secrets. With a key it asks for tokens that are bound to it (RFC
// 9449, section 5); the answer may be bearer tokens. If the endpoint demands a nonce, the
// request is sent once more: the first one has used up nothing (section 8).
func (a *authorizer) requestToken(ctx context.Context, endpoint, issuer string, c *clientIdentity, form url.Values, key *jwt.DPoPKey) (*tokenResponse, error) {
	// Stored endpoints are checked again: the network around the server may have changed.
	if err := a.http.CheckURL(ctx, "token endpoint", endpoint); err != nil {
		return nil, err
	}
	a.mu.Lock()
	nonce := a.issuerNonce
	a.mu.Unlock()
	got, next, err := a.sendTokenRequest(ctx, endpoint, issuer, c, form, key, nonce)
	if key != nil && errorCodeOf(err) == errUseNonce && next != "" && next != nonce {
		got, _, err = a.sendTokenRequest(ctx, endpoint, issuer, c, form, key, next)
	}
	return got, err
}

// sendTokenRequest sends one request of requestToken. next is the nonce for the next one.
func (a *authorizer) sendTokenRequest(ctx context.Context, endpoint, issuer string, c *clientIdentity, form url.Values, key *jwt.DPoPKey, nonce string) (_ *tokenResponse, next string, _ error) {
	basic, err := a.authenticate(c, issuer, form)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, "", fmt.Errorf("the token endpoint's address cannot be used: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic != "" {
		req.Header.Set("Authorization", basic)
	}
	if key != nil {
		a.redactor.addProofs(key.Header())
		proof, err := key.Proof(req.Method, req.URL, "", nonce, nil)
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("DPoP", proof)
	}
	status, header, body, err := a.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	if next = nonceOf(header); next != "" && key != nil {
		a.mu.Lock()
		a.issuerNonce = next
		a.mu.Unlock()
	}
	got, err := a.parseTokenResponse(status, body, key)
	return got, next, err
}

// authenticate adds the client's credentials to a token request: to its form, or as the
// value of the header Authorization, which it returns. It adds each value that can be used
// as a credential to the redactor.
func (a *authorizer) authenticate(c *clientIdentity, issuer string, form url.Values) (basic string, err error) {
	switch c.authMethod {
	case authSecretBasic:
		// RFC 6749, section 2.3.1: both parts are form-encoded first.
		credentials := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.id) + ":" + url.QueryEscape(c.secret)))
		a.redactor.add(credentials)
		return "Basic " + credentials, nil
	case authSecretPost: // RFC 6749, section 2.3.1
		form.Set("client_id", c.id)
		form.Set("client_secret", c.secret)
	case authPrivateKeyJWT: // RFC 7523, section 2.2
		assertion, err := jwt.SignClientAssertion(c.privateKey, c.id, issuer)
		if err != nil {
			return "", err
		}
		a.redactor.add(assertion)
		form.Set("client_id", c.id)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case authNone, "": // a public client (RFC 6749, section 3.2.1)
		if c.id != "" { // without one, an assertion identifies the client
			form.Set("client_id", c.id)
		}
	default:
		return "", fmt.Errorf("the authorization server requires client authentication by %q, which is not supported", display.Shorten(c.authMethod, display.MaxQuoteBytes))
	}
	return "", nil
}

// parseTokenResponse reads the answer of a token endpoint: RFC 6749, section 5.1, or
// an error of section 5.2. key is that of the request.
func (a *authorizer) parseTokenResponse(status int, body []byte, key *jwt.DPoPKey) (*tokenResponse, error) {
	var got struct {
		AccessToken      string          `json:"access_token"`
		TokenType        string          `json:"token_type"`
		IssuedTokenType  string          `json:"issued_token_type"`
		ExpiresIn        json.RawMessage `json:"expires_in"`
		RefreshToken     string          `json:"refresh_token"`
		Scope            *string         `json:"scope"`
		Error            string          `json:"error"`
		ErrorDescription string          `json:"error_description"`
	}
	// The error of Unmarshal comes after those of the server: an error page need not be
	// JSON, and its status says more.
	err := json.Unmarshal(body, &got)
	a.redactor.add(got.AccessToken, got.RefreshToken)
	if strings.EqualFold(got.TokenType, "N_A") && got.IssuedTokenType == tokenTypeIDJAG {
		got.TokenType = "" // an assertion is not an access token (RFC 8693, section 2.2.1)
	}
	bound := key != nil && strings.EqualFold(got.TokenType, "DPoP") // RFC 9449, section 5
	switch {
	// These two codes belong to the authorization endpoint (RFC 6749, section 4.1.2.1), and
	// some token endpoints use them.
	case got.Error == "temporarily_unavailable", got.Error == "server_error":
		return nil, &safehttp.Temporary{Err: a.newErrorResponse(got.Error, got.ErrorDescription)}
	case got.Error != "":
		return nil, a.newErrorResponse(got.Error, got.ErrorDescription)
	case status != http.StatusOK && status != http.StatusCreated:
		return nil, &statusError{status}
	case err != nil:
		return nil, errors.New("the answer of the token endpoint cannot be parsed")
	case got.AccessToken == "":
		return nil, errors.New("the token endpoint answered without a token")
	case got.TokenType != "" && !strings.EqualFold(got.TokenType, "Bearer") && !bound:
		return nil, fmt.Errorf("the token endpoint issued a token of type %q, and only Bearer is supported", display.Shorten(got.TokenType, display.MaxQuoteBytes))
	// RFC 6750, section 2.1. A line break would allow the server to add headers.
	case strings.ContainsFunc(got.AccessToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("the token endpoint issued a token that is not allowed in a header")
	}
	// RFC 6749, section 5.1: scope and expires_in are optional. expires_in is a lifetime in
	// seconds.
	t := &tokenResponse{accessToken: got.AccessToken, refreshToken: got.RefreshToken}
	if bound {
		t.key = key
	}
	if got.Scope != nil {
		t.scopes = append([]string{}, metadata.ParseScopes(*got.Scope)...)
	}
	// Some servers write the number as a string.
	var seconds float64
	if json.Unmarshal([]byte(strings.Trim(string(got.ExpiresIn), `"`)), &seconds) == nil && seconds > 0 {
		t.expires = time.Now().Add(time.Duration(min(max(seconds, minTokenLifetime.Seconds()), maxTokenLifetime.Seconds()) * float64(time.Second)))
	}
	return t, nil
}

// errorResponse is the error of an OAuth endpoint (RFC 6749, sections 4.1.2.1 and 5.2;
// RFC 7591, section 3.2.2).
type errorResponse struct {
	code        string
	description string
}

// newErrorResponse returns an error response short enough for an error text. It
// redacts before it shortens, because a part of a secret is no longer recognized.
func (a *authorizer) newErrorResponse(code, description string) *errorResponse {
	if len(code)+len(description) > display.MaxQuoteBytes {
		code, description = display.Shorten(a.Redact(code), display.MaxQuoteBytes), display.Shorten(a.Redact(description), display.MaxQuoteBytes)
	}
	return &errorResponse{code, description}
}

// Error implements error.
func (r *errorResponse) Error() string {
	if r.description == "" {
		return r.code
	}
	return fmt.Sprintf("%s (%s)", r.code, r.description)
}

// errorCodeOf returns the code of the error response in err, or "".
func errorCodeOf(err error) string {
	var r *errorResponse
	if errors.As(err, &r) {
		return r.code
	}
	return ""
}

// statusError is an answer of the token endpoint that holds nothing but its status.
type statusError struct{ status int }

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("the token endpoint answered HTTP %d", e.status)
}

// isGone reports whether the token endpoint no longer exists at its address.
func isGone(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status == http.StatusGone)
}
