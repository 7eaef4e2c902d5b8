package auth

import (
	"net/http"
	"slices"
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

// challengeIn reads the headers WWW-Authenticate. One that cannot be read does
// not spoil the others.
func challengeIn(h http.Header) challenge {
	c := challenge{heard: true}
	for _, value := range h.Values("WWW-Authenticate") {
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
				c.scopes = strings.Fields(one.Params["scope"])
			}
		}
	}
	return c
}

// insufficientScope: the token is good, and not good enough.
const insufficientScope = "insufficient_scope"

// WantsMore reports whether a refusal says that the token lacks scopes.
func WantsMore(status int, h http.Header) bool {
	return status == http.StatusForbidden && challengeIn(h).code == insufficientScope
}

// Offers reports whether a refusal says that tokens can be had by OAuth.
func Offers(h http.Header) bool { return challengeIn(h).metadata != "" }

// union is the scopes of all lists, each once, in their order.
func union(lists ...[]string) (all []string) {
	for _, list := range lists {
		for _, scope := range list {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}

// covers reports whether every wanted scope is held.
func covers(held, wanted []string) bool {
	for _, scope := range wanted {
		if !slices.Contains(held, scope) {
			return false
		}
	}
	return true
}
