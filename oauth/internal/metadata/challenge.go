package metadata

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Challenge holds the header WWW-Authenticate of a server when it refuses a request
// (RFC 6750, section 3; RFC 9728, section 5.1).
type Challenge struct {
	// Received is false as long as the server has refused no request.
	Received bool
	// MetadataURL is resource_metadata: where the protected resource metadata is.
	MetadataURL string
	// Scopes are those that the request needs.
	Scopes []string
	// DPoP: the server accepts DPoP proofs with ES256 (RFC 9449, section 7.1).
	DPoP bool
	// Code and Description are error and error_description.
	Code        string
	Description string
}

// CodeInsufficientScope is the error code of a valid token that lacks scopes (RFC
// 6750, section 3.1). It starts the step-up authorization of MCP.
const CodeInsufficientScope = "insufficient_scope"

const (
	// maxChallengeBytes and maxChallengeParts bound what is read of the
	// WWW-Authenticate headers of one response. Parts are separated by commas. The
	// time to parse them grows with the product of both.
	maxChallengeBytes = 16 << 10
	maxChallengeParts = 128
)

// ParseChallenge reads the headers WWW-Authenticate. A header that cannot be
// parsed, or that exceeds the bounds together with those before it, is skipped.
func ParseChallenge(h http.Header) Challenge {
	c := Challenge{Received: true}
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
			// RFC 9449, section 7.1: servers with DPoP send the same parameters there.
			if one.Scheme != "bearer" && one.Scheme != "dpop" {
				continue
			}
			// RFC 9449, section 7.1: without algs, any algorithm will do.
			if algs := one.Params["algs"]; one.Scheme == "dpop" && (algs == "" || slices.Contains(strings.Fields(algs), dpopAlg)) {
				c.DPoP = true
			}
			// Of several challenges the first one that has a parameter counts.
			first := func(into *string, name string) {
				if *into == "" {
					*into = one.Params[name]
				}
			}
			first(&c.MetadataURL, "resource_metadata")
			first(&c.Code, "error")
			first(&c.Description, "error_description")
			if one.Params["scope"] != "" && c.Scopes == nil {
				c.Scopes = ParseScopes(one.Params["scope"])
			}
		}
	}
	return c
}

// Err returns the reason that the server gave for its refusal; nil if it gave none.
func (c Challenge) Err() error {
	switch {
	case c.Description != "":
		return errors.New(c.Description)
	case c.Code != "":
		return errors.New(c.Code)
	}
	return nil
}

const (
	// maxScopes and maxScopeBytes bound one list of scopes. A longer list does not
	// fit into an authorization URL.
	maxScopes     = 1000
	maxScopeBytes = 32 << 10
)

// ParseScopes splits a scope parameter at its spaces (RFC 6749, section 3.3). The
// list is bounded.
func ParseScopes(text string) []string { return UnionScopes(strings.Fields(text)) }

// UnionScopes returns the scopes of all lists in their order, each scope once. The
// list is bounded.
func UnionScopes(lists ...[]string) (all []string) {
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

// CoverScopes reports whether granted holds every needed scope.
func CoverScopes(granted, needed []string) bool {
	if len(needed) == 0 {
		return true
	}
	have := make(map[string]bool, len(granted))
	for _, scope := range granted {
		have[scope] = true
	}
	for _, scope := range needed {
		if !have[scope] {
			return false
		}
	}
	return true
}
