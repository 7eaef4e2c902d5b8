package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
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
	return func(o *options) { o.verify, o.verifyDetails, o.identify = verify, details, nil }
}

// Identity says who sends a request to a [Handler].
type Identity struct {
	// Principal names the sender. Sessions and limits belong to a principal.
	Principal string
	// Profile is the name of the profile of the client ([Settings].Profiles), or several, as in [Token].
	Profile string
	// Expiry is when the authentication ends, and with it streams of the client. Zero: never.
	Expiry time.Time

	life context.Context //nolint:containedctx // of the token; nil: as Expiry says
}

// WithOwnAuthentication lets a [Handler] serve behind an authentication of the host: identify tells who sends a
// request, by what the middleware in front of the Handler has found out, such as a value in the context of the request. It
// is called for each request, by many goroutines at once. A request for which it returns an error is refused with
// 401 and the text of the error. An empty Principal is a mistake of the host, answered with 500: no
// request is served without a principal. WithOwnAuthentication replaces [WithTokens] and
// [WithTokenVerifier], and is replaced by them: the last one counts. It panics if identify is nil.
func WithOwnAuthentication(identify func(*http.Request) (Identity, error)) Option {
	if identify == nil {
		panic("gateway.WithOwnAuthentication: the function is nil")
	}
	return func(o *options) { o.identify, o.verify, o.verifyDetails = identify, nil, nil }
}

// authenticates reports whether each client has a principal.
func (o *options) authenticates() bool { return o.verify != nil || o.identify != nil }

// identityOf returns who sends a request. A status other than 0 refuses it.
func (o *options) identityOf(r *http.Request) (who Identity, status int, why string) {
	if !o.authenticates() {
		return Identity{}, 0, ""
	}
	if o.identify != nil {
		var err error
		if who, err = o.identify(r); err != nil {
			return Identity{}, http.StatusUnauthorized, err.Error()
		}
	} else if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		who.Principal, who.Expiry = info.UserID, info.Expiration
		who.Profile, _ = info.Extra[ProfileKey].(string)
		who.life, _ = info.Extra[lifeKey].(context.Context)
	}
	if who.Principal == "" || strings.Contains(who.Principal, "\x00") {
		return Identity{}, http.StatusInternalServerError, "the authentication has not said who sends the request"
	}
	return who, 0, ""
}

// requireToken passes requests with a valid token on to inner. A token that cannot be checked at the
// moment is answered with 503.
func requireToken(o *options, inner http.Handler) http.Handler {
	checked := auth.RequireBearerToken(o.verify, o.verifyDetails)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w.(verdict).ResponseWriter, r) //nolint:forcetypeassert // it is the one below
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { checked.ServeHTTP(verdict{w, o.clients}, r) })
}

// verdict writes the answer to a request whose token is not valid, which is counted, or cannot be checked.
type verdict struct {
	http.ResponseWriter
	clients *clients.Registry
}

// WriteHeader implements http.ResponseWriter. The go-sdk answers with 500 if a verifier fails.
func (v verdict) WriteHeader(status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		v.clients.Refuse(clients.RefusedToken)
	case http.StatusInternalServerError:
		status = http.StatusServiceUnavailable
		v.Header().Set("Retry-After", "1")
	}
	v.ResponseWriter.WriteHeader(status)
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
// [HashToken] did not make matches no token. Without any token every request is refused. [WithTokenSet] changes
// them while the Handler serves.
func WithTokens(tokens ...Token) Option {
	set := new(TokenSet)
	set.Set(tokens...)
	return WithTokenSet(set)
}

// WithHosts sets the names that the Host header of a request may have besides those of this
// machine, as in "host.docker.internal". A port does not count. Those of [Settings].Hosts are added. It panics if one is
// not a name. Default: any name if clients are authenticated, otherwise only those of this machine.
func WithHosts(names ...string) Option {
	return func(o *options) { o.hosts = append(o.hosts, parseAll("WithHosts", names, settings.ParseHost)...) }
}

// WithOrigins sets the web sites whose pages may use a [Handler], as in "http://localhost:6274". The port may be *, for
// any port. Those of [Settings].Origins are added. It panics if one is not an origin, or stands for any site.
// Default: only pages of the handler's own host, which browsers name in the Origin header.
func WithOrigins(origins ...string) Option {
	return func(o *options) {
		o.origins = append(o.origins, parseAll("WithOrigins", origins, settings.ParseOrigin)...)
	}
}

// parseAll reads the arguments of an option.
func parseAll(option string, texts []string, parse func(string) (string, error)) []string {
	all, err := parseEach(texts, parse)
	if err != nil {
		panic("gateway." + option + ": " + err.Error())
	}
	return all
}

func parseEach(texts []string, parse func(string) (string, error)) (all []string, err error) {
	for _, text := range texts {
		one, wrong := parse(text)
		all, err = append(all, one), errors.Join(err, wrong)
	}
	return all, err
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
	hosts := slices.Concat(o.hosts, o.settings.load().Hosts)
	if name := loopback.HostName(r.Host); !loopback.IsName(r.Host) && (!o.authenticates() || hosts != nil) && !slices.Contains(hosts, name) {
		return http.StatusForbidden, "the name " + message.Quote(name) + " in the Host header is not one of this gateway; use the name of this machine, or " + allow("host", name, "WithHosts")
	}
	if !o.authenticates() && (!loopback.IsLocal(r.Context()) || loopback.IsForwarded(r)) {
		return http.StatusForbidden, "without tokens the gateway serves this machine only, and not through a proxy and not in HTTP/1.0; let it ask for tokens: " +
			"run it with --mcp-tokens FILE (mcpvisor token NAME prints a line of the file), or in Go with gateway.WithTokens or gateway.WithOwnAuthentication"
	}
	if origin := r.Header.Get("Origin"); r.Header["Origin"] != nil && !o.hasOrigin(origin) && !isOwnPage(origin, r) {
		return http.StatusForbidden, "the request comes from another web site, " + message.Quote(origin) + "; if its pages may use the servers, " + allow("origin", origin, "WithOrigins")
	}
	return 0, ""
}

// allow says how an operator allows a name or a web site that a request has.
func allow(what, value, option string) string {
	value = message.Shorten(value)
	return "run the gateway with --mcp-" + what + " " + value + `, or with "` + what + `s": [` + strconv.Quote(value) + `] in "gateway" of the configuration, or in Go with gateway.` + option + "(" + strconv.Quote(value) + ")"
}

// hasOrigin reports whether pages of an origin may use the gateway.
func (o *options) hasOrigin(origin string) bool {
	return settings.HasOrigin(o.origins, origin) || settings.HasOrigin(o.settings.load().Origins, origin)
}

// isOwnPage reports whether an origin is that of the host that a request goes to.
func isOwnPage(origin string, r *http.Request) bool {
	page, err := url.Parse(origin)
	return err == nil && page.Host != "" && strings.EqualFold(page.Host, r.Host)
}

// allowPage lets a page of an allowed origin read the answer, whatever its status (CORS), and ask from a public site
// for one in a private network.
func (o *options) allowPage(header http.Header, r *http.Request) {
	header.Set("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !o.hasOrigin(origin) { // most clients are no pages
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", sessionHeader+", WWW-Authenticate, Retry-After")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		header.Set("Access-Control-Allow-Headers", strings.Join(append(argumentHeaders(r), pageHeaders...), ", "))
		header.Set("Access-Control-Max-Age", "600")
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			header.Set("Access-Control-Allow-Private-Network", "true")
		}
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
