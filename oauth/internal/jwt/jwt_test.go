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
	"net/http"
	"net/url"
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

func decodeBase64(t *testing.T, part string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	require.NoError(t, err)
	return text
}

// The claims of a proof are those of RFC 9449, section 4.2, and each proof is a new one.
func TestDPoPProof_claims(t *testing.T) {
	key, err := NewDPoPKey()
	require.NoError(t, err)
	same, err := ParseDPoPKey(key.Text())
	require.NoError(t, err)
	require.Equal(t, key.Header(), same.Header())
	target, err := url.Parse("https://user:secret@mcp.example:8443/a%2Fb?query=1#part")
	require.NoError(t, err)
	claims := func(token, nonce string, body []byte) (all map[string]any) {
		proof, err := same.Proof(http.MethodPost, target, token, nonce, body)
		require.NoError(t, err)
		parts := strings.Split(proof, ".")
		require.Len(t, parts, 3)
		require.Equal(t, key.Header(), parts[0])
		require.NoError(t, json.Unmarshal(decodeBase64(t, parts[1]), &all))
		require.InDelta(t, time.Now().Unix(), all["iat"], 60)
		delete(all, "iat")
		return all
	}
	// The example of the access token and its hash is that of RFC 9449, section 7.1.
	got := claims("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU", "n-1", []byte("{}"))
	id := got["jti"]
	require.Len(t, id, 26)
	delete(got, "jti")
	require.Equal(t, map[string]any{"htm": "POST", "htu": "https://mcp.example:8443/a%2Fb", "nonce": "n-1",
		"ath":            "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo",
		"content_digest": "sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:"}, got)
	got = claims("", "", nil)
	require.NotEqual(t, id, got["jti"])
	require.Len(t, got, 3, "a proof for the token endpoint has no ath and no digest")
	var header map[string]any
	require.NoError(t, json.Unmarshal(decodeBase64(t, key.Header()), &header))
	require.NotContains(t, header["jwk"], "d", "the private key")
}
