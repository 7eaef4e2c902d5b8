package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
)

const (
	// consentLife is how long a person may take; consentsKept how many URLs are
	// remembered at once.
	consentLife  = 15 * time.Minute
	consentsKept = 16
)

// consent is one authorization request (RFC 6749, section 4.1, with PKCE) that
// waits for its redirect.
type consent struct {
	url      string
	state    string
	verifier string
	place    *place
	client   *client
	redirect string
	scopes   []string
	began    time.Time
}

// consented gets a token for which somebody has to consent: the host's Visit,
// or a person, whom nobody waits for here.
func (a *Authorizer) consented(ctx context.Context, f *flight, origin origins, c challenge) error {
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	required := &messages.AuthRequired{Resource: a.key.Server, Reason: "the server wants a person to authorize this client", Err: c.err()}
	if f.need == more {
		required.Reason = "the server wants more scopes than the token has"
		required.Scopes = c.scopes
		if held != nil && covers(held.Scopes, c.scopes) {
			required.Reason = "the server wants scopes that the token has"
			return required
		}
	}
	if a.oauth.Visit != nil {
		if f.need == refused && origin == fromConsent {
			required.Reason = "the server refuses the token that its authorization server gave"
			return required
		}
		ctx, cancel := context.WithTimeout(ctx, visitTime)
		defer cancel()
		p, err := a.begin(ctx, c, "", true)
		if err != nil {
			return a.hopeless(err)
		}
		redirect, err := a.oauth.Visit(ctx, p.url)
		if err != nil {
			required.Reason, required.URL, required.Err = "the visit of the authorization URL failed", p.url, err
			return required
		}
		err = a.complete(ctx, p, redirect)
		if lost := (*unstored)(nil); errors.As(err, &lost) {
			a.warn(err.Error())
			return nil
		}
		return a.hopeless(err)
	}
	asking, cancel := context.WithTimeout(ctx, a.wait())
	defer cancel()
	p, err := a.begin(asking, c, "", f.need == refused)
	if err != nil {
		return a.hopeless(err)
	}
	required.URL, required.Resource, required.Issuer, required.Scopes = p.url, p.place.resource, p.place.server.Issuer, p.scopes
	return required
}

// begin makes an authorization URL. redirect is where it leads back to; empty
// means a fitting one. fresh means that the tokens at hand are of no use.
func (a *Authorizer) begin(ctx context.Context, c challenge, redirect string, fresh bool) (*consent, error) {
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	favourite := a.oauth.Issuer
	if favourite == "" && held != nil {
		favourite = held.Issuer
	}
	p, err := a.web.discover(ctx, c.metadata, favourite)
	if err != nil {
		return nil, err
	}
	s := p.server
	switch {
	case s.AuthorizationEndpoint == "" || s.TokenEndpoint == "":
		return nil, fmt.Errorf("the authorization server %s names no endpoints for people to authorize at", s.Issuer)
	case !p.guessed && !slices.Contains(s.CodeChallengeMethodsSupported, "S256"):
		return nil, fmt.Errorf("the authorization server %s does not support PKCE with S256, without which codes can be stolen", s.Issuer)
	}
	known := held
	if known != nil && known.Issuer != s.Issuer {
		known = nil
	}
	if redirect == "" {
		if redirect, err = a.redirect(known); err != nil {
			return nil, err
		}
	}
	me, err := a.clientAt(ctx, s, held, redirect)
	if err != nil {
		return nil, err
	}
	if me.dynamic && fresh && (known == nil || known.ClientID != me.id) {
		// So that the next try does not register yet another client.
		if err := a.keep(ctx, a.record(p, me, redirect), fromStore); err != nil {
			a.warn(err.Error())
		}
	}
	n := &consent{state: rand.Text(), verifier: rand.Text() + rand.Text(), place: p, client: me, redirect: redirect, began: time.Now()}
	n.scopes = a.scopes(c, p)
	if known != nil {
		n.scopes = union(known.Asked, known.Scopes, n.scopes)
	}
	if slices.Contains(s.ScopesSupported, "offline_access") { // else there may be no refresh token
		n.scopes = union(n.scopes, []string{"offline_access"})
	}
	if err := n.write(s.AuthorizationEndpoint); err != nil {
		return nil, err
	}
	a.secrets.hide(n.state, n.verifier)
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pending, func(_ string, old *consent) bool { return time.Since(old.began) > consentLife })
	for len(a.pending) >= consentsKept {
		oldest := slices.MinFunc(slices.Collect(maps.Values(a.pending)), func(x, y *consent) int { return x.began.Compare(y.began) })
		delete(a.pending, oldest.state)
	}
	a.pending[n.state] = n
	return n, nil
}

// write makes the URL.
func (n *consent) write(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("the authorization endpoint cannot be read: %w", err)
	}
	sum := sha256.Sum256([]byte(n.verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": n.client.id, "redirect_uri": n.redirect, "state": n.state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256", "resource": n.place.resource,
	} {
		q.Set(name, value)
	}
	setScopes(q, n.scopes)
	if slices.Contains(n.scopes, "offline_access") {
		q.Set("prompt", "consent") // OpenID Connect Core, section 11
	}
	u.RawQuery = q.Encode()
	n.url = u.String()
	return nil
}

func setScopes(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// scopes are those to ask for first: the challenge's, which are authoritative,
// and the host's; without either, those that the server suggests.
func (a *Authorizer) scopes(c challenge, p *place) []string {
	if scopes := union(a.oauth.Scopes, c.scopes); len(scopes) > 0 {
		return scopes
	}
	return union(p.suggested)
}

// complete makes a token of what the redirect brought.
func (a *Authorizer) complete(ctx context.Context, n *consent, redirected string) error {
	u, err := url.Parse(redirected)
	if err != nil {
		return errors.New("the redirect cannot be read as a URL")
	}
	q := u.Query()
	if q.Get("state") != n.state {
		return errors.New("the redirect belongs to another request (its state is not ours); begin anew")
	}
	a.mu.Lock()
	delete(a.pending, n.state) // good for once
	a.mu.Unlock()
	code, s := q.Get("code"), n.place.server
	a.secrets.hide(code)
	// Before anything else of it is believed (RFC 9207, section 2.4).
	switch iss := q.Get("iss"); {
	case iss == "" && s.AuthorizationResponseIssParameterSupported:
		return fmt.Errorf("the redirect does not say that it comes from %s, which it has to; begin anew", s.Issuer)
	case iss != "" && iss != s.Issuer:
		return fmt.Errorf("the redirect comes from another authorization server than %s; its code is not used", s.Issuer)
	}
	switch {
	case q.Get("error") != "":
		return fmt.Errorf("the authorization was refused: %w", &refusal{q.Get("error"), q.Get("error_description")})
	case code == "":
		return errors.New("the redirect brings no code")
	}
	got, err := a.ask(ctx, s.TokenEndpoint, s.Issuer, n.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {n.redirect},
		"code_verifier": {n.verifier}, "resource": {n.place.resource}})
	if err != nil {
		return fmt.Errorf("exchanging the code for a token: %w", err)
	}
	next := a.record(n.place, n.client, n.redirect)
	next.Scopes, next.Asked = n.scopes, n.scopes
	take(next, got)
	if err := a.keep(ctx, next, fromConsent); err != nil {
		return &unstored{err}
	}
	return nil
}

// record is an authorization without tokens.
func (a *Authorizer) record(p *place, c *client, redirect string) *messages.Authorization {
	n := &messages.Authorization{Issuer: p.server.Issuer, Resource: p.resource, ClientID: c.id, AuthMethod: c.method,
		TokenEndpoint: p.server.TokenEndpoint, Obtained: time.Now()}
	if c.dynamic { // what the spec says is not kept twice
		n.ClientSecret, n.ClientExpires, n.RedirectURL = c.secret, c.expires, redirect
	}
	return n
}
