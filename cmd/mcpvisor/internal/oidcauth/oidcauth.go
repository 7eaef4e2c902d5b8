// Package oidcauth checks the access tokens of an OpenID Connect issuer, and tells clients where to get
// one (RFC 9728).
package oidcauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/internal/loopback"
)

// Options say which tokens are accepted.
type Options struct {
	// Issuer is the address of the issuer, as its tokens have it: https, or on this machine.
	Issuer string
	// Audience is what a token must be made for.
	Audience string
	// ProfileClaim is the claim that names the profile of a client. A token without it is refused. Empty:
	// clients have no profile.
	ProfileClaim string
	// Log is told once when the issuer cannot be used, and when it can be again.
	Log func(text string)
}

// Verifier checks tokens. The keys of the issuer are fetched when they are needed. Safe for
// concurrent use.
type Verifier struct {
	options Options
	client  *http.Client
	fetches *fetches

	turn chan struct{} // holds a value while a goroutine asks the issuer, and uses the fields below
	next time.Time     // when it may be asked again
	wait time.Duration
	why  error // of the last attempt

	ready atomic.Pointer[oidc.IDTokenVerifier] // nil until the issuer has been reached once
}

const (
	// issuerTimeout bounds a request to the issuer.
	issuerTimeout = 10 * time.Second
	// After an attempt that failed, the issuer is asked again after firstWait, and then after up to
	// lastWait.
	firstWait = time.Second
	lastWait  = 30 * time.Second
)

// algorithms are those of signatures whose key the verifier does not share with the issuer.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// New makes a verifier. It asks the issuer nothing.
func New(o Options) (*Verifier, error) {
	issuer, err := url.Parse(o.Issuer)
	switch {
	case err != nil || issuer.Host == "" || issuer.RawQuery != "" || issuer.Fragment != "" || issuer.User != nil:
		return nil, fmt.Errorf("the issuer %q is not the address of one; write for instance https://login.example.com", o.Issuer)
	case !isSafe(issuer):
		return nil, fmt.Errorf("the issuer %q must be https: otherwise anybody who can change its answers can make tokens", o.Issuer)
	case o.Audience == "":
		return nil, errors.New("an audience is needed: a token that was made for another service must not be accepted")
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true} // requests are rare
	f := newFetches(transport)
	return &Verifier{options: o, fetches: f, turn: make(chan struct{}, 1), wait: firstWait, client: &http.Client{Transport: f, Timeout: issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// isSafe reports whether the answers of an address cannot be changed on their way.
func isSafe(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && loopback.IsName(u.Host)
}

// Prepare asks the issuer for its configuration. An error says that it cannot be used at the moment;
// Verify asks again.
func (v *Verifier) Prepare(ctx context.Context) error {
	_, err := v.verifier(ctx)
	return err
}

// verifier returns what checks tokens, as soon as the issuer has been reached once.
func (v *Verifier) verifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	if ready := v.ready.Load(); ready != nil {
		return ready, nil
	}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if ready := v.ready.Load(); ready != nil {
		return ready, nil
	}
	if now := time.Now(); now.Before(v.next) {
		return nil, v.why
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), v.client), v.options.Issuer)
	if err != nil {
		first := v.why == nil
		v.why = fmt.Errorf("the issuer %s cannot be used: %w", v.options.Issuer, describe(err))
		v.next = time.Now().Add(v.wait)
		v.wait = min(2*v.wait, lastWait)
		if first {
			v.options.Log(v.why.Error() + "; until it can, no token is accepted")
		}
		return nil, v.why
	}
	if v.why != nil {
		v.options.Log("the issuer " + v.options.Issuer + " can be used now")
	}
	ready := provider.Verifier(&oidc.Config{ClientID: v.options.Audience, SupportedSigningAlgs: algorithms})
	v.ready.Store(ready)
	return ready, nil
}

// describe words an error of the issuer without what it has answered.
func describe(err error) error {
	var mismatch *oidc.IssuerMismatchError
	var failed *url.Error
	switch {
	case errors.As(err, &mismatch):
		return fmt.Errorf("it calls itself %q; use that name", mismatch.Discovered)
	case errors.As(err, &failed):
		return failed.Err
	}
	return errors.New("it has not answered with a configuration of OpenID Connect")
}

// claims are those of a token that matter here.
type claims struct {
	Scope string   `json:"scope"` // RFC 9068
	Scp   scpClaim `json:"scp"`   // some issuers
}

// Verify is an auth.TokenVerifier. The subject of the token is the principal.
func (v *Verifier) Verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	verifier, err := v.verifier(ctx)
	if err != nil {
		return nil, fmt.Errorf("tokens cannot be checked: %w", err)
	}
	before := v.fetches.failures.Load()
	checked, err := verifier.Verify(ctx, token)
	if err != nil {
		if v.fetches.failures.Load() != before {
			return nil, fmt.Errorf("tokens cannot be checked: the keys of the issuer %s cannot be fetched", v.options.Issuer)
		}
		return nil, fmt.Errorf("%w: %s", auth.ErrInvalidToken, v.reason(err))
	}
	var said claims
	if err := checked.Claims(&said); err != nil || checked.Subject == "" || strings.Contains(checked.Subject, "\x00") {
		return nil, fmt.Errorf("%w: it has no usable subject (sub)", auth.ErrInvalidToken)
	}
	info := &auth.TokenInfo{UserID: checked.Subject, Expiration: checked.Expiry, Scopes: append(strings.Fields(said.Scope), said.Scp...)}
	if claim := v.options.ProfileClaim; claim != "" {
		var all map[string]any
		_ = checked.Claims(&all) // it is an object: the first call has read it
		profile, _ := all[claim].(string)
		if list, several := all[claim].([]any); several {
			names := make([]string, len(list))
			for i := range list {
				names[i], _ = list[i].(string)
			}
			if !slices.Contains(names, "") {
				profile = strings.Join(names, ",")
			}
		}
		if profile == "" {
			return nil, fmt.Errorf("%w: it has no claim %q", auth.ErrInvalidToken, claim)
		}
		info.Extra = map[string]any{gateway.ProfileKey: profile}
	}
	return info, nil
}

// reason says why a token is refused, without what is in it.
func (v *Verifier) reason(err error) string {
	var expired *oidc.TokenExpiredError
	text := err.Error()
	switch {
	case errors.As(err, &expired):
		return "it has expired"
	case strings.Contains(text, "expected audience"):
		return fmt.Sprintf("it was not made for %q", v.options.Audience)
	case strings.Contains(text, "different provider"):
		return "it is of another issuer"
	case strings.Contains(text, "not before"):
		return "it is not valid yet"
	}
	return "it is not a token that the issuer has signed"
}

// Scopes of a claim that is a list or a text.
type scpClaim []string

// UnmarshalJSON implements json.Unmarshaler. What is neither is no scope.
func (s *scpClaim) UnmarshalJSON(data []byte) error {
	*s = slices.DeleteFunc(strings.FieldsFunc(string(data), func(r rune) bool { return strings.ContainsRune(`[]{}:", `+"\t\r\n", r) }),
		func(scope string) bool { return scope == "null" })
	return nil
}

// fetches makes the requests to an issuer. Each token with an unknown key causes one, so they are
// bounded: strangers can send such tokens.
type fetches struct {
	inner    http.RoundTripper
	rate     *rate.Limiter
	failures atomic.Int64 // requests without an answer of the issuer
}

const (
	// fetchBurst requests may follow one another at once, and after them one each fetchInterval.
	fetchBurst    = 10
	fetchInterval = 5 * time.Second
	// maxAnswerBytes bounds an answer.
	maxAnswerBytes = 1 << 20
)

func newFetches(inner http.RoundTripper) *fetches {
	return &fetches{inner: inner, rate: rate.NewLimiter(rate.Every(fetchInterval), fetchBurst)}
}

var (
	errManyFetches = errors.New("the keys were fetched a moment ago")
	errUnsafe      = errors.New("its keys are at an address that is not https")
	errStatus      = errors.New("it has answered with an error")
)

func (f *fetches) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSafe(r.URL) {
		return nil, errUnsafe
	}
	if !f.rate.Allow() {
		return nil, errManyFetches
	}
	response, err := f.inner.RoundTrip(r)
	if err != nil {
		f.failures.Add(1)
		return nil, err
	}
	if response.StatusCode != http.StatusOK { // what it says is not repeated
		_ = response.Body.Close()
		f.failures.Add(1)
		return nil, errStatus
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswerBytes)
	return response, nil
}

// MetadataPath is where clients find who issues tokens for a resource (RFC 9728). The path of the
// resource follows it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Resource is an MCP server as its clients know it.
type Resource struct {
	// URL is its address, as in https://mcp.example.com/mcp.
	URL *url.URL
	// Issuer issues the tokens, and Scopes are those that a token needs.
	Issuer string
	Scopes []string
}

// MetadataURL is the address of its metadata, which an answer without a valid token names.
func (r Resource) MetadataURL() string {
	u := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: MetadataPath + strings.TrimSuffix(r.URL.Path, "/")}
	return u.String()
}

// ServeHTTP implements http.Handler: it serves [MetadataPath] and what is below it. What is below the
// resource has metadata of its own.
func (r Resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	below, own := strings.TrimPrefix(request.URL.Path, MetadataPath), strings.TrimSuffix(r.URL.Path, "/")
	name, inside := strings.CutPrefix(below, own)
	if below != "" && below != "/" && (!inside || name != "" && name[0] != '/') {
		http.NotFound(w, request)
		return
	}
	resource := *r.URL
	if inside && name != "/" {
		resource.Path = own + name
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if request.Method == http.MethodOptions { // clients in a page send a header with the version of MCP
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{Resource: resource.String(), AuthorizationServers: []string{r.Issuer},
		ScopesSupported: r.Scopes, BearerMethodsSupported: []string{"header"}, ResourceName: "mcpvisor"}).ServeHTTP(w, request)
}
