package oauthtest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// grantAssertion is the grant_type of RFC 7523, section 2.1.
const grantAssertion = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// methodOf returns the JSON-RPC method of a POST, and the HTTP method of any other
// request. The body stays readable.
func methodOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return r.Method
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	return m.Method
}

// token is the token endpoint (RFC 6749, section 3.2).
func (a *Server) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a.mu.Lock()
	a.counts.LastToken = r.PostForm
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		a.counts.CodeExchanges++
	case "refresh_token":
		a.counts.Refreshes++
	case "client_credentials":
		a.counts.ClientGrants++
	case grantAssertion:
		a.counts.AssertionGrants++
	case grantDevice:
		a.counts.DevicePolls++
	}
	rules := a.rules
	a.mu.Unlock()
	if rules.Token != nil && rules.Token(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id, ok := a.authenticate(r)
	if !ok {
		answerJSON(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	key := ""
	if a.rules.DPoP && r.Header.Get("DPoP") != "" {
		var err error
		if key, err = a.checkProof(r, a.Issuer+r.URL.Path, ""); err != nil {
			if a.rules.DPoPNonce != "" {
				w.Header().Set("DPoP-Nonce", a.rules.DPoPNonce)
			}
			answerJSON(w, http.StatusBadRequest, map[string]any{"error": errorCode(err), "error_description": err.Error()})
			return
		}
	}
	problem := "invalid_grant"
	g, ok := a.grantFor(r.PostForm, id)
	if r.PostForm.Get("grant_type") == grantDevice && a.rules.Device {
		g, problem = a.deviceGrant(r.PostForm, id)
		ok = problem == ""
	}
	if g.key != "" && g.key != key { // a refresh token is bound to the key, too (RFC 9449, section 5)
		ok = false
	}
	if !ok {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": problem, "error_description": "unknown, used or expired"})
		return
	}
	lifetime := a.rules.TokenLifetime
	if lifetime == 0 {
		lifetime = time.Hour
	}
	g.expires, g.key = time.Now().Add(lifetime), key
	token := "access-" + rand.Text()
	a.access[token] = g
	answer := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": lifetime.Seconds(), "scope": strings.Join(g.scopes, " ")}
	if key != "" {
		answer["token_type"] = "DPoP"
	}
	kind := r.PostForm.Get("grant_type")
	if refresh := r.PostForm.Get("refresh_token"); !a.rules.NoRefresh && kind != "client_credentials" && kind != grantAssertion && (refresh == "" || a.rules.Rotate) {
		delete(a.refresh, refresh)
		next := "refresh-" + rand.Text()
		a.refresh[next] = g
		answer["refresh_token"] = next
	}
	answerJSON(w, http.StatusOK, answer)
}

// authenticate returns the client that makes a token request, and whether its
// secret is right. a.mu is held.
func (a *Server) authenticate(r *http.Request) (id string, ok bool) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(password)
	}
	if strings.HasPrefix(id, "https://") || r.PostForm.Get("client_assertion") != "" {
		return id, true // the signature is not verified
	}
	want, known := a.clients[id]
	if r.PostForm.Get("assertion") != "" {
		return id, want == secret // the assertion names the client
	}
	return id, known && want == secret
}

// grantFor returns what a token request of the client is granted, and whether its
// code, refresh token or assertion is valid. a.mu is held.
func (a *Server) grantFor(form url.Values, id string) (g grant, ok bool) {
	if form.Get("resource") != a.URL {
		return g, false
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		g, ok = a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		proven := g.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
		return g, ok && proven && g.client == id && g.redirect == form.Get("redirect_uri")
	case "refresh_token":
		g, ok = a.refresh[form.Get("refresh_token")]
		return g, ok && g.client == id
	case "client_credentials":
		return grant{client: id, scopes: strings.Fields(form.Get("scope"))}, true
	case grantAssertion:
		good := a.rules.Assertion != "" && form.Get("assertion") == a.rules.Assertion
		return grant{client: id, scopes: strings.Fields(form.Get("scope"))}, good
	}
	return g, false
}
