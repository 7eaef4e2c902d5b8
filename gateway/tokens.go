package gateway

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// Token is a bearer token of a [Handler], by its hash: the token itself is not kept.
type Token struct {
	// Principal names the owner of the token, as in "ci". Sessions and limits belong to a
	// principal.
	Principal string `json:"principal"`
	// Profile is the name of the profile of the client ([Settings.Profiles]), or several, separated by commas: the path of
	// a request picks one of them, and without a path the first one counts. Empty: everything is offered, or what the path
	// says.
	Profile string `json:"profile,omitempty"`
	// SHA256 is the result of [HashToken].
	SHA256 string `json:"sha256"`
	// Expires is when the token stops being valid. Zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// TokenSet holds the tokens of a [Handler], and changes them while it serves. The zero value has no token.
// Safe for concurrent use. It must not be copied.
type TokenSet struct {
	mu      sync.Mutex // one Set at a time
	current atomic.Pointer[[]*heldToken]
}

// heldToken is a token of a set. revoke ends ctx when the set no longer has the token.
type heldToken struct {
	Token
	ctx    context.Context //nolint:containedctx // it is the life of the token
	revoke context.CancelFunc
}

// Set makes tokens those of the set. Requests with any other token are refused from then on. The streams and
// subscriptions of a token that is no longer there, or has changed, end; its calls in flight continue, and so do the
// sessions of its principal, which another token of the same principal and profile can use. Of tokens with the same hash
// the last one counts.
func (s *TokenSet) Set(tokens ...Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, kept := map[Token]*heldToken{}, map[Token]bool{}
	for _, t := range s.load() {
		all[t.Token] = t
	}
	next := make([]*heldToken, 0, len(tokens))
	for _, t := range tokens {
		t.Expires, t.SHA256 = t.Expires.Round(0).UTC(), strings.ToLower(t.SHA256) // so that == compares them
		held := all[t]
		if held == nil { // a token that is listed twice has one life
			life, revoke := context.WithCancel(context.Background())
			held = &heldToken{Token: t, ctx: life, revoke: revoke}
			all[t] = held
		}
		kept[t] = true
		next = append(next, held)
	}
	s.current.Store(&next)
	for t, held := range all {
		if !kept[t] {
			held.revoke()
		}
	}
}

func (s *TokenSet) load() []*heldToken {
	if held := s.current.Load(); held != nil {
		return *held
	}
	return nil
}

// lifeKey is the member of auth.TokenInfo.Extra that has the ctx of a heldToken.
const lifeKey = "mcpvisor/life"

// verify is an auth.TokenVerifier.
func (s *TokenSet) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	var found *heldToken
	hash := []byte(HashToken(token))
	for _, t := range s.load() {
		if subtle.ConstantTimeCompare(hash, []byte(t.SHA256)) == 1 {
			found = t
		}
	}
	if found == nil {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: found.Principal, Expiration: found.Expires, Extra: map[string]any{ProfileKey: found.Profile, lifeKey: found.ctx}}, nil
}

// WithTokenSet is [WithTokens] with tokens that change while the [Handler] serves. It panics if s is nil.
func WithTokenSet(s *TokenSet) Option {
	if s == nil {
		panic("gateway.WithTokenSet: the set is nil")
	}
	return WithTokenVerifier(s.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
}
