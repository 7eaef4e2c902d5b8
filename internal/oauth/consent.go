package oauth

import (
	"cmp"
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

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

const (
	// consentLife is how long a person may take; consentFresh how long the same
	// URL is given to whoever asks; consentsKept how many are remembered at once.
	consentLife  = 15 * time.Minute
	consentFresh = 5 * time.Minute
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
	metadata string // the challenge's
	door     bool   // somebody listens for its redirect
	began    time.Time
}

// consented gets a token for which somebody has to consent: the host's Visit,
// or a person, whom nobody waits for here. why is what became of the refresh
// token.
func (a *Authorizer) consented(ctx context.Context, f *flight, origin origins, why error) error {
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	c := f.challenge
	required := &mcpvisor.AuthRequired{Resource: bare(a.web.server), Reason: "the server wants a person to authorize this client", Err: cmp.Or(why, c.err())}
	if f.need == more {
		required.Reason = "the server wants more scopes than the token has"
		required.Scopes = c.scopes
		switch {
		case held != nil && covers(held.Scopes, c.scopes):
			required.Reason = "the server wants scopes that the token has"
			return required
		case held != nil && covers(held.RequestedScopes, c.scopes) && a.oauth.FetchAuthorizationCode != nil:
			required.Reason = "the server wants scopes that were asked for and not given"
			return required
		}
	}
	if a.oauth.FetchAuthorizationCode != nil {
		if f.need == refused && f.again && origin == fromConsent {
			required.Reason = "the server refuses the token that its authorization server gave"
			return required
		}
		return a.visited(ctx, f, required)
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := a.begin(asking, c, nil, f.need == refused)
	if err != nil {
		return a.hopeless(err)
	}
	if f.need == more {
		a.wish(ctx, p.scopes)
	}
	required.URL, required.Resource, required.Issuer, required.Scopes = p.url, p.place.resource, p.place.server.Issuer, p.scopes
	return required
}

// visited gets a token by the host's own visit.
func (a *Authorizer) visited(ctx context.Context, f *flight, required *mcpvisor.AuthRequired) error {
	ctx, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	p, err := a.begin(ctx, f.challenge, nil, f.need == refused)
	if err != nil {
		return a.hopeless(err)
	}
	close(f.visiting)
	redirect, err := guard.Wait(ctx, "Visit", nil, func(ctx context.Context) (string, error) { return a.oauth.FetchAuthorizationCode(ctx, p.url) })
	if err != nil {
		required.Reason, required.URL, required.Err = "the visit of the authorization URL failed", p.url, err
		return required
	}
	if a.claim(p.state) == nil {
		return a.hopeless(errTaken)
	}
	err = a.complete(ctx, p, redirect)
	if lost := (*unstored)(nil); errors.As(err, &lost) {
		a.warn(err.Error())
		return nil
	}
	return a.hopeless(err)
}

// wish notes the scopes that were found to be wanting, for a person who consents
// in another process. None of them is given up if that fails.
func (a *Authorizer) wish(ctx context.Context, scopes []string) {
	a.mu.Lock()
	held, origin := a.held, a.origin
	a.mu.Unlock()
	if held == nil || slices.Equal(held.StepUpScopes, scopes) {
		return
	}
	next := held.Clone()
	next.StepUpScopes = scopes
	if err := a.keep(ctx, next, origin); err != nil {
		a.warn(err.Error())
	}
}

// begin makes an authorization URL, unless one that was made is as good. It leads
// back to the door, or without one to a fitting URL. fresh means that the tokens
// at hand are of no use.
func (a *Authorizer) begin(ctx context.Context, c challenge, d *door, fresh bool) (*consent, error) {
	a.mu.Lock()
	held := a.held
	begun := a.begun(c, d)
	a.mu.Unlock()
	if begun != nil {
		return begun, nil
	}
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
	known := at(p, held)
	redirect, err := a.redirect(known, d)
	if err != nil {
		return nil, err
	}
	scopes := a.consentScopes(c, p, held)
	me, err := a.clientAt(ctx, s, held, redirect, union(scopes, p.suggested))
	if err != nil {
		return nil, err
	}
	if me.dynamic && fresh && (known == nil || known.ClientID != me.id) {
		// So that the next try does not register yet another client.
		if err := a.keep(ctx, a.record(p, me, redirect), fromStore); err != nil {
			a.warn(err.Error())
		}
	}
	n := &consent{state: rand.Text(), verifier: rand.Text() + rand.Text(), place: p, client: me, redirect: redirect,
		scopes: scopes, metadata: c.metadata, door: d != nil, began: time.Now()}
	if err := n.write(s.AuthorizationEndpoint); err != nil {
		return nil, err
	}
	a.secrets.hide(n.state, n.verifier)
	a.mu.Lock()
	defer a.mu.Unlock()
	if forgotten(ctx) {
		return nil, errForgotten
	}
	maps.DeleteFunc(a.pending, func(_ string, old *consent) bool { return lived(old.began, time.Now()) > consentLife })
	for len(a.pending) >= consentsKept {
		oldest := slices.MinFunc(slices.Collect(maps.Values(a.pending)), func(x, y *consent) int { return x.began.Compare(y.began) })
		delete(a.pending, oldest.state)
	}
	a.pending[n.state] = n
	return n, nil
}

// begun is a consent for the same that a person was sent to a moment ago, and may
// be about to give; nil if there is none. a.mu is held.
func (a *Authorizer) begun(c challenge, d *door) *consent {
	for _, n := range a.pending {
		if d == nil && !n.door && n.metadata == c.metadata && lived(n.began, time.Now()) < consentFresh &&
			slices.Equal(n.scopes, a.consentScopes(c, n.place, a.held)) {
			return n
		}
	}
	return nil
}

// at is what is known at a place.
func at(p *place, held *mcpvisor.Authorization) *mcpvisor.Authorization {
	if held == nil || held.Issuer != p.server.Issuer {
		return nil
	}
	return held
}

// errTaken: each consent is good for once.
var errTaken = errors.New("nobody waits for this redirect: it belongs to another process, was used before, or came too late; begin anew")

// claim takes a consent, by its state, from all others who would complete it.
func (a *Authorizer) claim(state string) *consent {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.pending[state]
	delete(a.pending, state)
	if n != nil && lived(n.began, time.Now()) > consentLife {
		return nil
	}
	return n
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

// scopes are those to ask for: what was asked for, given and found wanting before,
// the host's, and the challenge's, which are authoritative; without any, those
// that the server suggests.
func (a *Authorizer) scopes(c challenge, p *place, held *mcpvisor.Authorization) []string {
	all := union(a.oauth.Scopes, c.scopes)
	if known := at(p, held); known != nil {
		all = union(known.RequestedScopes, known.Scopes, known.StepUpScopes, all)
	}
	if len(all) > 0 {
		return all
	}
	return union(p.suggested)
}

// consentScopes are those that a person is asked for.
func (a *Authorizer) consentScopes(c challenge, p *place, held *mcpvisor.Authorization) []string {
	scopes := a.scopes(c, p, held)
	if slices.Contains(p.server.ScopesSupported, "offline_access") { // else there may be no refresh token
		scopes = union(scopes, []string{"offline_access"})
	}
	return scopes
}

// complete makes a token of what the redirect of a claimed consent brought.
func (a *Authorizer) complete(ctx context.Context, n *consent, redirected string) error {
	u, err := url.Parse(redirected)
	if err != nil {
		return errors.New("the redirect cannot be read as a URL")
	}
	q := u.Query()
	if q.Get("state") != n.state {
		return errors.New("the redirect belongs to another request (its state is not ours); begin anew")
	}
	code, s := q.Get("code"), n.place.server
	a.secrets.hide(n.state, n.verifier, code)
	// Before anything else of it is believed (RFC 9207, section 2.4).
	switch iss := q.Get("iss"); {
	case iss == "" && s.AuthorizationResponseIssParameterSupported:
		return fmt.Errorf("the redirect does not say that it comes from %s, which it has to; begin anew", s.Issuer)
	case iss != "" && iss != s.Issuer:
		return fmt.Errorf("the redirect comes from another authorization server than %s; its code is not used", s.Issuer)
	}
	switch {
	case q.Get("error") != "":
		a.wish(ctx, nil) // it may be the reason
		return fmt.Errorf("the authorization was refused: %w", a.refused(q.Get("error"), q.Get("error_description")))
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
	next.Scopes, next.RequestedScopes = n.scopes, n.scopes
	take(next, got)
	if err := a.keep(ctx, next, fromConsent); err != nil {
		return &unstored{err}
	}
	return nil
}

// record is an authorization without tokens.
func (a *Authorizer) record(p *place, c *client, redirect string) *mcpvisor.Authorization {
	n := &mcpvisor.Authorization{Issuer: p.server.Issuer, Resource: p.resource, ClientID: c.id, AuthMethod: c.method,
		TokenEndpoint: p.server.TokenEndpoint, Obtained: time.Now()}
	if c.dynamic { // what the spec says is not kept twice
		n.ClientSecret, n.ClientSecretExpires, n.RedirectURL = c.secret, c.expires, redirect
	}
	return n
}
