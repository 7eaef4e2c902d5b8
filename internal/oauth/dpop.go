package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/oauth/metadata"
)

// DPoP (RFC 9449) binds tokens to a key of this client: each request proves by a signature,
// the proof, that its sender has the key. It is used if the authorization server announces
// it and the MCP server asks for it; see [metadata.Discovery.WantsDPoP]. The key belongs to
// one authorization and is stored with it. Without its key an authorization is of no use:
// the user authorizes again.

// errUseNonce is the error code with which both servers demand a nonce in the proof (RFC
// 9449, sections 8 and 9).
const errUseNonce = "use_dpop_nonce"

// maxNonceBytes bounds the nonces that are kept.
const maxNonceBytes = 1 << 10

// dpopKey signs proofs with ES256. It is never changed.
type dpopKey struct {
	private *ecdsa.PrivateKey
	text    string // of [mcpvisor.Authorization].DPoPKey
	header  string // the first part of every proof
}

// newDPoPKey makes a key.
func newDPoPKey() (*dpopKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for DPoP: %w", err)
	}
	return dpopKeyOf(private)
}

// parseDPoPKey reads a stored key.
func parseDPoPKey(text string) (*dpopKey, error) {
	scalar, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the key of the tokens is damaged") // err quotes a part of the key
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, errors.New("the key of the tokens is damaged")
	}
	return dpopKeyOf(private)
}

func dpopKeyOf(private *ecdsa.PrivateKey) (*dpopKey, error) {
	scalar, err := private.Bytes()
	if err != nil {
		return nil, err
	}
	point, err := private.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	jwk := map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
	return &dpopKey{private: private, text: encode(scalar),
		header: encodePart(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk})}, nil
}

// proof returns the proof for one request (RFC 9449, section 4.2). token is the access token
// that the request carries; empty for a request to the token endpoint. body is the content
// of a request to the MCP server, whose digest MCP adds (extension "DPoP Profile for MCP").
func (k *dpopKey) proof(method string, target *url.URL, token, nonce string, body []byte) (string, error) {
	uri := url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path, RawPath: target.RawPath}
	claims := map[string]any{"jti": rand.Text(), "htm": method, "htu": uri.String(), "iat": time.Now().Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
		if body != nil {
			sum = sha256.Sum256(body)
			claims["content_digest"] = "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
		}
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	text := k.header + "." + encodePart(claims)
	signature, err := sign(k.private, []byte(text))
	if err != nil {
		return "", fmt.Errorf("signing a DPoP proof: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// proofKey returns the key for the tokens of a new grant: that of the current tokens, or a
// new one. It returns nil if the grant gets bearer tokens.
func (a *Authorizer) proofKey(d *metadata.Discovery, c metadata.Challenge) (*dpopKey, error) {
	a.mu.Lock()
	key := a.dpop
	a.mu.Unlock()
	if key == nil && d.WantsDPoP(c) {
		return newDPoPKey()
	}
	if !d.DPoP {
		key = nil
	}
	return key, nil
}

// nonceOf returns the nonce of a response (RFC 9449, section 8.1); empty if there is none
// that can be used.
func nonceOf(h http.Header) string {
	nonce := h.Get("DPoP-Nonce")
	if len(nonce) > maxNonceBytes || strings.ContainsFunc(nonce, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return ""
	}
	return nonce
}

// Credential is how a request to the MCP server presents an access token.
type Credential struct {
	token string
	key   *dpopKey // nil: a bearer token
	nonce string   // for the proof; empty: none
	// demanded: the server demanded the nonce for this request.
	demanded bool
}

// Credential returns how to present the access token that [Authorizer.Token] has returned.
func (a *Authorizer) Credential(token string) Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Credential{token: token, key: a.dpop, nonce: a.serverNonce}
}

// Authorization returns the value of the header Authorization; empty without a token.
func (c Credential) Authorization() string {
	switch {
	case c.token == "":
		return ""
	case c.key != nil:
		return "DPoP " + c.token // RFC 9449, section 7.1
	}
	return "Bearer " + c.token
}

// NeedsProof reports whether each request with the credential needs a header DPoP.
func (c Credential) NeedsProof() bool { return c.key != nil && c.token != "" }

// Proof returns the value of the header DPoP for one request, which must not be sent a
// second time. target is the address that the server sees.
func (c Credential) Proof(method string, target *url.URL, body []byte) (string, error) {
	return c.key.proof(method, target, c.token, c.nonce, body)
}

// NonceDemanded reports whether the server refused a request because its proof has no nonce,
// or an old one. The token is not the reason.
func (c Credential) NonceDemanded(status int, h http.Header) bool {
	return c.NeedsProof() && status == http.StatusUnauthorized && metadata.ParseChallenge(h).Code == errUseNonce
}

// WithNonce returns the credential with the nonce that a response demands. It reports false
// if the response has no nonce, or the one that was used.
func (c Credential) WithNonce(h http.Header) (next Credential, ok bool) {
	nonce := nonceOf(h)
	ok = nonce != "" && nonce != c.nonce
	c.nonce, c.demanded = nonce, true
	return c, ok
}

// NoteNonce keeps a nonce for later requests, after a request that was not refused for its
// own: the nonce of the response, else the one that was demanded. A demanded nonce is not
// kept before its request has used it, because it may be good for one request only.
func (a *Authorizer) NoteNonce(c Credential, h http.Header) {
	if !c.NeedsProof() {
		return
	}
	nonce := nonceOf(h)
	if nonce == "" && c.demanded {
		nonce = c.nonce
	}
	if nonce != "" {
		a.mu.Lock()
		a.serverNonce = nonce
		a.mu.Unlock()
	}
}
