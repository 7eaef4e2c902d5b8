package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// Bounds for what an authorization server says about a login by code.
const (
	minPollInterval      = time.Second
	defaultPollInterval  = 5 * time.Second // RFC 8628, section 3.2
	maxPollInterval      = time.Minute
	slowDown             = 5 * time.Second // section 3.5
	defaultLoginLifetime = 15 * time.Minute
	maxLoginLifetime     = time.Hour
	maxUserCode          = 64
)

// deviceLogin is a login by code that waits for the user.
type deviceLogin struct {
	mcpvisor.DeviceLogin
	deviceCode string
	interval   time.Duration
}

// AuthorizeDevice implements mcpvisor.DeviceAuthorizer: the device authorization grant (RFC 8628).
// With a grant that needs no user it requests a token and does not call show.
func (a *authorizer) AuthorizeDevice(ctx context.Context, show func(mcpvisor.DeviceLogin) error) error {
	return a.redactor.redactError(a.authorizeDevice(ctx, show))
}

// authorizeDevice is AuthorizeDevice. Its errors may hold secrets.
func (a *authorizer) authorizeDevice(ctx context.Context, show func(mcpvisor.DeviceLogin) error) error {
	if err := a.reload(ctx); err != nil {
		a.warn(a.Redact(err.Error()))
	}
	c, err := a.currentChallenge(ctx)
	if err != nil {
		return err
	}
	if unattended(&a.config) {
		return a.requestWithoutUser(ctx, reason{trigger: triggerRejected, challenge: c})
	}
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	preparing, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	d, err := metadata.Discover(preparing, a.http, c.MetadataURL, a.preferredIssuer(tokens))
	if err != nil {
		return err
	}
	if d.DeviceEndpoint == "" {
		return fmt.Errorf("the authorization server %s offers no login by code; authorize in a browser", d.Server.Issuer)
	}
	redirectURI, err := a.redirectURI(authFor(d, tokens), nil) // a registration names one
	if err != nil {
		return err
	}
	scopes := a.scopesForUser(c, d, tokens)
	me, err := a.clientFor(preparing, d.Server, tokens, redirectURI, metadata.UnionScopes(scopes, d.ResourceScopes))
	if err != nil {
		return err
	}
	login, err := a.requestLogin(preparing, d, me, scopes)
	if err != nil {
		return fmt.Errorf("requesting a code for the user: %w", err)
	}
	if err := hostcall.Do(ctx, "show function", func(context.Context) error { return show(login.DeviceLogin) }); err != nil {
		return err
	}
	key, err := a.proofKey(d, c)
	if err != nil {
		return err
	}
	form := func() url.Values {
		return url.Values{"grant_type": {grantDevice}, "device_code": {login.deviceCode}, "resource": a.resourceParam(d.Resource)}
	}
	got, err := a.awaitLogin(ctx, login, func() (*tokenResponse, error) {
		return a.requestToken(ctx, d.Server.TokenEndpoint, d.Server.Issuer, me, form(), key)
	})
	if err != nil {
		return err
	}
	// A renewal that runs would replace the new tokens, so this waits for it.
	defer a.lockTokens(context.WithoutCancel(ctx))()
	next := newAuthorization(d, me, redirectURI)
	next.Scopes, next.RequestedScopes = scopes, scopes
	got.applyTo(next)
	if err := a.save(ctx, next, fromGrant); err != nil {
		return &notStoredError{err}
	}
	return nil
}

// requestLogin sends the device authorization request (RFC 8628, sections 3.1 and 3.2).
func (a *authorizer) requestLogin(ctx context.Context, d *metadata.Discovery, me *clientIdentity, scopes []string) (*deviceLogin, error) {
	form := url.Values{"resource": a.resourceParam(d.Resource)}
	setScopes(form, scopes)
	basic, err := a.authenticate(me, d.Server.Issuer, form)
	if err != nil {
		return nil, err
	}
	form.Set("client_id", me.id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.DeviceEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic != "" {
		req.Header.Set("Authorization", basic)
	}
	status, _, body, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	var got struct {
		DeviceCode       string  `json:"device_code"`
		UserCode         string  `json:"user_code"`
		URL              string  `json:"verification_uri"`
		OldURL           string  `json:"verification_url"` // of drafts, which some servers still send
		CompleteURL      string  `json:"verification_uri_complete"`
		ExpiresIn        float64 `json:"expires_in"`
		Interval         float64 `json:"interval"`
		Error            string  `json:"error"`
		ErrorDescription string  `json:"error_description"`
	}
	err = json.Unmarshal(body, &got)
	a.redactor.add(got.DeviceCode)
	got.URL = cmp.Or(got.URL, got.OldURL)
	switch {
	case got.Error != "":
		return nil, a.newErrorResponse(got.Error, got.ErrorDescription)
	case status != http.StatusOK:
		return nil, fmt.Errorf("the device authorization endpoint answered HTTP %d", status)
	case err != nil:
		return nil, errors.New("the answer of the device authorization endpoint cannot be parsed")
	case got.DeviceCode == "" || got.UserCode == "" || len(got.UserCode) > maxUserCode || strings.ContainsFunc(got.UserCode, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return nil, errors.New("the device authorization endpoint answered without a code that can be shown")
	}
	if err := a.http.CheckURL(ctx, "page for the code", got.URL); err != nil {
		return nil, err
	}
	if a.http.CheckURL(ctx, "page for the code", got.CompleteURL) != nil {
		got.CompleteURL = ""
	}
	login := &deviceLogin{deviceCode: got.DeviceCode, interval: bounded(got.Interval, defaultPollInterval, minPollInterval, maxPollInterval)}
	login.DeviceLogin = mcpvisor.DeviceLogin{URL: got.URL, CompleteURL: got.CompleteURL, Code: got.UserCode,
		Expires: time.Now().Add(bounded(got.ExpiresIn, defaultLoginLifetime, minPollInterval, maxLoginLifetime))}
	return login, nil
}

// bounded returns a number of seconds as a duration between two bounds, or the default for 0.
func bounded(seconds float64, byDefault, low, high time.Duration) time.Duration {
	if !(seconds > 0) {
		return byDefault
	}
	return time.Duration(max(min(seconds, high.Seconds()), low.Seconds()) * float64(time.Second))
}

// awaitLogin polls until the user has completed the login (RFC 8628, sections 3.4 and 3.5).
func (a *authorizer) awaitLogin(ctx context.Context, login *deviceLogin, poll func() (*tokenResponse, error)) (*tokenResponse, error) {
	expired := errors.New("the code has expired before the user entered it; start the authorization again")
	for {
		if !time.Now().Add(login.interval).Before(login.Expires) {
			if err := backoff.Sleep(ctx, time.Until(login.Expires)); err != nil {
				return nil, err
			}
			return nil, expired
		}
		if err := backoff.Sleep(ctx, login.interval); err != nil {
			return nil, err
		}
		got, err := poll()
		_, temporary := safehttp.IsTemporary(err)
		switch code := errorCodeOf(err); {
		case err == nil:
			return got, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case code == "authorization_pending":
		case code == "slow_down":
			login.interval = min(login.interval+slowDown, maxPollInterval)
		case code == "expired_token":
			return nil, expired
		case code == "access_denied":
			return nil, fmt.Errorf("the authorization was refused: %w", err)
		case temporary: // section 3.5 asks for exponential backoff
			login.interval = min(2*login.interval, maxPollInterval)
		default:
			return nil, fmt.Errorf("exchanging the code for a token: %w", err)
		}
	}
}
