// Package jwt signs the JSON Web Tokens that a client presents: assertions by its private key
// (RFC 7523), and DPoP proofs (RFC 9449).
package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// clientAssertionLifetime is the lifetime of a client assertion. Each is used once.
const clientAssertionLifetime = 2 * time.Minute

// SignClientAssertion returns the JWT with which a client authenticates by its
// private key (private_key_jwt; RFC 7523, section 3). audience is the issuer.
func SignClientAssertion(keyPEM, clientID, audience string) (string, error) {
	key, err := parsePrivateKey(keyPEM)
	if err != nil {
		return "", err
	}
	header := map[string]string{"typ": "JWT"}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		header["alg"] = "RS256"
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return "", errors.New("PrivateKey uses another curve than P-256; create a P-256 key")
		}
		header["alg"] = "ES256"
	case ed25519.PrivateKey:
		header["alg"] = "EdDSA"
	default:
		return "", fmt.Errorf("PrivateKey has an unsupported type (%T); use RSA, P-256 or Ed25519", key)
	}
	// RFC 7523, section 3: iss and sub are the client, aud is the authorization server, and
	// jti makes each assertion unique.
	now := time.Now()
	claims := map[string]any{"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(clientAssertionLifetime).Unix()}
	text := encodePart(header) + "." + encodePart(claims)
	signature, err := sign(key, []byte(text))
	if err != nil {
		return "", fmt.Errorf("PrivateKey cannot sign: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// encodePart returns one part of a JWT (RFC 7519, section 3).
func encodePart(v any) string {
	raw, _ := json.Marshal(v) // strings and numbers always marshal
	return base64.RawURLEncoding.EncodeToString(raw)
}

// sign returns the JWS signature of text (RFC 7518, section 3; RFC 8037).
func sign(key crypto.Signer, text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest[:])
		if err != nil {
			return nil, err
		}
		signature := make([]byte, 64) // RFC 7518, section 3.4: R and S, not ASN.1
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature, nil
	case ed25519.PrivateKey: // signs the text itself, not a digest
		return key.Sign(rand.Reader, text, crypto.Hash(0))
	}
	return key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// parsePrivateKey reads a key in PEM: PKCS #8, PKCS #1 or SEC 1.
func parsePrivateKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("PrivateKey is not PEM; it must begin with -----BEGIN PRIVATE KEY-----")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	return nil, errors.New("PrivateKey cannot be parsed; use PKCS #8 without a password")
}

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
