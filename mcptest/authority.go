package mcptest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Authority is an OAuth authorization server on a loopback port, and an MCP
// endpoint that wants its tokens. It consents to everything without asking, so
// that a visit of its authorization URL redirects at once. Safe for concurrent
// use; close it when done.
type Authority struct {
	// URL is the guarded MCP endpoint, Issuer the authorization server.
	URL    string
	Issuer string

	server *httptest.Server
	next   http.Handler

	mu     sync.Mutex
	rules  AuthorityRules
	counts AuthorityCounts
	codes  map[string]grant
	access map[string]grant
	renew  map[string]grant
	client map[string]string // secrets by id
}

// AuthorityRules change how an [Authority] behaves. The zero value follows the
// specifications of 2025-11-25 and later.
type AuthorityRules struct {
	// TokenLife is how long access tokens are good. Default: an hour.
	TokenLife time.Duration
	// NoRefresh gives no refresh tokens; Rotate makes each good for one use only.
	NoRefresh, Rotate bool
	// Scopes are named in the challenge of a 401.
	Scopes []string
	// Needs are the scopes that a JSON-RPC method needs beside a token.
	Needs map[string]string
	// AuthMethods are those of the token endpoint. Default: all.
	AuthMethods []string
	// Document may change each metadata document that is served at a path; what
	// it returns is the status.
	Document func(path string, document map[string]any) int
	// Assertion is what the assertion grant (RFC 7523) is good for. Default: nothing.
	Assertion string
	// Redirect may change what the redirect brings.
	Redirect func(query url.Values)
	// Token may answer a token request itself; then it returns true.
	Token func(w http.ResponseWriter, r *http.Request) bool
	// Challenge may change the header of a 401 or 403.
	Challenge func(h http.Header)
}

// AuthorityCounts are what an [Authority] was asked for.
type AuthorityCounts struct {
	Refused, Registrations, Visits, Exchanges, Refreshes, ClientGrants, AssertionGrants int
	// LastVisit and LastToken are the parameters of the last such request.
	LastVisit, LastToken url.Values
}

// grant is what stands behind a code or a token.
type grant struct {
	client, challenge, redirect string
	scopes                      []string
	expires                     time.Time
}

// NewAuthority guards an MCP endpoint, as of [HTTPServer]. Without one, the
// guarded endpoint answers every request that has a token with 204.
func NewAuthority(endpoint string) *Authority {
	a := &Authority{codes: map[string]grant{}, access: map[string]grant{}, renew: map[string]grant{}, client: map[string]string{}}
	a.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if endpoint != "" {
		target, err := url.Parse(endpoint)
		if err != nil {
			panic("mcptest: " + err.Error())
		}
		a.next = &httputil.ReverseProxy{FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true}, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = target.Path
			r.Out.Header.Del("Authorization")
		}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc(endpointPath, a.guard)
	mux.HandleFunc("/.well-known/", a.document)
	mux.HandleFunc("POST /register", a.register)
	mux.HandleFunc("GET /authorize", a.authorize)
	mux.HandleFunc("POST /token", a.token)
	a.server = httptest.NewServer(mux)
	a.Issuer = a.server.URL
	a.URL = a.Issuer + endpointPath
	return a
}

// Close ends the server; what hangs is cut off.
func (a *Authority) Close() {
	a.server.CloseClientConnections()
	a.server.Close()
}

// Set changes the rules, from now on.
func (a *Authority) Set(rules AuthorityRules) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = rules
}

// AddClient registers a client by hand.
func (a *Authority) AddClient(id, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client[id] = secret
}

// Revoke makes every access token useless, and with them refresh tokens and
// registrations, as it is asked.
func (a *Authority) Revoke(refresh, clients bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
	if refresh {
		clear(a.renew)
	}
	if clients {
		clear(a.client)
	}
}

// Counts returns what happened so far.
func (a *Authority) Counts() AuthorityCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

func (a *Authority) ruled() AuthorityRules {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules
}

func (a *Authority) document(w http.ResponseWriter, r *http.Request) {
	rules := a.ruled()
	var d map[string]any
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource" + endpointPath:
		d = map[string]any{"resource": a.URL, "authorization_servers": []string{a.Issuer}}
	case "/.well-known/oauth-authorization-server":
		methods := rules.AuthMethods
		if methods == nil {
			methods = []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}
		}
		d = map[string]any{"issuer": a.Issuer, "authorization_endpoint": a.Issuer + "/authorize", "token_endpoint": a.Issuer + "/token",
			"registration_endpoint": a.Issuer + "/register", "code_challenge_methods_supported": []string{"S256"},
			"response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": methods}
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

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	text, _ := json.Marshal(v) // what is served always marshals
	_, _ = w.Write(text)
}

func (a *Authority) register(w http.ResponseWriter, r *http.Request) {
	var asked map[string]any
	_ = json.NewDecoder(r.Body).Decode(&asked)
	method, _ := asked["token_endpoint_auth_method"].(string)
	id, secret := "client-"+rand.Text(), ""
	a.mu.Lock()
	a.counts.Registrations++
	if method != "none" {
		secret = "secret-" + rand.Text()
	}
	a.client[id] = secret
	a.mu.Unlock()
	if asked == nil {
		asked = map[string]any{}
	}
	asked["client_id"] = id
	if secret != "" {
		asked["client_secret"] = secret
	}
	answerJSON(w, http.StatusCreated, asked)
}

func (a *Authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Visits++
	a.counts.LastVisit = q
	_, known := a.client[q.Get("client_id")]
	known = known || strings.HasPrefix(q.Get("client_id"), "https://")
	target, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || q.Get("code_challenge_method") != "S256" || q.Get("resource") == "" {
		http.Error(w, "unknown client, or a parameter is missing", http.StatusBadRequest)
		return
	}
	code := "code-" + rand.Text()
	a.codes[code] = grant{client: q.Get("client_id"), challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), scopes: strings.Fields(q.Get("scope"))}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if a.rules.Redirect != nil {
		a.rules.Redirect(back)
	}
	target.RawQuery = back.Encode()
	http.Redirect(w, r, target.String(), http.StatusFound) //nolint:gosec // it is what the endpoint is for, in a test
}

// guard lets requests with a good token pass.
func (a *Authority) guard(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	method := methodOf(r)
	a.mu.Lock()
	g, known := a.access[token]
	known = known && time.Now().Before(g.expires)
	need := a.rules.Needs[method]
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
	challenge, status := `Bearer resource_metadata="`+a.Issuer+"/.well-known/oauth-protected-resource"+endpointPath+`"`, http.StatusUnauthorized
	switch {
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
