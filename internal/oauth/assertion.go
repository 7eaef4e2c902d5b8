package oauth

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
	"time"
)

// assertionLife is how long an assertion is good: one request.
const assertionLife = 2 * time.Minute

// signAssertion makes the JWT by which a client identifies itself with its
// key (RFC 7523, section 3).
func signAssertion(keyPEM, clientID, audience string) (string, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return "", err
	}
	header := map[string]string{"typ": "JWT"}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		header["alg"] = "RS256"
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return "", errors.New("PrivateKey is of another curve than P-256; make one of that")
		}
		header["alg"] = "ES256"
	case ed25519.PrivateKey:
		header["alg"] = "EdDSA"
	default:
		return "", fmt.Errorf("PrivateKey is of an unsupported kind (%T); use RSA, P-256 or Ed25519", key)
	}
	now := time.Now()
	claims := map[string]any{"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix()}
	text := part(header) + "." + part(claims)
	signature, err := sign(key, []byte(text))
	if err != nil {
		return "", fmt.Errorf("PrivateKey cannot sign: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// part is one part of a JWT.
func part(v any) string {
	raw, _ := json.Marshal(v) // strings and numbers always marshal
	return base64.RawURLEncoding.EncodeToString(raw)
}

func sign(key crypto.Signer, text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, digest[:])
		if err != nil {
			return nil, err
		}
		signature := make([]byte, 64) // JWS wants the two numbers, and no ASN.1
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature, nil
	case ed25519.PrivateKey:
		return key.Sign(rand.Reader, text, crypto.Hash(0))
	}
	return key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

func parseKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("PrivateKey is no PEM; it begins with -----BEGIN PRIVATE KEY-----")
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
	return nil, errors.New("PrivateKey cannot be read; give PKCS #8 without a password")
}
