package jwt

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
