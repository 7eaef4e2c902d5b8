package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Unavailable says that a token cannot be had at the moment, for a reason that
// may pass: the authorization server is slow, down or unreachable.
type Unavailable struct {
	// RetryAfter is when it is worth asking again; 0 if nothing is known.
	RetryAfter time.Duration
	Err        error
}

// Error implements error.
func (u *Unavailable) Error() string { return "no token can be had at the moment: " + u.Err.Error() }

// Unwrap returns the reason.
func (u *Unavailable) Unwrap() error { return u.Err }

// passing marks an error that may pass by itself.
type passing struct {
	err   error
	after time.Duration
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// mayPass reports whether an error may pass by itself, and when.
func mayPass(err error) (after time.Duration, ok bool) {
	var p *passing
	if errors.As(err, &p) {
		return p.after, true
	}
	return 0, false
}

// refusal is the error answer of an OAuth endpoint (RFC 6749, section 5.2).
type refusal struct {
	code        string
	description string
}

// maxShownBytes bounds a foreign text in an error.
const maxShownBytes = 500

// shown is a foreign text, cut to what an error may hold.
func shown(text string) string {
	if len(text) <= maxShownBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
}

// refused makes a refusal. It redacts before it cuts: half a secret is not found
// any more.
func (a *Authorizer) refused(code, description string) *refusal {
	if len(code)+len(description) > maxShownBytes {
		code, description = shown(a.Redact(code)), shown(a.Redact(description))
	}
	return &refusal{code, description}
}

func (r *refusal) Error() string {
	if r.description == "" {
		return r.code
	}
	return fmt.Sprintf("%s (%s)", r.code, r.description)
}

// refusedWith is the code of the refusal in err, or "".
func refusedWith(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return ""
}

// answered is an answer that says nothing but its status.
type answered struct{ status int }

func (a *answered) Error() string {
	return fmt.Sprintf("the token endpoint answered HTTP %d", a.status)
}

// hasMoved reports whether there is nothing any more where a request went to.
func hasMoved(err error) bool {
	var a *answered
	return errors.As(err, &a) && (a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed || a.status == http.StatusGone)
}

// errSpoiled: what is stored can be read by nobody, now or later.
var errSpoiled = errors.New("the tokens cannot be read")

// unstored: there is a token, and it will be lost with this process.
type unstored struct{ err error }

func (u *unstored) Error() string { return "the token could not be kept: " + u.err.Error() }
func (u *unstored) Unwrap() error { return u.err }
