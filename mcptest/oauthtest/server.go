package oauthtest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// guardedPath is the path of the guarded MCP endpoint.
const guardedPath = "/mcp"

// Server is an OAuth authorization server on a loopback port, and an MCP endpoint
// that accepts its tokens only. Make one with [NewServer]. It grants every
// authorization request without asking a user. Safe for concurrent use; close it
// when done.
type Server struct {
	// URL is the guarded MCP endpoint. It does not change.
	URL string
	// Issuer is the URL of the authorization server. It does not change.
	Issuer string

	server *httptest.Server
	next   http.Handler // serves requests with a valid token

	// mu guards everything below.
	mu          sync.Mutex
	rules       Rules
	counts      Counts
	codes       map[string]grant  // by authorization code
	access      map[string]grant  // by access token
	refresh     map[string]grant  // by refresh token
	devices     map[string]device // by device code
	otherGrants map[string]bool   // clients that registered for other grants alone
	clients     map[string]string // secrets by client id; "" for a public client
	proofs      map[string]bool   // ids of the DPoP proofs that were used
}

// Rules change how a [Server] behaves; see [Server.Set]. The zero value follows the
// authorization part of MCP 2025-11-25 and later. Functions are called in the
// goroutine of a request, several at a time.
type Rules struct {
	// TokenLifetime is how long access tokens are valid. Default: an hour.
	TokenLifetime time.Duration
	// NoRefresh: no refresh tokens are issued. Default: one for each authorization.
	NoRefresh bool
	// Rotate: each refresh token works once and is replaced by a new one.
	Rotate bool
	// Scopes are named in the WWW-Authenticate header of a 401. Default: none.
	Scopes []string
	// RequiredScopes maps a JSON-RPC method to the scope that it needs beside a valid
	// token. A request without it is answered with 403 and insufficient_scope.
	RequiredScopes map[string]string
	// DPoP: the metadata announces DPoP (RFC 9449), the MCP endpoint asks for it, and tokens
	// that were requested with a proof are bound to its key.
	DPoP bool
	// DPoPNonce is the nonce that both endpoints demand in proofs. Default: none.
	DPoPNonce string
	// Device: the metadata announces the device authorization grant (RFC 8628). A GET of the page for the
	// code approves it; with the parameter deny it is refused. Clients may poll each second.
	Device bool
	// AuthMethods are the token_endpoint_auth_methods_supported of the metadata.
	// Default: "none", "client_secret_basic", "client_secret_post" and "private_key_jwt".
	AuthMethods []string
	// Document may edit a metadata document before it is served at path. It returns
	// the HTTP status to serve it with; 0 keeps the usual one.
	Document func(path string, document map[string]any) int
	// Assertion is the assertion that the grant of RFC 7523 accepts. Default: none
	// is accepted.
	Assertion string
	// Redirect may edit the query of the redirect back to the client.
	Redirect func(query url.Values)
	// Token may answer a token request itself; it returns true if it did.
	Token func(w http.ResponseWriter, r *http.Request) bool
	// Challenge may edit the headers of a 401 or 403.
	Challenge func(h http.Header)
}

// Counts are the requests that a [Server] has received.
type Counts struct {
	// Refused counts requests to the MCP endpoint that were answered 401 or 403.
	Refused int
	// Registrations counts dynamic client registrations.
	Registrations int
	// Authorizations counts requests to the authorization endpoint.
	Authorizations int
	// CodeExchanges, Refreshes, ClientGrants and AssertionGrants count token requests
	// by their grant_type, refused ones included.
	CodeExchanges, Refreshes, ClientGrants, AssertionGrants, DevicePolls int
	// LastAuthorization and LastToken are the parameters of the last request to the
	// authorization endpoint and to the token endpoint; nil before the first.
	LastAuthorization, LastToken url.Values
}

// grant is what an authorization code or a token was issued for.
type grant struct {
	client, challenge, redirect string
	scopes                      []string
	expires                     time.Time
	// key is the thumbprint of the key that the token is bound to; empty: a bearer token.
	key string
}

// NewServer starts a server on a loopback port. Requests with a valid token are
// forwarded to endpoint, the URL of an MCP server; with an empty endpoint they are
// answered 204. NewServer panics if endpoint is not a URL.
func NewServer(endpoint string) *Server {
	a := &Server{codes: map[string]grant{}, access: map[string]grant{}, refresh: map[string]grant{}, devices: map[string]device{}, otherGrants: map[string]bool{}, clients: map[string]string{}, proofs: map[string]bool{}}
	a.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if endpoint != "" {
		target, err := url.Parse(endpoint)
		if err != nil {
			panic("oauthtest: " + err.Error())
		}
		a.next = &httputil.ReverseProxy{FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true}, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = target.Path
			r.Out.Header.Del("Authorization")
			r.Out.Header.Del("DPoP")
		}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc(guardedPath, a.guard)
	mux.HandleFunc("/.well-known/", a.document)
	mux.HandleFunc("POST /register", a.register)
	mux.HandleFunc("GET /authorize", a.authorize)
	mux.HandleFunc("POST /token", a.token)
	mux.HandleFunc("POST /device", a.startDevice)
	mux.HandleFunc("GET /device", a.approveDevice)
	a.server = httptest.NewServer(mux)
	a.Issuer = a.server.URL
	a.URL = a.Issuer + guardedPath
	return a
}

// Close drops all connections and stops the server.
func (a *Server) Close() {
	a.server.CloseClientConnections()
	a.server.Close()
}

// Set replaces the rules; they apply to requests from now on.
func (a *Server) Set(rules Rules) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = rules
}

// AddClient registers a client in advance. An empty secret makes it a public client.
func (a *Server) AddClient(id, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clients[id] = secret
}

// Revoke invalidates every access token; refresh also invalidates the refresh
// tokens, clients forgets the registered clients.
func (a *Server) Revoke(refresh, clients bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
	if refresh {
		clear(a.refresh)
	}
	if clients {
		clear(a.clients)
	}
}

// Counts returns the counts so far.
func (a *Server) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

func (a *Server) currentRules() Rules {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules
}

// document serves the metadata documents.
func (a *Server) document(w http.ResponseWriter, r *http.Request) {
	rules := a.currentRules()
	var d map[string]any
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource" + guardedPath:
		d = map[string]any{"resource": a.URL, "authorization_servers": []string{a.Issuer}}
	case "/.well-known/oauth-authorization-server":
		methods := rules.AuthMethods
		if methods == nil {
			methods = []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}
		}
		d = map[string]any{"issuer": a.Issuer, "authorization_endpoint": a.Issuer + "/authorize", "token_endpoint": a.Issuer + "/token",
			"registration_endpoint": a.Issuer + "/register", "code_challenge_methods_supported": []string{"S256"},
			"response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": methods}
		if rules.Device {
			d["device_authorization_endpoint"] = a.Issuer + "/device"
			d["grant_types_supported"] = []string{"authorization_code", "refresh_token", grantDevice}
		}
		if rules.DPoP {
			d["dpop_signing_alg_values_supported"] = []string{"ES256"}
		}
	}
	status := http.StatusOK
	if d == nil {
		d, status = map[string]any{}, http.StatusNotFound
	}
	if rules.Document != nil {
		if changed := rules.Document(r.URL.Path, d); changed != 0 {
			status = changed
		}
	}
	answerJSON(w, status, d)
}

// answerJSON writes v as an answer that must not be cached.
func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	text, _ := json.Marshal(v) // maps of strings always marshal
	_, _ = w.Write(text)
}

// register is the endpoint of dynamic client registration (RFC 7591).
func (a *Server) register(w http.ResponseWriter, r *http.Request) {
	var registration map[string]any
	_ = json.NewDecoder(r.Body).Decode(&registration)
	method, _ := registration["token_endpoint_auth_method"].(string)
	id, secret := "client-"+rand.Text(), ""
	a.mu.Lock()
	a.counts.Registrations++
	if method != "none" {
		secret = "secret-" + rand.Text()
	}
	a.clients[id] = secret
	grants, _ := registration["grant_types"].([]any)
	a.otherGrants[id] = !slices.Contains(grants, any(grantDevice))
	a.mu.Unlock()
	if registration == nil {
		registration = map[string]any{}
	}
	registration["client_id"] = id
	if secret != "" {
		registration["client_secret"] = secret
	}
	answerJSON(w, http.StatusCreated, registration)
}

// authorize is the authorization endpoint: it grants at once.
func (a *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Authorizations++
	a.counts.LastAuthorization = q
	_, known := a.clients[q.Get("client_id")]
	known = known || strings.HasPrefix(q.Get("client_id"), "https://")
	target, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || q.Get("code_challenge_method") != "S256" || q.Get("resource") == "" {
		http.Error(w, "unknown client_id, or redirect_uri, code_challenge_method=S256 or resource is missing", http.StatusBadRequest)
		return
	}
	code := "code-" + rand.Text()
	a.codes[code] = grant{client: q.Get("client_id"), challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), scopes: strings.Fields(q.Get("scope"))}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if a.rules.Redirect != nil {
		a.rules.Redirect(back)
	}
	target.RawQuery = back.Encode()
	http.Redirect(w, r, target.String(), http.StatusFound) //nolint:gosec // redirecting to the client is what an authorization endpoint does
}

// guard forwards requests with a valid token and refuses the others.
func (a *Server) guard(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	method := methodOf(r)
	a.mu.Lock()
	g, known := a.access[token]
	known = known && time.Now().Before(g.expires) && (scheme == "DPoP") == (g.key != "")
	var proofErr error
	if known && g.key != "" {
		key, err := a.checkProof(r, a.URL, token)
		if proofErr = err; err == nil && key != g.key {
			proofErr = errors.New("the token is bound to another key")
		}
		known = proofErr == nil
	}
	need := a.rules.RequiredScopes[method]
	rules := a.rules
	refused := !known || need != "" && !slices.Contains(g.scopes, need)
	if refused {
		a.counts.Refused++
	}
	a.mu.Unlock()
	if !refused {
		a.next.ServeHTTP(w, r)
		return
	}
	if rules.DPoP {
		scheme = "DPoP"
	} else {
		scheme = "Bearer"
	}
	if rules.DPoPNonce != "" {
		w.Header().Set("DPoP-Nonce", rules.DPoPNonce)
	}
	challenge, status := scheme+` resource_metadata="`+a.Issuer+"/.well-known/oauth-protected-resource"+guardedPath+`"`, http.StatusUnauthorized
	switch {
	case proofErr != nil:
		challenge += `, error="` + errorCode(proofErr) + `", error_description="` + proofErr.Error() + `"`
	case known:
		status = http.StatusForbidden
		challenge += `, error="insufficient_scope", scope="` + need + `"`
	case len(rules.Scopes) > 0:
		challenge += `, scope="` + strings.Join(rules.Scopes, " ") + `"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	if rules.Challenge != nil {
		rules.Challenge(w.Header())
	}
	answerJSON(w, status, map[string]any{"error": "refused", "error_description": "refused " + token})
}
