// Package oidctest is an issuer of OpenID Connect on this machine, for tests.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Audience is that of the tokens.
const Audience = "gateway"

// Issuer issues tokens that are signed by RS256. It ends with its test.
type Issuer struct {
	// URL is its address and name.
	URL string
	// Fetched counts how often its keys were asked for.
	Fetched atomic.Int64
	// Down makes it answer with errors.
	Down atomic.Bool

	t  *testing.T
	mu sync.Mutex // guards the fields below
	id string
	of *rsa.PrivateKey
}

// New starts an issuer.
func New(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{t: t}
	server := httptest.NewServer(i)
	i.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	i.Rotate("first")
	return i
}

// NewKey makes a key that no issuer publishes.
func NewKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

// Rotate makes a new key the only one.
func (i *Issuer) Rotate(id string) {
	key := NewKey(i.t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.id, i.of = id, key
}

// Key returns the present key.
func (i *Issuer) Key() *rsa.PrivateKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of
}

// Encode is the encoding of the parts of a token.
func Encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.Down.Load() {
		http.Error(w, "a secret of the issuer", http.StatusBadGateway)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}}
	case "/keys":
		i.Fetched.Add(1)
		answer = map[string]any{"keys": []map[string]string{{"kty": "RSA", "kid": i.id, "alg": "RS256", "use": "sig",
			"n": Encode(i.of.N.Bytes()), "e": Encode(big.NewInt(int64(i.of.E)).Bytes())}}}
	default:
		http.NotFound(w, r)
		return
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// Token signs one of alice, for Audience and an hour. changes replace claims; nil removes one.
func (i *Issuer) Token(changes map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return Sign(i.t, map[string]any{"alg": "RS256", "kid": i.id}, i.Claims(changes), i.of)
}

// Claims are those of Token.
func (i *Issuer) Claims(changes map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": Audience, "sub": "alice", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Sign makes a token. Without a key it has no signature.
func Sign(t *testing.T, head, claims map[string]any, key *rsa.PrivateKey) string {
	t.Helper()
	first, err := json.Marshal(head)
	require.NoError(t, err)
	second, err := json.Marshal(claims)
	require.NoError(t, err)
	text := Encode(first) + "." + Encode(second)
	if key == nil {
		return text + "."
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	return text + "." + Encode(signature)
}
