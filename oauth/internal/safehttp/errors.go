package safehttp

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Temporary is an error that may go away by itself: a server that is down, slow or
// overloaded.
type Temporary struct {
	// Err is what failed.
	Err error
	// RetryAfter is how long to wait before the next attempt; 0 if unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (t *Temporary) Error() string { return t.Err.Error() }

// Unwrap returns what failed.
func (t *Temporary) Unwrap() error { return t.Err }

// IsTemporary reports whether err holds a [Temporary], and how long to wait
// before the next attempt.
func IsTemporary(err error) (retryAfter time.Duration, ok bool) {
	var t *Temporary
	if errors.As(err, &t) {
		return t.RetryAfter, true
	}
	return 0, false
}

// ErrNotFound is the error of [Client.GetJSON] when the document does not exist.
var ErrNotFound = errors.New("not found")

// errRedirectRefused is the error of a redirected POST: it carries secrets, which
// must not be sent on to another address.
var errRedirectRefused = errors.New("the answer is a redirect, which is not followed because the request holds secrets")

// blockedError is the error of a request that the checks of this package blocked. It is
// permanent.
type blockedError struct{ err error }

func (b *blockedError) Error() string { return b.err.Error() }
func (b *blockedError) Unwrap() error { return b.err }

// isPermanent reports whether an error of a request stays the same on every
// attempt: the request was blocked, or the peer is not the server it claims to
// be. Every other failure on the way to a server counts as temporary.
func isPermanent(err error) bool {
	var blocked *blockedError
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.As(err, &blocked) || errors.As(err, &certificate) || errors.As(err, &plain) || errors.Is(err, http.ErrSchemeMismatch)
}

// maxRetryAfter bounds the pause that a server may ask for.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads Retry-After as a number of seconds (RFC 9110, section 10.2.3).
// It returns 0 for a date or for anything else.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
}
