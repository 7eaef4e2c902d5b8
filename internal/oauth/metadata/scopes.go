package metadata

import "strings"

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
