package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/internal/loopback"
)

// WithTokenVerifier makes a [Handler] require a bearer token. verify returns whose token it is:
// TokenInfo.UserID is the principal, and must not be empty. Its error wraps
// auth.ErrInvalidToken if the token is not valid (401), or auth.ErrOAuth (400). Any other error says that
// the token cannot be checked at the moment (503). verify is called for each request, by many
// goroutines at once. details may be nil; see auth.RequireBearerToken. Of several WithTokenVerifier
// and [WithTokens] the last one counts. Default: no token, and then only this machine is served.
func WithTokenVerifier(verify auth.TokenVerifier, details *auth.RequireBearerTokenOptions) Option {
	return func(o *options) { o.verify, o.verifyDetails = verify, details }
}

// requireToken passes requests with a valid token on to inner. A token that cannot be checked at the
// moment is answered with 503.
func requireToken(o *options, inner http.Handler) http.Handler {
	checked := auth.RequireBearerToken(o.verify, o.verifyDetails)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w.(verdict).ResponseWriter, r) //nolint:forcetypeassert // it is the one below
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { checked.ServeHTTP(verdict{w}, r) })
}

// verdict writes the answer to a request whose token is not valid, or cannot be checked.
type verdict struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter. The go-sdk answers with 500 if a verifier fails.
func (v verdict) WriteHeader(status int) {
	if status == http.StatusInternalServerError {
		status = http.StatusServiceUnavailable
		v.Header().Set("Retry-After", "1")
	}
	v.ResponseWriter.WriteHeader(status)
}

// tokenWriter counts the requests that are refused for want of a valid token.
type tokenWriter struct {
	http.ResponseWriter
	clients *clients.Registry
}

// WriteHeader implements http.ResponseWriter.
func (w tokenWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		w.clients.Refuse(clients.RefusedToken)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Token is a bearer token of a [Handler], by its hash: the token itself is not kept.
type Token struct {
	// Principal names the owner of the token, as in "ci". Sessions and limits belong to a
	// principal.
	Principal string `json:"principal"`
	// Profile is the name of the profile of the client ([Settings.Profiles]). Empty: everything is
	// offered, or what the path of a request says.
	Profile string `json:"profile,omitempty"`
	// SHA256 is the result of [HashToken].
	SHA256 string `json:"sha256"`
}

// NewToken returns a random token of 52 letters and digits, for [WithTokens].
func NewToken() string { return rand.Text() + rand.Text() }

// HashToken returns the SHA-256 of a token in hexadecimal, to be stored in place of the token.
// Tokens must be random, as those of [NewToken]: a token made of words can be guessed from its
// hash.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// WithTokens makes a [Handler] require one of the tokens, in the header "Authorization: Bearer
// TOKEN":
//
//	token := gateway.NewToken() // give it to the user, store its hash
//	handler := gateway.Handler(client, gateway.WithTokens(
//		gateway.Token{Principal: "ci", SHA256: gateway.HashToken(token)}))
//
// It is [WithTokenVerifier] with a verifier that compares hashes in constant time. A hash that
// [HashToken] did not make matches no token. Without any token every request is refused.
func WithTokens(tokens ...Token) Option {
	tokens = slices.Clone(tokens)
	return WithTokenVerifier(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		hash, found := []byte(HashToken(token)), -1
		for i, t := range tokens {
			if subtle.ConstantTimeCompare(hash, []byte(strings.ToLower(t.SHA256))) == 1 {
				found = i
			}
		}
		if found < 0 {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: tokens[found].Principal, Extra: map[string]any{ProfileKey: tokens[found].Profile}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
}

// WithHosts sets the names that the Host header of a request may have besides those of this
// machine, without port. Default: any name if tokens are required, otherwise only those of this
// machine.
func WithHosts(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			o.hosts = append(o.hosts, loopback.HostName(name))
		}
	}
}

// WithOrigins sets the web sites whose pages may use a [Handler], as in "http://localhost:6274".
// Default: only pages of the handler's own host, which browsers name in the Origin header.
func WithOrigins(origins ...string) Option {
	return func(o *options) { o.origins = append(o.origins, origins...) }
}

// singleHeaders may be there once: of two values, a proxy may take another one than the gateway does.
var singleHeaders = []string{"Authorization", "Content-Encoding", "Content-Type", "Origin", http.CanonicalHeaderKey(eventHeader)}

// repeated returns a header that must be there once, and is there more often, or under a name that some readers
// take for the same (Mcp_Name); empty: none is.
func repeated(h http.Header) string {
	for name, values := range h {
		plain := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if (len(values) > 1 || plain != name) && (strings.HasPrefix(plain, "Mcp-") || slices.Contains(singleHeaders, plain)) {
			return name
		}
	}
	return ""
}

// refuse decides whether a request may be served, tokens aside. A status of 0 means yes.
func (o *options) refuse(r *http.Request) (status int, why string) {
	if name := repeated(r.Header); name != "" {
		return http.StatusBadRequest, "the header " + message.Shorten(name) + " is there twice, or written with an underscore; send one"
	}
	if !loopback.IsName(r.Host) && (o.verify == nil || o.hosts != nil) && !slices.Contains(o.hosts, loopback.HostName(r.Host)) {
		return http.StatusForbidden, "the name in the Host header is not one of this gateway; use the name of this machine, or let the gateway allow it"
	}
	if o.verify == nil && (!loopback.IsLocal(r.Context()) || loopback.IsForwarded(r)) {
		return http.StatusForbidden, "without tokens the gateway serves this machine only, and not through a proxy and not in HTTP/1.0; let it ask for tokens"
	}
	if !o.allowsOrigin(r) {
		return http.StatusForbidden, "the request comes from another web site; let the gateway allow its origin"
	}
	return 0, ""
}

// allowsOrigin reports whether the page that sends a request may use the gateway. Only browsers send an
// Origin.
func (o *options) allowsOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	if slices.Contains(o.origins, origins[0]) {
		return true
	}
	page, err := url.Parse(origins[0])
	return err == nil && page.Host != "" && strings.EqualFold(page.Host, r.Host)
}

// allowPage lets a page of an allowed origin read the answer (CORS).
func (o *options) allowPage(header http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if !slices.Contains(o.origins, origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", sessionHeader)
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		header.Set("Access-Control-Allow-Headers", strings.Join(append(argumentHeaders(r), pageHeaders...), ", "))
	}
}

// pageHeaders are what a page may send with any request, of all versions.
var pageHeaders = []string{"Accept", "Authorization", "Content-Type", eventHeader, sessionHeader, versionHeader, methodHeader, nameHeader}

// argumentHeaders returns those headers for arguments of a tool (MCP 2026-07-28, Streamable HTTP, custom headers) that a
// preflight request asks for: each tool has its own. Of a longer list than one call can have it returns none.
func argumentHeaders(preflight *http.Request) (names []string) {
	asked := strings.Join(preflight.Header.Values("Access-Control-Request-Headers"), ",")
	if len(asked) > headerparams.MaxPreflightBytes {
		return nil
	}
	for name := range strings.SplitSeq(asked, ",") {
		if name = strings.TrimSpace(name); headerparams.IsHeader(name) {
			names = append(names, name)
		}
	}
	return names
}
