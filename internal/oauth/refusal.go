package oauth

import (
	"net/http"

	"github.com/mcpvisor/mcpvisor/internal/oauth/metadata"
)

// IsInsufficientScope reports whether an answer says that the token is valid and lacks
// scopes (RFC 6750, section 3.1). A step-up authorization can help.
func IsInsufficientScope(status int, h http.Header) bool {
	return status == http.StatusForbidden && metadata.ParseChallenge(h).Code == metadata.CodeInsufficientScope
}

// OffersAuthorization reports whether a refusal names protected resource metadata, so
// that tokens can be obtained by OAuth (RFC 9728, section 5.1).
func OffersAuthorization(h http.Header) bool { return metadata.ParseChallenge(h).MetadataURL != "" }
