package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// renew gets another token than used, by the least that helps.
func (a *Authorizer) renew(ctx context.Context, f *flight, used string) error {
	if a.oauth.Unattended() {
		return a.byItself(ctx, f)
	}
	unlock := a.lock(ctx)
	defer unlock()
	if err := a.recall(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	held, origin := a.held, a.origin
	a.mu.Unlock()
	if held != nil && held.AccessToken != "" && held.AccessToken != used && !ended(held, time.Now()) {
		return nil // another process was faster
	}
	var why error
	if f.need != more && held != nil && held.RefreshToken != "" && !(f.again && origin == fromRefresh) {
		why = a.refresh(ctx, held, f.challenge)
		if _, passes := mayPass(why); why == nil || passes {
			return why
		}
		if !a.without(ctx, held, f.need, why) && f.need == ahead {
			return why
		}
	}
	if f.need < refused {
		return nil // the server will say what it wants
	}
	return a.consented(ctx, f, origin, why)
}

// refresh uses the refresh token (RFC 6749, section 6).
func (a *Authorizer) refresh(ctx context.Context, held *mcpvisor.Authorization, c challenge) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	me := &client{id: held.ClientID, secret: held.ClientSecret, method: held.AuthMethod}
	if a.oauth.ClientID != "" && held.ClientID == a.oauth.ClientID { // they may have been changed since
		if err := a.mayPresent(held.Issuer); err != nil {
			return err
		}
		me.secret, me.key = a.oauth.ClientSecret, a.oauth.PrivateKey
	}
	next := held.Clone()
	ask := func() (*tokens, error) {
		return a.ask(asking, next.TokenEndpoint, next.Issuer, me, url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {held.RefreshToken}, "resource": {held.Resource}})
	}
	got, err := ask()
	if hasMoved(err) {
		p, lost := a.web.discover(asking, c.metadata, held.Issuer)
		if lost == nil && p.server.Issuer == held.Issuer && p.server.TokenEndpoint != held.TokenEndpoint {
			next.TokenEndpoint = p.server.TokenEndpoint
			got, err = ask()
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the token: %w", err)
	}
	take(next, got)
	if err := a.keep(ctx, next, fromRefresh); err != nil {
		a.warn("a renewed token could not be stored, and will be lost with this process: " + err.Error())
	}
	return nil
}

// without drops what the authorization server has said to be of no use. It
// reports whether anything was. What it refuses for another reason, as a wrong
// secret, or in words of its own, is kept: the reason may be mended.
func (a *Authorizer) without(ctx context.Context, held *mcpvisor.Authorization, n need, err error) bool {
	next := held.Clone()
	switch code := refusedWith(err); {
	case code == "invalid_grant":
	case (code == "invalid_client" || code == "unauthorized_client") && held.RedirectURL != "":
		a.unregister(next) // the server has forgotten us
	default:
		return false
	}
	next.RefreshToken = ""
	if n != ahead {
		next.AccessToken = ""
	}
	if err := a.keep(ctx, next, fromStore); err != nil {
		a.warn(err.Error())
	}
	return true
}

// byItself gets a token without a person.
func (a *Authorizer) byItself(ctx context.Context, f *flight) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := f.challenge
	a.mu.Lock()
	p, held, origin := a.place, a.held, a.origin
	a.mu.Unlock()
	if f.need >= refused {
		if held != nil && (f.need == more && (covers(held.Scopes, c.scopes) || covers(held.RequestedScopes, c.scopes)) || f.need == refused && f.again && origin == fromConsent) {
			return &mcpvisor.AuthRequired{Reason: "the server refuses the token that its authorization server gave to this client", Err: c.err()}
		}
		p = nil // it may have moved
	}
	if p == nil {
		var err error
		if p, err = a.web.discover(ctx, c.metadata, a.oauth.Issuer); err != nil {
			return a.hopeless(err)
		}
	}
	if err := a.mayPresent(p.server.Issuer); err != nil {
		return a.hopeless(err)
	}
	me := &client{id: a.oauth.ClientID, secret: a.oauth.ClientSecret, key: a.oauth.PrivateKey}
	me.method = methodFor(me, p.server.TokenEndpointAuthMethodsSupported)
	scopes := a.scopes(c, p, held)
	form, err := a.alone(ctx, p, scopes)
	if err != nil {
		return a.hopeless(err)
	}
	got, err := a.ask(ctx, p.server.TokenEndpoint, p.server.Issuer, me, form)
	if err != nil {
		return a.hopeless(fmt.Errorf("asking for a token as client %q: %w", me.id, err))
	}
	next := &mcpvisor.Authorization{Issuer: p.server.Issuer, Resource: p.resource, ClientID: me.id, Scopes: scopes, RequestedScopes: scopes}
	take(next, got)
	a.mu.Lock()
	a.place = p
	a.mu.Unlock()
	return a.keep(ctx, next, fromConsent)
}

// hopeless makes an error permanent that does not pass by itself.
func (a *Authorizer) hopeless(err error) error {
	var required *mcpvisor.AuthRequired
	if _, passes := mayPass(err); err == nil || passes || errors.As(err, &required) {
		return err
	}
	return &mcpvisor.AuthRequired{Reason: "no token could be had", Resource: bare(a.web.server), Err: err}
}

// err is what the server said beside its refusal.
func (c challenge) err() error {
	switch {
	case c.text != "":
		return errors.New(c.text)
	case c.code != "":
		return errors.New(c.code)
	}
	return nil
}

// take puts new tokens into an authorization. A server that sends no new
// refresh token means the old one to be kept.
func take(n *mcpvisor.Authorization, got *tokens) {
	n.AccessToken, n.Expires, n.Obtained = got.access, got.expires, time.Now()
	if got.refresh != "" {
		n.RefreshToken = got.refresh
	}
	if got.scopes != nil {
		n.Scopes = slices.Clone(got.scopes)
	}
}
