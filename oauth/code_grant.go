package oauth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// fetchTimeout bounds one call of the host's FetchAuthorizationCode.
const fetchTimeout = time.Minute

// authorizeAgain gets a token by the authorization code grant (RFC 6749, section 4.1):
// through the host's FetchAuthorizationCode, or else through the user. A renewal never waits for the
// user: it then fails with an AuthRequired that holds the authorization URL. source
// is where the current tokens came from, refreshErr why the refresh token did not
// help.
func (a *authorizer) authorizeAgain(ctx context.Context, r *renewal, source tokenSource, refreshErr error) error {
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	why, c := r.reason, r.reason.challenge
	required := &mcpvisor.AuthRequired{Resource: safehttp.Redacted(a.http.Server()), Reason: "the server requires the user to authorize this client", Err: cmp.Or(refreshErr, c.Err())}
	// A step-up makes sense only for scopes that were neither granted nor requested. MCP,
	// "Step-Up Authorization Flow": clients must not repeat the same request forever.
	if why.trigger == triggerScopes {
		required.Reason = "the server requires more scopes than the token has"
		required.Scopes = c.Scopes
		switch {
		case tokens != nil && metadata.CoverScopes(tokens.Scopes, c.Scopes):
			required.Reason = "the server requires scopes that the token already has"
			return required
		case tokens != nil && metadata.CoverScopes(tokens.RequestedScopes, c.Scopes) && a.config.FetchAuthorizationCode != nil:
			required.Reason = "the server requires scopes that were requested and not granted"
			return required
		}
	}
	if a.config.FetchAuthorizationCode != nil {
		// The token of the last authorization was rejected at once: another one would be,
		// too.
		if why.trigger == triggerRejected && why.repeated && source == fromGrant {
			required.Reason = "the server rejects the token that its authorization server issued"
			return required
		}
		return a.fetchCode(ctx, r, required)
	}
	// Without the host's help the user has to open the URL. The renewal ends here, and
	// Finish or Authorize continues.
	preparing, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	request, err := a.newAuthRequest(preparing, c, nil, why.trigger == triggerRejected)
	if err != nil {
		return a.asAuthRequired(err)
	}
	if why.trigger == triggerScopes {
		a.rememberScopes(ctx, request.scopes)
	}
	required.URL, required.Scopes = request.url, request.scopes
	required.Resource, required.Issuer = request.discovery.Resource, request.discovery.Server.Issuer
	return required
}

// fetchCode gets a token with a code that the host fetches by itself. required is
// the error if the host fails.
func (a *authorizer) fetchCode(ctx context.Context, r *renewal, required *mcpvisor.AuthRequired) error {
	ctx, cancel := overdue.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := a.newAuthRequest(ctx, r.reason.challenge, nil, r.reason.trigger == triggerRejected)
	if err != nil {
		return a.asAuthRequired(err)
	}
	close(r.fetching) // from here on callers wait beyond TokenWait
	redirect, err := hostcall.Wait(ctx, "FetchAuthorizationCode", nil, func(ctx context.Context) (string, error) { return a.config.FetchAuthorizationCode(ctx, request.url) })
	if err != nil {
		required.Reason, required.URL, required.Err = "FetchAuthorizationCode failed", request.url, err
		return required
	}
	// Finish may have received the same redirect, for example from the host's own page.
	if a.takePending(request.state) == nil {
		return a.asAuthRequired(errNotPending)
	}
	err = a.exchangeCode(ctx, request, redirect)
	if notStored := (*notStoredError)(nil); errors.As(err, &notStored) {
		a.warn(err.Error())
		return nil
	}
	return a.asAuthRequired(err)
}

// asAuthRequired makes an error that is not temporary an AuthRequired.
func (a *authorizer) asAuthRequired(err error) error {
	var required *mcpvisor.AuthRequired
	if _, temporary := safehttp.IsTemporary(err); err == nil || temporary || errors.As(err, &required) {
		return err
	}
	return &mcpvisor.AuthRequired{Reason: "no token could be obtained", Resource: safehttp.Redacted(a.http.Server()), Err: err}
}

// rememberScopes stores the scopes that the server missed, so that the next
// authorization requests them, also in another process (MCP, "Step-Up Authorization
// Flow"). nil forgets them.
func (a *authorizer) rememberScopes(ctx context.Context, scopes []string) {
	a.mu.Lock()
	tokens, source := a.tokens, a.source
	a.mu.Unlock()
	if tokens == nil || slices.Equal(tokens.StepUpScopes, scopes) {
		return
	}
	next := tokens.Clone()
	next.StepUpScopes = scopes
	if err := a.save(ctx, next, source); err != nil {
		a.warn(err.Error())
	}
}
