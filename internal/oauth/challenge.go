package oauth

import (
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// challenge is what a server says beside a refusal (RFC 6750, section 3, and
// RFC 9728, section 5.1).
type challenge struct {
	heard    bool // there was a refusal
	metadata string
	scopes   []string
	code     string
	text     string
}

const (
	// maxChallengeBytes and maxChallengeParts bound what is read of the headers
	// WWW-Authenticate of one response, the latter in commas: the time to parse
	// them is the product of both.
	maxChallengeBytes = 16 << 10
	maxChallengeParts = 128
	// maxScopes and maxScopeBytes bound one list of scopes. A longer one fits into
	// no authorization URL.
	maxScopes     = 1000
	maxScopeBytes = 32 << 10
)

// challengeIn reads the headers WWW-Authenticate. One that cannot be read does
// not spoil the others. One that is too much together with those before it is
// ignored.
func challengeIn(h http.Header) challenge {
	c := challenge{heard: true}
	bytes, parts := maxChallengeBytes, maxChallengeParts
	for _, value := range h.Values("WWW-Authenticate") {
		n := 1 + strings.Count(value, ",")
		if len(value) > bytes || n > parts {
			continue
		}
		bytes, parts = bytes-len(value), parts-n
		list, err := oauthex.ParseWWWAuthenticate([]string{value})
		if err != nil {
			continue
		}
		for _, one := range list {
			if one.Scheme != "bearer" && one.Scheme != "dpop" {
				continue
			}
			first := func(into *string, name string) {
				if *into == "" {
					*into = one.Params[name]
				}
			}
			first(&c.metadata, "resource_metadata")
			first(&c.code, "error")
			first(&c.text, "error_description")
			if one.Params["scope"] != "" && c.scopes == nil {
				c.scopes = scopesIn(one.Params["scope"])
			}
		}
	}
	return c
}

// insufficientScope: the token is good, and not good enough.
const insufficientScope = "insufficient_scope"

// IsInsufficientScope reports whether a refusal says that the token lacks scopes.
func IsInsufficientScope(status int, h http.Header) bool {
	return status == http.StatusForbidden && challengeIn(h).code == insufficientScope
}

// OffersAuthorization reports whether a refusal says that tokens can be had by OAuth.
func OffersAuthorization(h http.Header) bool { return challengeIn(h).metadata != "" }

// scopesIn splits a list of scopes and bounds it.
func scopesIn(text string) []string { return union(strings.Fields(text)) }

// union is the scopes of all lists, each once, in their order. It ends at
// maxScopes and maxScopeBytes.
func union(lists ...[]string) (all []string) {
	seen := make(map[string]bool)
	left := maxScopeBytes
	for _, list := range lists {
		for _, scope := range list {
			if seen[scope] {
				continue
			}
			if left -= len(scope) + 1; left < 0 || len(all) == maxScopes {
				return all
			}
			seen[scope] = true
			all = append(all, scope)
		}
	}
	return all
}

// covers reports whether every wanted scope is held.
func covers(held, wanted []string) bool {
	if len(wanted) == 0 {
		return true
	}
	have := make(map[string]bool, len(held))
	for _, scope := range held {
		have[scope] = true
	}
	for _, scope := range wanted {
		if !have[scope] {
			return false
		}
	}
	return true
}
