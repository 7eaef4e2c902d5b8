package oauth

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// renew gets another token than used, by the first of these that works: the store,
// the refresh token, a new authorization. Grants without a user have one step.
func (a *authorizer) renew(ctx context.Context, r *renewal, used string) error {
	why := r.reason
	if unattended(&a.config) {
		return a.requestWithoutUser(ctx, why)
	}
	// Step 1, the store: another process may have renewed the token meanwhile. The lock is
	// held until the end, so the refresh token is used once.
	unlock := a.lockTokens(ctx)
	defer unlock()
	if err := a.reload(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	tokens, source := a.tokens, a.source
	a.mu.Unlock()
	if tokens != nil && tokens.AccessToken != "" && tokens.AccessToken != used && !isExpired(tokens, time.Now()) {
		return nil // renewed by another process
	}
	// Step 2, the refresh token. It cannot add scopes (RFC 6749, section 6). If the server
	// rejected a token that was just refreshed, refreshing it again is useless.
	var refreshErr error
	if why.trigger != triggerScopes && tokens != nil && tokens.RefreshToken != "" && !(why.repeated && source == fromRefresh) {
		refreshErr = a.refresh(ctx, tokens, why.challenge)
		if _, temporary := safehttp.IsTemporary(refreshErr); refreshErr == nil || temporary {
			return refreshErr
		}
		if !a.dropRejected(ctx, tokens, why.trigger, refreshErr) && why.trigger == triggerAhead {
			return refreshErr
		}
	}
	// Step 3, a new authorization, only if the server really asks for it.
	if why.trigger < triggerRejected {
		return nil // the next request shows what the server wants
	}
	return a.authorizeAgain(ctx, r, source, refreshErr)
}

// refresh uses the refresh token (RFC 6749, section 6). If the token endpoint has
// moved, it looks for the new one at the same issuer.
func (a *authorizer) refresh(ctx context.Context, tokens *Authorization, c metadata.Challenge) error {
	requesting, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	me := &client{id: tokens.ClientID, secret: tokens.ClientSecret, authMethod: tokens.AuthMethod}
	if a.config.ClientID != "" && tokens.ClientID == a.config.ClientID { // the spec may hold a newer secret
		if err := a.checkIssuer(tokens.Issuer); err != nil {
			return err
		}
		me.secret, me.privateKey = a.config.ClientSecret, a.config.PrivateKey
	}
	var key *jwt.DPoPKey
	if tokens.DPoPKey != "" { // the refresh token is bound to it (RFC 9449, section 5)
		var err error
		if key, err = jwt.ParseDPoPKey(tokens.DPoPKey); err != nil {
			return err
		}
	}
	// RFC 8707, section 2.2: the new token is for the same resource. Without a scope
	// parameter its scopes stay (RFC 6749, section 6).
	next := tokens.Clone()
	request := func() (*tokenResponse, error) {
		return a.requestToken(requesting, next.TokenEndpoint, next.Issuer, me, url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}, "resource": {tokens.Resource}}, key)
	}
	got, err := request()
	// The refresh token belongs to its issuer. It is never sent to an endpoint of another
	// one, whatever the server names now.
	if isGone(err) {
		d, discoveryErr := metadata.Discover(requesting, a.http, c.MetadataURL, tokens.Issuer)
		if discoveryErr == nil && d.Server.Issuer == tokens.Issuer && d.Server.TokenEndpoint != tokens.TokenEndpoint {
			next.TokenEndpoint = d.Server.TokenEndpoint
			got, err = request()
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the token: %w", err)
	}
	got.applyTo(next)
	// ctx and not requesting: its deadline must not prevent the save, and Forget cancels
	// ctx with its own cause.
	if err := a.save(ctx, next, fromRefresh); err != nil {
		a.warn("a renewed token could not be stored, and will be lost when this process ends: " + err.Error())
	}
	return nil
}

// dropRejected removes what the authorization server rejected permanently: the refresh
// token after invalid_grant, and a dynamic registration that the server does not
// know any more. It reports whether it removed anything. After any other error,
// such as a wrong secret, the tokens are kept, because the user can fix the cause.
func (a *authorizer) dropRejected(ctx context.Context, tokens *Authorization, t trigger, err error) bool {
	next := tokens.Clone()
	switch code := errorCodeOf(err); { // RFC 6749, section 5.2
	case code == "invalid_grant": // expired, revoked, or used before
	case (code == "invalid_client" || code == "unauthorized_client") && tokens.RedirectURL != "":
		// Only a dynamic registration: credentials of the spec are the user's to change.
		a.dropRegistration(next)
	default:
		return false
	}
	next.RefreshToken = ""
	if t != triggerAhead { // ahead of the expiry the access token is still valid
		next.AccessToken = ""
	}
	if err := a.save(ctx, next, fromStore); err != nil {
		a.warn(err.Error())
	}
	return true
}

// applyTo puts the tokens of a response into an authorization. If the response has
// no new refresh token, the old one stays valid (RFC 6749, section 6).
func (t *tokenResponse) applyTo(next *Authorization) {
	next.AccessToken, next.Expires, next.Obtained = t.accessToken, t.expires, time.Now()
	if next.DPoPKey = ""; t.key != nil {
		next.DPoPKey = t.key.Text()
	}
	if t.refreshToken != "" {
		next.RefreshToken = t.refreshToken
	}
	if t.scopes != nil {
		next.Scopes = slices.Clone(t.scopes)
	}
}
