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
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestSignClientAssertion(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, d, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for alg, c := range map[string]struct {
		key    any
		verify func(text string, digest, signature []byte) bool
	}{
		"RS256": {r, func(_ string, digest, s []byte) bool {
			return rsa.VerifyPKCS1v15(&r.PublicKey, crypto.SHA256, digest, s) == nil
		}},
		"ES256": {e, func(_ string, digest, s []byte) bool {
			return len(s) == 64 && ecdsa.Verify(&e.PublicKey, digest, new(big.Int).SetBytes(s[:32]), new(big.Int).SetBytes(s[32:]))
		}},
		"EdDSA": {d, func(text string, _, s []byte) bool { return ed25519.Verify(public, []byte(text), s) }},
	} {
		jwt, err := SignClientAssertion(pemOf(t, c.key), "me", "https://auth.example")
		require.NoError(t, err)
		parts := strings.Split(jwt, ".")
		require.Len(t, parts, 3)
		decoded := make([][]byte, 3)
		for i := range parts {
			decoded[i], err = base64.RawURLEncoding.DecodeString(parts[i])
			require.NoError(t, err)
		}
		var header, claims map[string]any
		require.NoError(t, json.Unmarshal(decoded[0], &header))
		require.NoError(t, json.Unmarshal(decoded[1], &claims))
		require.Equal(t, alg, header["alg"])
		require.Equal(t, "me", claims["iss"])
		require.Equal(t, "me", claims["sub"])
		require.Equal(t, "https://auth.example", claims["aud"])
		require.NotEmpty(t, claims["jti"])
		require.Greater(t, claims["exp"], float64(time.Now().Unix()))
		text := parts[0] + "." + parts[1]
		digest := sha256.Sum256([]byte(text))
		require.True(t, c.verify(text, digest[:], decoded[2]), alg)
	}
}

func TestSignClientAssertion_unusable_key(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for _, key := range []string{"", "secret words", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", pemOf(t, p384)} {
		_, err := SignClientAssertion(key, "me", "https://auth.example")
		require.ErrorContains(t, err, "PrivateKey")
		require.NotContains(t, err.Error(), "secret words")
	}
}
