package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
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

// need is why a token is renewed, from the least to the most urgent.
type need int

const (
	ahead   need = iota // before its end
	expired             // after it
	refused             // the server does not take it
	more                // the server wants more scopes
)

// flight is one renewal, which everybody waits for who needs it.
type flight struct {
	need need
	done chan struct{}
	// since is when the step under way began; what callers wait is counted from it.
	since atomic.Int64
	// patient: the host has asked to be waited for.
	patient bool
	err     error // set before done is closed
}

func (f *flight) step() { f.since.Store(time.Now().UnixNano()) }

func (f *flight) over() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// failure is a renewal that failed and may succeed later.
type failure struct {
	until time.Time
	pause time.Duration
	err   error
}

// Token returns the token for the next request, or "" if there is none to
// send: the server then says what it wants. It waits only for a token that has
// ended and can be renewed without a person, at most OAuth.Wait. The error is
// an *[Unavailable], or that of ctx.
func (a *Authorizer) Token(ctx context.Context) (string, error) {
	for tries := 0; ; tries++ {
		a.mu.Lock()
		h := a.held
		if h == nil || h.AccessToken == "" || !ended(h, time.Now()) || !a.renewable(h) || tries > 1 {
			a.mu.Unlock()
			if h == nil {
				return "", nil
			}
			return h.AccessToken, nil
		}
		f, err := a.join(expired, h.AccessToken, challenge{})
		a.mu.Unlock()
		if err == nil {
			err = a.await(ctx, f)
		}
		if err != nil {
			return "", err
		}
	}
}

// Renew is told that the server refused a request: with used as its token,
// with 401, or with 403 and insufficient_scope ([WantsMore]). If it returns nil
// there is another token, and the request may be sent again: what was refused
// so was not carried out. The error is a *messages.AuthRequired (only a person
// can help), an *[Unavailable], or that of ctx.
func (a *Authorizer) Renew(ctx context.Context, used string, status int, h http.Header) error {
	c, n := challengeIn(h), refused
	if status == http.StatusForbidden {
		n = more
	}
	a.mu.Lock()
	a.refusal = c
	for {
		if a.held != nil && a.held.AccessToken != "" && a.held.AccessToken != used {
			a.mu.Unlock()
			return nil // somebody has renewed it meanwhile
		}
		f, err := a.join(n, used, c)
		a.mu.Unlock()
		if err != nil {
			return err
		}
		if err := a.await(ctx, f); err != nil && (f.need >= n || !f.over()) {
			return err
		}
		if f.need >= n {
			return nil
		}
		a.mu.Lock() // what was done was less than what is needed
	}
}

// join returns the renewal under way, or begins one. a.mu is held.
func (a *Authorizer) join(n need, used string, c challenge) (*flight, error) {
	if a.flight != nil {
		return a.flight, nil
	}
	if f := a.failed; f != nil && time.Now().Before(f.until) {
		return nil, &Unavailable{RetryAfter: time.Until(f.until), Err: f.err}
	}
	f := &flight{need: n, done: make(chan struct{}), patient: a.oauth.Visit != nil && n >= refused}
	f.step()
	a.flight = f
	life := a.life
	if life == nil {
		life = context.Background()
	}
	go a.fly(life, f, used, c)
	return f, nil
}

func (a *Authorizer) fly(ctx context.Context, f *flight, used string, c challenge) {
	err := errors.New("internal error while renewing a token")
	defer func() {
		if v := recover(); v != nil { // a host's Store or Visit
			err = fmt.Errorf("internal error while renewing a token: %v", v)
		}
		a.mu.Lock()
		f.err = a.verdict(err)
		a.flight = nil
		a.arm()
		a.mu.Unlock()
		close(f.done)
	}()
	err = a.renew(ctx, f, used, c)
}

// verdict makes of the outcome of a renewal what its callers get. a.mu is held.
func (a *Authorizer) verdict(err error) error {
	if err == nil {
		a.failed = nil
		return nil
	}
	var required *messages.AuthRequired
	if errors.As(err, &required) {
		required.Err = a.secrets.clean(required.Err)
		required.Reason = a.Hide(required.Reason)
		return required
	}
	after, _ := mayPass(err)
	f := &failure{pause: firstPause, err: a.secrets.clean(err)}
	if a.failed != nil {
		f.pause = min(2*a.failed.pause, longestPause)
	}
	f.pause = max(f.pause, after)
	f.until = time.Now().Add(f.pause)
	a.failed = f
	return &Unavailable{RetryAfter: f.pause, Err: f.err}
}

// await waits for a renewal: to its end, but no longer than a caller should.
func (a *Authorizer) await(ctx context.Context, f *flight) error {
	for {
		var late <-chan time.Time
		if !f.patient {
			left := time.Until(time.Unix(0, f.since.Load()).Add(a.wait()))
			if left <= 0 {
				if f.over() {
					return f.err
				}
				return &Unavailable{Err: errors.New("the authorization server does not answer; a new token is still being waited for")}
			}
			timer := time.NewTimer(left)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		case <-late: // or a new step has begun
		}
	}
}

// ended reports whether a token is at its end, or as good as.
func ended(h *messages.Authorization, now time.Time) bool {
	return !h.Expires.IsZero() && !now.Before(h.Expires.Add(-min(5*time.Second, h.Expires.Sub(h.Obtained)/10)))
}

// renewable reports whether a new token can be had without anybody.
func (a *Authorizer) renewable(h *messages.Authorization) bool {
	return h.RefreshToken != "" || a.oauth.Alone()
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
	if a.failed != nil && a.failed.until.After(at) {
		at = a.failed.until
	}
	// Calls look after a token that is about to end; a server whose tokens live
	// for no time at all is not asked all the time.
	a.timer = time.AfterFunc(max(time.Until(at), firstPause), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.attached > 0 && a.held == h {
			_, _ = a.join(ahead, h.AccessToken, challenge{})
		}
	})
}

// Held is the token at hand, whatever it is worth; nothing is waited for.
func (a *Authorizer) Held() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		return ""
	}
	return a.held.AccessToken
}
