package jwt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// DPoP (RFC 9449) binds tokens to a key of this client: each request proves by a signature,
// the proof, that its sender has the key. It is used if the authorization server announces
// it and the MCP server asks for it; see metadata.Discovery.WantsDPoP. The key belongs to
// one authorization and is stored with it. Without its key an authorization is of no use:
// the user authorizes again.

// DPoPKey signs proofs with ES256. It is never changed.
type DPoPKey struct {
	private *ecdsa.PrivateKey
	text    string
	header  string
}

// Text returns the key as ParseDPoPKey reads it. It is a secret.
func (k *DPoPKey) Text() string { return k.text }

// Header returns the first part of every proof.
func (k *DPoPKey) Header() string { return k.header }

// NewDPoPKey makes a key.
func NewDPoPKey() (*DPoPKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for DPoP: %w", err)
	}
	return keyOf(private)
}

// ParseDPoPKey reads a stored key.
func ParseDPoPKey(text string) (*DPoPKey, error) {
	scalar, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the key of the tokens is damaged") // err quotes a part of the key
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, errors.New("the key of the tokens is damaged")
	}
	return keyOf(private)
}

func keyOf(private *ecdsa.PrivateKey) (*DPoPKey, error) {
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
	return &DPoPKey{private: private, text: encode(scalar),
		header: encodePart(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk})}, nil
}

// Proof returns the proof for one request (RFC 9449, section 4.2). token is the access token
// that the request carries; empty for a request to the token endpoint. body is the content
// of a request to the MCP server, whose digest MCP adds (extension "DPoP Profile for MCP").
func (k *DPoPKey) Proof(method string, target *url.URL, token, nonce string, body []byte) (string, error) {
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
