package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// renewalTimeout bounds one renewal. It is longer than any caller waits, because a late
// answer may hold a rotated refresh token.
const renewalTimeout = 30 * time.Second

// retryPause is the pause after a failed renewal.
var retryPause = backoff.Backoff{First: time.Second, Max: time.Minute}

// trigger is why a token is renewed. The first three are ordered by urgency;
// triggerScopes stands apart, because it says nothing about the token itself.
type trigger int

const (
	triggerAhead    trigger = iota // the token expires soon
	triggerExpired                 // the token has expired
	triggerRejected                // the server rejected the token (401)
	triggerScopes                  // the server needs more scopes (403, insufficient_scope)
)

// reason is why another token is needed.
type reason struct {
	trigger trigger
	// repeated: the rejected token came from a renewal for the same request.
	repeated  bool
	challenge metadata.Challenge // of the refused request; zero for the first two triggers
}

// coveredBy reports whether the outcome of a renewal for another reason is also the
// outcome for this one. A step-up keeps the token, so it neither covers the other triggers
// nor is covered by them.
func (why reason) coveredBy(other reason) bool {
	if why.trigger == triggerScopes || other.trigger == triggerScopes {
		return why.trigger == other.trigger && metadata.CoverScopes(other.challenge.Scopes, why.challenge.Scopes)
	}
	return other.trigger >= why.trigger
}

// renewal is one attempt to get another token. It runs in a goroutine of its own,
// and every caller whose reason it covers waits for it. All fields but err are
// set before the goroutine starts.
type renewal struct {
	reason reason
	began  time.Time
	cancel context.CancelCauseFunc
	// fetching is closed when the host's FetchAuthorizationCode is called. Callers
	// then wait for it beyond Config.TokenWait.
	fetching chan struct{}
	// done is closed at the end; err is set before.
	done chan struct{}
	err  error
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitDone waits for the end of the renewal, at most for limit.
func (r *renewal) waitDone(limit time.Duration) {
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	}
}

// failure is the outcome of a failed renewal. Until its pause is over it is the
// outcome of further requests, and nothing is sent.
type failure struct {
	renewal *renewal
	until   time.Time
	pause   time.Duration
	err     error
	// permanent: err is an AuthRequired. It is the outcome of those requests only whose
	// reason the renewal covers.
	permanent bool
}

// token returns the access token for the next request, or "" without a token. The server
// then answers with a challenge. token waits only if the token has expired
// and can be renewed without the user, at most for Config.TokenWait. Errors are
// those of [authorizer.renewRefused].
func (a *authorizer) token(ctx context.Context) (string, error) {
	a.mu.Lock()
	tokens := a.tokens
	a.mu.Unlock()
	// The first request goes out without a token: its challenge says where the metadata
	// is and which scopes are needed (RFC 9728, section 5.1).
	if tokens == nil {
		return "", nil
	}
	// A token that cannot be renewed is sent even after its expiry: the server decides.
	if tokens.AccessToken == "" || !isExpired(tokens, time.Now()) || !a.isRenewable(tokens) {
		return tokens.AccessToken, nil
	}
	err := a.awaitOtherToken(ctx, reason{trigger: triggerExpired}, tokens.AccessToken)
	if err != nil && !errors.Is(err, errTooManyRenewals) { // then the server decides, too
		return "", err
	}
	return a.accessToken(), nil
}

// renewRefused gets another token after the server rejected a request that carried the
// token used: with 401, or with 403 and insufficient_scope ([isInsufficientScope]).
// repeated means that used came from a renewal for the same request. After nil the
// request may be sent again, because the server did not execute it. The error is a
// *mcpvisor.AuthRequired if the user is needed, an *mcpvisor.AuthUnavailable, or that of ctx.
func (a *authorizer) renewRefused(ctx context.Context, used string, repeated bool, status int, h http.Header) error {
	// RFC 6750, section 3.1: 401 means that the token is missing or not valid, 403 that
	// it lacks scopes.
	why := reason{trigger: triggerRejected, repeated: repeated, challenge: metadata.ParseChallenge(h)}
	if status == http.StatusForbidden {
		why.trigger = triggerScopes
	}
	a.mu.Lock()
	a.challenge = why.challenge
	a.mu.Unlock()
	return a.awaitOtherToken(ctx, why, used)
}

// awaitOtherToken waits until the current token is another one than used.
func (a *authorizer) awaitOtherToken(ctx context.Context, why reason, used string) error {
	deadline := time.Now().Add(a.tokenWait())
	// Each round waits for one renewal. If that was for another reason, the next round
	// starts another one.
	for {
		a.mu.Lock()
		if t := a.tokens; t != nil && t.AccessToken != "" && t.AccessToken != used {
			a.mu.Unlock()
			return nil // renewed by another caller
		}
		r, err := a.joinRenewal(why, used)
		a.mu.Unlock()
		if err != nil {
			return err
		}
		err = a.awaitRenewal(ctx, r, deadline)
		// The wait itself failed (r is not done), or the outcome is this caller's, too.
		if err != nil && !isClosed(r.done) || why.coveredBy(r.reason) {
			return err
		}
	}
}

// joinRenewal returns the renewal that runs, for whatever reason, or starts one. The
// caller holds a.mu.
func (a *authorizer) joinRenewal(why reason, used string) (*renewal, error) {
	if a.renewal != nil {
		return a.renewal, nil
	}
	if f := a.lastFailure; f != nil && time.Now().Before(f.until) {
		switch {
		case !f.permanent: // the authorization server is not asked again so soon
			return nil, unavailable(time.Until(f.until), f.err)
		case why.coveredBy(f.renewal.reason):
			return nil, f.err
		}
	}
	if wait := a.takeRenewal(time.Now()); wait > 0 {
		if f := a.lastFailure; f != nil && f.permanent && why.coveredBy(f.renewal.reason) {
			return nil, f.err // the user is still needed
		}
		return nil, unavailable(wait, errTooManyRenewals)
	}
	// The renewal ends with the last session. It must not use the context of a caller,
	// which may leave while others still wait.
	ctx := a.lifetime
	if ctx == nil { // no session was ever attached
		ctx = context.Background()
	}
	r := &renewal{reason: why, began: time.Now(), fetching: make(chan struct{}), done: make(chan struct{})}
	ctx, r.cancel = context.WithCancelCause(ctx)
	a.renewal = r
	go a.runRenewal(ctx, r, used)
	return r, nil
}

// A server decides how often a token is renewed: by the lifetime of its tokens, by rejecting
// them, by asking for more scopes. renewalBurst renewals may start at once, and another one
// every renewalInterval.
const (
	renewalBurst    = 10
	renewalInterval = 10 * time.Second
)

// errTooManyRenewals is the error of a request that needs another token too soon.
var errTooManyRenewals = fmt.Errorf("the server has needed another token %d times within a short time; "+
	"check the lifetime and the scopes of the tokens that its authorization server issues, and the clocks of both", renewalBurst)

// takeRenewal counts the start of a renewal. If there were too many, it returns how long to
// wait for the next one. The caller holds a.mu.
func (a *authorizer) takeRenewal(now time.Time) (wait time.Duration) {
	if !a.renewalsCounted.IsZero() {
		gained := now.Sub(a.renewalsCounted).Seconds() / renewalInterval.Seconds()
		a.renewalsLeft = min(a.renewalsLeft+max(gained, 0), renewalBurst)
	}
	a.renewalsCounted = now
	if a.renewalsLeft < 1 {
		return time.Duration((1 - a.renewalsLeft) * float64(renewalInterval))
	}
	a.renewalsLeft--
	return 0
}

// runRenewal is the goroutine of a renewal. A panic is the error of the renewal.
func (a *authorizer) runRenewal(ctx context.Context, r *renewal, used string) {
	err := errors.New("internal error while renewing a token")
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error while renewing a token: %v", v)
		}
		canceled := ctx.Err() != nil // by Detach or Forget; read before the next line
		r.cancel(nil)
		a.mu.Lock()
		r.err = a.recordOutcome(r, err)
		if a.renewal = nil; canceled {
			a.lastFailure = nil // it says nothing about the server
		}
		a.scheduleRenewal()
		a.mu.Unlock()
		close(r.done)
	}()
	err = a.renew(ctx, r, used)
}

// recordOutcome notes the outcome of a renewal and returns what its callers get.
// The caller holds a.mu.
func (a *authorizer) recordOutcome(r *renewal, err error) error {
	if err == nil {
		a.lastFailure = nil
		return nil
	}
	f := &failure{renewal: r, pause: retryPause.First}
	// Errors reach users and logs, so they must not hold a secret.
	var required *mcpvisor.AuthRequired
	if f.permanent = errors.As(err, &required); f.permanent {
		own := *required // the host may have made it, in FetchAssertion
		own.Err, own.Reason = a.redactor.redactError(required.Err), a.Redact(required.Reason)
		f.err = &own
	} else {
		retryAfter, _ := safehttp.IsTemporary(err)
		if a.lastFailure != nil && !a.lastFailure.permanent {
			f.pause = retryPause.Next(a.lastFailure.pause)
		}
		f.pause = max(f.pause, retryAfter)
		f.err = a.redactor.redactError(err)
	}
	f.until = time.Now().Add(f.pause)
	a.lastFailure = f
	// An AuthRequired is returned as it is, so that errors.As finds its URL.
	if f.permanent {
		return f.err
	}
	return unavailable(f.pause, f.err)
}

// awaitRenewal waits for a renewal, until deadline at most. The time that the
// renewal ran before this caller came counts as well.
func (a *authorizer) awaitRenewal(ctx context.Context, r *renewal, deadline time.Time) error {
	if earlier := r.began.Add(a.tokenWait()); earlier.Before(deadline) {
		deadline = earlier
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		// FetchAuthorizationCode may take its minute; no other step may delay the
		// call longer.
		if !isClosed(r.done) && !isClosed(r.fetching) {
			return unavailable(0, errors.New("the authorization server has not answered yet; the token request continues in the background"))
		}
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isExpired reports whether an access token has expired, or will while a request is
// on its way. Tokens with a short lifetime get a smaller margin.
func isExpired(t *authorization, now time.Time) bool {
	return !t.Expires.IsZero() && reached(t.Expires.Add(-min(5*time.Second, t.Expires.Sub(t.Obtained)/10)), now)
}

// isRenewable reports whether a new token can be obtained without the user.
func (a *authorizer) isRenewable(t *authorization) bool {
	return t.RefreshToken != "" || unattended(&a.config)
}

// scheduleRenewal sets the timer for the renewal ahead of the expiry. The caller
// holds a.mu.
func (a *authorizer) scheduleRenewal() {
	if a.renewTimer != nil {
		a.renewTimer.Stop()
	}
	t := a.tokens
	// The end of a renewal and each new token call this function again.
	if a.sessions == 0 || a.renewal != nil || t == nil || t.AccessToken == "" || t.Expires.IsZero() || !a.isRenewable(t) {
		return
	}
	// Five minutes ahead, or after four fifths of a short lifetime.
	due := t.Expires.Add(-min(5*time.Minute, t.Expires.Sub(t.Obtained)/5))
	if f := a.lastFailure; f != nil {
		if f.permanent && (reason{trigger: triggerAhead}).coveredBy(f.renewal.reason) {
			return // another attempt would fail as well
		}
		if f.until.After(due) {
			due = f.until
		}
	}
	// The minimum protects a server whose tokens have hardly any lifetime. Calls
	// renew a token that expires before the timer fires.
	a.renewTimer = time.AfterFunc(max(time.Until(due), retryPause.First), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.sessions > 0 && a.tokens == t {
			_, _ = a.joinRenewal(reason{trigger: triggerAhead}, t.AccessToken)
		}
	})
}

// accessToken returns the current access token, even if it has expired, or "" without a
// token. It never waits.
func (a *authorizer) accessToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens == nil {
		return ""
	}
	return a.tokens.AccessToken
}

// Go compares two times by the monotonic clock if both have a reading of it. That clock
// stands still while the machine is suspended, and the wall clock may be set back. A token or
// an authorization request expires on the server's clock in both cases, so reached and
// elapsed use the clock that is ahead.

// reached reports whether the time t has come, by either clock.
func reached(t, now time.Time) bool {
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// elapsed returns the time from t to now, by the clock that shows more.
func elapsed(t, now time.Time) time.Duration {
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// unavailable is the error of a token that cannot be obtained now and may be later: the
// authorization server is slow, down or unreachable.
func unavailable(retryAfter time.Duration, err error) *mcpvisor.AuthUnavailable {
	return &mcpvisor.AuthUnavailable{RetryAfter: retryAfter, Err: fmt.Errorf("no token can be obtained now: %w", err)}
}
