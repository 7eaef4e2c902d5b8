// Package oidctest is an issuer of OpenID Connect on this machine, for tests.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
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

	t      *testing.T
	mu     sync.Mutex // guards the fields below
	key    *rsa.PrivateKey
	server oidctest.Server // with key alone
}

func New(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{t: t}
	server := httptest.NewServer(i)
	i.URL = server.URL
	i.server.SetIssuer(i.URL)
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
	i.key, i.server.PublicKeys = key, []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: id, Algorithm: oidc.RS256}}
}

func (i *Issuer) Key() *rsa.PrivateKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.Down.Load() {
		http.Error(w, "a secret of the issuer", http.StatusBadGateway)
		return
	}
	if r.URL.Path == "/keys" {
		i.Fetched.Add(1)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.server.ServeHTTP(w, r)
}

// Token signs one of alice, for Audience and an hour. changes replace claims; nil removes one.
func (i *Issuer) Token(changes map[string]any) string {
	i.mu.Lock()
	key, id := i.key, i.server.PublicKeys[0].KeyID
	i.mu.Unlock()
	return Sign(key, id, i.Claims(changes))
}

// Claims are those of Token, as JSON.
func (i *Issuer) Claims(changes map[string]any) string {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": Audience, "sub": "alice", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(claims)
	require.NoError(i.t, err)
	return string(text)
}

// Sign makes a token by RS256.
func Sign(key crypto.PrivateKey, id, claims string) string {
	return oidctest.SignIDToken(key, id, oidc.RS256, claims)
}
