package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/oauth/metadata"
)

// Unavailable is the error of a token that cannot be obtained now and may be later:
// the authorization server is slow, down or unreachable.
type Unavailable struct {
	// RetryAfter is how long to wait before the next attempt; 0 if unknown.
	RetryAfter time.Duration
	// Err is what failed.
	Err error
}

// Error implements error.
func (u *Unavailable) Error() string { return "no token can be obtained now: " + u.Err.Error() }

// Unwrap returns what failed.
func (u *Unavailable) Unwrap() error { return u.Err }

// errorResponse is the error of an OAuth endpoint (RFC 6749, sections 4.1.2.1 and 5.2;
// RFC 7591, section 3.2.2).
type errorResponse struct {
	code        string
	description string
}

// newErrorResponse returns an error response short enough for an error text. It
// redacts before it shortens, because a part of a secret is no longer recognized.
func (a *Authorizer) newErrorResponse(code, description string) *errorResponse {
	if len(code)+len(description) > display.MaxQuoteBytes {
		code, description = display.Shorten(a.Redact(code), display.MaxQuoteBytes), display.Shorten(a.Redact(description), display.MaxQuoteBytes)
	}
	return &errorResponse{code, description}
}

// Error implements error.
func (r *errorResponse) Error() string {
	if r.description == "" {
		return r.code
	}
	return fmt.Sprintf("%s (%s)", r.code, r.description)
}

// errorCodeOf returns the code of the error response in err, or "".
func errorCodeOf(err error) string {
	var r *errorResponse
	if errors.As(err, &r) {
		return r.code
	}
	return ""
}

// statusError is an answer of the token endpoint that holds nothing but its status.
type statusError struct{ status int }

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("the token endpoint answered HTTP %d", e.status)
}

// isGone reports whether the token endpoint does not exist any more at its address.
func isGone(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status == http.StatusGone)
}

// notStoredError means that a token was obtained, and is lost when this process ends.
type notStoredError struct{ err error }

// Error implements error.
func (e *notStoredError) Error() string { return "the token could not be stored: " + e.err.Error() }

// Unwrap returns the error of the store.
func (e *notStoredError) Unwrap() error { return e.err }

// IsInsufficientScope reports whether an answer says that the token is valid and lacks
// scopes (RFC 6750, section 3.1). A step-up authorization can help.
func IsInsufficientScope(status int, h http.Header) bool {
	return status == http.StatusForbidden && metadata.ParseChallenge(h).Code == metadata.CodeInsufficientScope
}

// OffersAuthorization reports whether a refusal names protected resource metadata, so
// that tokens can be obtained by OAuth (RFC 9728, section 5.1).
func OffersAuthorization(h http.Header) bool { return metadata.ParseChallenge(h).MetadataURL != "" }
