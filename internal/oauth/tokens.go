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
)

// tokens is what a token endpoint gives.
type tokens struct {
	access, refresh string
	expires         time.Time // zero: not said
	scopes          []string  // nil: not said
}

// longestLife bounds what is believed about a token's end.
const longestLife = 10 * 365 * 24 * time.Hour

// ask makes one request to a token endpoint, as the client c.
func (a *Authorizer) ask(ctx context.Context, endpoint, issuer string, c *client, form url.Values) (*tokens, error) {
	if err := a.web.allowedText(ctx, "token endpoint", endpoint); err != nil {
		return nil, err
	}
	basic := ""
	switch c.method {
	case methodBasic:
		// The two are form-encoded before they are put together (RFC 6749, 2.3.1).
		basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.id)+":"+url.QueryEscape(c.secret)))
		a.secrets.hide(strings.TrimPrefix(basic, "Basic "))
	case methodPost:
		form.Set("client_id", c.id)
		form.Set("client_secret", c.secret)
	case methodJWT:
		assertion, err := signAssertion(c.key, c.id, issuer)
		if err != nil {
			return nil, err
		}
		a.secrets.hide(assertion)
		form.Set("client_id", c.id)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case methodNone, "":
		if c.id != "" { // an assertion may say it all
			form.Set("client_id", c.id)
		}
	default:
		return nil, fmt.Errorf("the authorization server wants the client to identify itself by %q, which is not supported", shown(c.method))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("the token endpoint's address cannot be used: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic != "" {
		req.Header.Set("Authorization", basic)
	}
	status, _, body, err := a.web.do(req)
	if err != nil {
		return nil, err
	}
	return a.read(status, body)
}

// read reads the answer of a token endpoint.
func (a *Authorizer) read(status int, body []byte) (*tokens, error) {
	var got struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Issued  string          `json:"issued_token_type"`
		Expires json.RawMessage `json:"expires_in"`
		Refresh string          `json:"refresh_token"`
		Scope   *string         `json:"scope"`
		Error   string          `json:"error"`
		Text    string          `json:"error_description"`
	}
	err := json.Unmarshal(body, &got)
	a.secrets.hide(got.Access, got.Refresh)
	if strings.EqualFold(got.Type, "N_A") && got.Issued == typeAssertion {
		got.Type = "" // no access token, but what one is asked for with (RFC 8693, section 2.2.1)
	}
	switch {
	case got.Error == "temporarily_unavailable", got.Error == "server_error":
		return nil, &passing{err: a.refused(got.Error, got.Text)}
	case got.Error != "":
		return nil, a.refused(got.Error, got.Text)
	case status != http.StatusOK && status != http.StatusCreated:
		return nil, &answered{status}
	case err != nil:
		return nil, errors.New("the answer of the token endpoint cannot be read")
	case got.Access == "":
		return nil, errors.New("the token endpoint answered without a token")
	case got.Type != "" && !strings.EqualFold(got.Type, "Bearer"):
		return nil, fmt.Errorf("the token endpoint gave a token of type %q, and only Bearer is supported", shown(got.Type))
	case strings.ContainsFunc(got.Access, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("the token endpoint gave a token that cannot travel in a header")
	}
	t := &tokens{access: got.Access, refresh: got.Refresh}
	if got.Scope != nil {
		t.scopes = append([]string{}, scopesIn(*got.Scope)...)
	}
	// Some servers write the number as a string.
	var seconds float64
	if json.Unmarshal([]byte(strings.Trim(string(got.Expires), `"`)), &seconds) == nil && seconds > 0 {
		t.expires = time.Now().Add(time.Duration(min(seconds, longestLife.Seconds()) * float64(time.Second)))
	}
	return t, nil
}
