package metadata

import (
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Challenge is what a server says in WWW-Authenticate when it refuses a request
// (RFC 6750, section 3; RFC 9728, section 5.1).
type Challenge struct {
	// Received is false as long as the server has refused no request.
	Received bool
	// MetadataURL is resource_metadata: where the protected resource metadata is.
	MetadataURL string
	// Scopes are those that the request needs.
	Scopes []string
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
