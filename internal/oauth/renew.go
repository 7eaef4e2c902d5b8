package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

const (
	// patience bounds one renewal. It is longer than anybody waits for it: an
	// answer that comes late may hold a rotated refresh token.
	patience = 30 * time.Second
	// visitTime bounds a host's own visit.
	visitTime = time.Minute
	// firstPause and longestPause bound the pause after a renewal that failed and
	// may succeed later.
	firstPause   = time.Second
	longestPause = time.Minute
)

// need is why a token is renewed, from the least to the most urgent; more is of
// another kind.
type need int

const (
	ahead   need = iota // before its end
	expired             // after it
	refused             // the server does not take it
	more                // the server wants more scopes
)

// flight is one renewal, which everybody waits for whom it serves.
type flight struct {
	need need
	// again: what was refused is what the last renewal for the same request gave.
	again     bool
	challenge challenge
	began     time.Time
	cancel    context.CancelCauseFunc
	// visiting is closed when the host's Visit begins, which asks to be waited for.
	visiting chan struct{}
	done     chan struct{}
	err      error // set before done is closed
}

// serves reports whether the outcome of a renewal is that of another need, too.
// A step-up leaves the token alone and says nothing about it.
func (f *flight) serves(n need, c challenge) bool {
	if f.need == more || n == more {
		return f.need == n && covers(f.challenge.scopes, c.scopes)
	}
	return f.need >= n
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// within waits for the end of a flight, up to a limit.
func (f *flight) within(limit time.Duration) {
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
	}
}

// failure is a renewal that failed. It is not tried again at once, whoever asks.
type failure struct {
	flight *flight
	until  time.Time
	pause  time.Duration
	err    error
	final  bool // an AuthRequired, for those whom the flight served
}

// Token returns the token for the next request, or "" if there is none to
// send: the server then says what it wants. It waits only for a token that has
// ended and can be renewed without a person, at most OAuth.TokenWait. The error is
// as of [Authorizer.Renew].
func (a *Authorizer) Token(ctx context.Context) (string, error) {
	a.mu.Lock()
	h := a.held
	a.mu.Unlock()
	if h == nil {
		return "", nil
	}
	if h.AccessToken == "" || !ended(h, time.Now()) || !a.renewable(h) {
		return h.AccessToken, nil
	}
	if err := a.another(ctx, &flight{need: expired}, h.AccessToken); err != nil {
		return "", err
	}
	return a.AccessToken(), nil
}

// Renew is told that the server refused a request: with used as its token,
// with 401, or with 403 and insufficient_scope ([WantsMore]). again means that
// used came from a renewal for the same request. If it returns nil there may be
// another token, and the request may be sent again: what was refused so was not
// carried out. The error is a *mcpvisor.AuthRequired (only a person can help), an
// *[Unavailable], or that of ctx.
func (a *Authorizer) Renew(ctx context.Context, used string, again bool, status int, h http.Header) error {
	f := &flight{need: refused, again: again, challenge: challengeIn(h)}
	if status == http.StatusForbidden {
		f.need = more
	}
	a.mu.Lock()
	a.refusal = f.challenge
	a.mu.Unlock()
	return a.another(ctx, f, used)
}

// another waits for another token than used. The flight says what for, and is
// the one that is begun if none is under way.
func (a *Authorizer) another(ctx context.Context, wanted *flight, used string) error {
	late := time.Now().Add(a.wait())
	for {
		a.mu.Lock()
		if h := a.held; h != nil && h.AccessToken != "" && h.AccessToken != used {
			a.mu.Unlock()
			return nil // somebody has renewed it meanwhile
		}
		f, err := a.join(wanted, used)
		a.mu.Unlock()
		if err != nil {
			return err
		}
		err = a.await(ctx, f, late)
		if err != nil && !isClosed(f.done) || f.serves(wanted.need, wanted.challenge) {
			return err
		}
	}
}

// join returns the renewal under way, or begins the one that is wanted. a.mu is
// held.
func (a *Authorizer) join(wanted *flight, used string) (*flight, error) {
	if a.flight != nil {
		return a.flight, nil
	}
	if f := a.failed; f != nil && time.Now().Before(f.until) {
		switch {
		case !f.final:
			return nil, &Unavailable{RetryAfter: time.Until(f.until), Err: f.err}
		case f.flight.serves(wanted.need, wanted.challenge):
			return nil, f.err
		}
	}
	life := a.life
	if life == nil {
		life = context.Background()
	}
	f := &flight{need: wanted.need, again: wanted.again, challenge: wanted.challenge,
		began: time.Now(), visiting: make(chan struct{}), done: make(chan struct{})}
	life, f.cancel = context.WithCancelCause(life)
	a.flight = f
	go a.fly(life, f, used)
	return f, nil
}

func (a *Authorizer) fly(ctx context.Context, f *flight, used string) {
	err := errors.New("internal error while renewing a token")
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error while renewing a token: %v", v)
		}
		toldToEnd := ctx.Err() != nil
		f.cancel(nil)
		a.mu.Lock()
		f.err = a.verdict(f, err)
		if a.flight = nil; toldToEnd {
			a.failed = nil // it says nothing about the server
		}
		a.arm()
		a.mu.Unlock()
		close(f.done)
	}()
	err = a.renew(ctx, f, used)
}

// verdict makes of the outcome of a renewal what its callers get. a.mu is held.
func (a *Authorizer) verdict(f *flight, err error) error {
	if err == nil {
		a.failed = nil
		return nil
	}
	v := &failure{flight: f, pause: firstPause}
	var required *mcpvisor.AuthRequired
	if v.final = errors.As(err, &required); v.final {
		required.Err = a.secrets.clean(required.Err)
		required.Reason = a.Redact(required.Reason)
		v.err = required
	} else {
		after, _ := mayPass(err)
		if a.failed != nil && !a.failed.final {
			v.pause = min(2*a.failed.pause, longestPause)
		}
		v.pause = max(v.pause, after)
		v.err = a.secrets.clean(err)
	}
	v.until = time.Now().Add(v.pause)
	a.failed = v
	if v.final {
		return v.err
	}
	return &Unavailable{RetryAfter: v.pause, Err: v.err}
}

// await waits for a renewal: to its end, but no longer than a caller should. What
// has begun before he came counts as well.
func (a *Authorizer) await(ctx context.Context, f *flight, late time.Time) error {
	if early := f.began.Add(a.wait()); early.Before(late) {
		late = early
	}
	timer := time.NewTimer(time.Until(late))
	defer timer.Stop()
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		if !isClosed(f.done) && !isClosed(f.visiting) {
			return &Unavailable{Err: errors.New("the authorization server does not answer; a new token is still being waited for")}
		}
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended reports whether a token is at its end, or as good as.
func ended(h *mcpvisor.Authorization, now time.Time) bool {
	return !h.Expires.IsZero() && passed(h.Expires.Add(-min(5*time.Second, h.Expires.Sub(h.Obtained)/10)), now)
}

// renewable reports whether a new token can be had without anybody.
func (a *Authorizer) renewable(h *mcpvisor.Authorization) bool {
	return h.RefreshToken != "" || a.oauth.Unattended()
}

// arm sets the timer for the next renewal ahead. a.mu is held.
func (a *Authorizer) arm() {
	if a.timer != nil {
		a.timer.Stop()
	}
	h := a.held
	if a.attached == 0 || a.flight != nil || h == nil || h.AccessToken == "" || h.Expires.IsZero() || !a.renewable(h) {
		return
	}
	at := h.Expires.Add(-min(5*time.Minute, h.Expires.Sub(h.Obtained)/5))
	if f := a.failed; f != nil {
		if f.final && f.flight.serves(ahead, challenge{}) {
			return // nobody hears it, and nothing has changed
		}
		if f.until.After(at) {
			at = f.until
		}
	}
	// Calls look after a token that is about to end; a server whose tokens live
	// for no time at all is not asked all the time.
	a.timer = time.AfterFunc(max(time.Until(at), firstPause), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.attached > 0 && a.held == h {
			_, _ = a.join(&flight{need: ahead}, h.AccessToken)
		}
	})
}

// AccessToken is the token at hand, whatever it is worth; nothing is waited for.
func (a *Authorizer) AccessToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		return ""
	}
	return a.held.AccessToken
}
