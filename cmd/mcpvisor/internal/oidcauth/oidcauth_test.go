package oidcauth

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/oidcauth/oidctest"
	"github.com/mcpvisor/mcpvisor/gateway"
)

func newVerifier(t *testing.T, o Options) *Verifier {
	t.Helper()
	v, err := New(o)
	require.NoError(t, err)
	return v
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// ownKey signs a token that brings its key.
func ownKey(t *testing.T, key *rsa.PrivateKey, claims string) string {
	t.Helper()
	text := encode(fmt.Sprintf(`{"alg":"RS256","jwk":{"kty":"RSA","n":%q,"e":"AQAB"}}`, encode(string(key.N.Bytes())))) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	return text + "." + encode(string(signature))
}

// A token is accepted if the issuer has signed it, for this audience, and it has not expired.
func TestVerify(t *testing.T) {
	i := oidctest.New(t)
	v := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway"})
	stranger := oidctest.NewKey(t)
	// A token that is not signed by RS256.
	plain := func(head string) string { return encode(head) + "." + encode(i.Claims(nil)) + "." }
	// The public key of the issuer as the secret of an HMAC.
	confused := plain(`{"alg":"HS256","kid":"first"}`)
	mac := hmac.New(sha256.New, i.Key().N.Bytes())
	mac.Write([]byte(strings.TrimSuffix(confused, ".")))
	hour := time.Now().Add(time.Hour).Unix()
	good := i.Token(map[string]any{"exp": hour})
	for name, row := range map[string]struct{ token, says string }{
		"good":                     {good, ""},
		"good, of several":         {i.Token(map[string]any{"exp": hour, "aud": []string{"other", "gateway"}}), ""},
		"another audience":         {i.Token(map[string]any{"aud": "other"}), `it was not made for "gateway"`},
		"no audience":              {i.Token(map[string]any{"aud": nil}), `it was not made for "gateway"`},
		"expired":                  {i.Token(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "it has expired"},
		"no expiry":                {i.Token(map[string]any{"exp": nil}), "it has expired"},
		"not valid yet":            {i.Token(map[string]any{"nbf": hour}), "it is not valid yet"},
		"another issuer":           {i.Token(map[string]any{"iss": "https://evil.example"}), "it is of another issuer"},
		"no issuer":                {i.Token(map[string]any{"iss": nil}), "it is of another issuer"},
		"no subject":               {i.Token(map[string]any{"sub": nil}), "it has no usable subject"},
		"a subject with NUL":       {i.Token(map[string]any{"sub": "a\x00b"}), "it has no usable subject"},
		"an unknown key":           {oidctest.Sign(stranger, "other", i.Claims(nil)), "it is not a token that the issuer has signed"},
		"its key id, another key":  {oidctest.Sign(stranger, "first", i.Claims(nil)), "it is not a token that the issuer has signed"},
		"a key of its own":         {ownKey(t, stranger, i.Claims(nil)), "it is not a token that the issuer has signed"},
		"alg none":                 {plain(`{"alg":"none"}`), "it is not a token that the issuer has signed"},
		"alg HS256":                {confused + encode(string(mac.Sum(nil))), "it is not a token that the issuer has signed"},
		"another signature":        {good[:len(good)-8] + "AAAAAAAA", "it is not a token that the issuer has signed"},
		"other claims, signed not": {strings.Join([]string{strings.Split(good, ".")[0], encode(`{"iss":"` + i.URL + `","aud":"gateway","sub":"root","exp":9999999999}`), strings.Split(good, ".")[2]}, "."), "it is not a token that the issuer has signed"},
		"empty":                    {"", "it is not a token that the issuer has signed"},
		"no token":                 {"a.b.c", "it is not a token that the issuer has signed"},
	} {
		t.Run(name, func(t *testing.T) {
			v.fetches.rate.SetBurst(1000) // so that no case is refused because of the others
			info, err := v.Verify(t.Context(), row.token, nil)
			if row.says == "" {
				require.NoError(t, err)
				require.Equal(t, "alice", info.UserID)
				require.Equal(t, hour, info.Expiration.Unix())
				return
			}
			require.ErrorIs(t, err, auth.ErrInvalidToken)
			require.ErrorContains(t, err, row.says)
			require.Nil(t, info)
		})
	}
}

// Scopes and the profile come from the claims.
func TestVerify_claims(t *testing.T) {
	i := oidctest.New(t)
	v := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway", ProfileClaim: "team"})
	for _, row := range []struct {
		claims map[string]any
		scopes []string
	}{
		{map[string]any{"scope": "a b"}, []string{"a", "b"}}, {map[string]any{"scp": []string{"a", "b"}}, []string{"a", "b"}}, {map[string]any{"scp": "a b"}, []string{"a", "b"}}, {nil, []string{}},
	} {
		claims := map[string]any{"team": "review"}
		for name, value := range row.claims {
			claims[name] = value
		}
		info, err := v.Verify(t.Context(), i.Token(claims), nil)
		require.NoError(t, err)
		require.Equal(t, row.scopes, info.Scopes)
		require.Equal(t, map[string]any{gateway.ProfileKey: "review"}, info.Extra)
	}
	info, err := v.Verify(t.Context(), i.Token(map[string]any{"team": []string{"review", "write"}}), nil)
	require.NoError(t, err)
	require.Equal(t, "review,write", info.Extra[gateway.ProfileKey])
	for _, team := range []any{nil, "", 7, []any{}, []any{"review", 7}, []string{""}} {
		_, err := v.Verify(t.Context(), i.Token(map[string]any{"team": team}), nil)
		require.ErrorIs(t, err, auth.ErrInvalidToken)
		require.ErrorContains(t, err, `it has no claim "team"`)
	}
}

// A key that the issuer has changed is fetched, and the old one no longer counts.
func TestVerify_rotated_key(t *testing.T) {
	i := oidctest.New(t)
	v := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway"})
	old := i.Token(nil)
	_, err := v.Verify(t.Context(), old, nil)
	require.NoError(t, err)
	i.Rotate("second")
	_, err = v.Verify(t.Context(), old, nil)
	require.NoError(t, err, "the keys are asked for when one is unknown")
	_, err = v.Verify(t.Context(), i.Token(nil), nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the library keeps the new keys a moment after it has used them
		_, err := v.Verify(t.Context(), old, nil)
		return errors.Is(err, auth.ErrInvalidToken)
	}, time.Minute, time.Millisecond)
	require.EqualValues(t, 3, i.Fetched.Load())

	i.Down.Store(true)
	_, err = v.Verify(t.Context(), i.Token(nil), nil)
	require.NoError(t, err, "known keys do not need the issuer")
	i.Rotate("third")
	_, err = v.Verify(t.Context(), i.Token(nil), nil)
	require.ErrorContains(t, err, "tokens cannot be checked: the keys of the issuer "+i.URL+" cannot be fetched")
	require.NotErrorIs(t, err, auth.ErrInvalidToken, "it may be good")
	require.NotContains(t, err.Error(), "secret")
}

// An issuer that is down at the start is asked again, not for each token, and what it says is said once.
func TestVerify_issuer_is_down(t *testing.T) {
	i := oidctest.New(t)
	i.Down.Store(true)
	var said []string
	v := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway", Log: func(text string) { said = append(said, text) }})
	began := time.Now()
	require.ErrorContains(t, v.Prepare(t.Context()), "the issuer "+i.URL+" cannot be used: it has answered with an error")
	require.False(t, v.next.Before(began.Add(firstWait)), "it is not asked again at once")
	v.next = began.Add(time.Hour) // however slow this machine is
	before := v.fetches.failures.Load()
	for range 5 {
		_, err := v.Verify(t.Context(), i.Token(nil), nil)
		require.ErrorContains(t, err, "tokens cannot be checked: the issuer "+i.URL+" cannot be used")
		require.NotErrorIs(t, err, auth.ErrInvalidToken)
	}
	require.Equal(t, before, v.fetches.failures.Load(), "it is not asked for each token")
	i.Down.Store(false)
	v.next = time.Time{} // the wait is over
	_, err := v.Verify(t.Context(), i.Token(nil), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"the issuer " + i.URL + " cannot be used: it has answered with an error; until it can, no token is accepted", "the issuer " + i.URL + " can be used now"}, said)

	for _, row := range []struct{ answer, says string }{
		{`{"issuer":"https://evil.example"}`, `it calls itself "https://evil.example"; use that name`},
		{`<html>`, "it has not answered with a configuration of OpenID Connect"},
		{strings.Repeat(" ", 2*maxAnswerBytes) + `{}`, "it has not answered with a configuration of OpenID Connect"},
		{"", "it has not answered with a configuration of OpenID Connect"},
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, row.answer) }))
		err := newVerifier(t, Options{Issuer: other.URL, Audience: "gateway"}).Prepare(t.Context())
		other.Close()
		require.ErrorContains(t, err, row.says)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	blocked := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway"})
	blocked.turn <- struct{}{}
	_, err = blocked.Verify(gone, "x", nil)
	require.ErrorIs(t, err, context.Canceled)
}

// Strangers who send tokens with unknown keys cannot make this program ask the issuer for each.
func TestVerify_flood_of_unknown_keys(t *testing.T) {
	i := oidctest.New(t)
	v := newVerifier(t, Options{Issuer: i.URL, Audience: "gateway"})
	stranger := oidctest.NewKey(t)
	token := oidctest.Sign(stranger, "other", i.Claims(nil))
	good := i.Token(nil)
	_, err := v.Verify(t.Context(), good, nil)
	require.NoError(t, err)
	for range 200 {
		_, err := v.Verify(t.Context(), token, nil)
		require.ErrorIs(t, err, auth.ErrInvalidToken)
	}
	require.LessOrEqual(t, i.Fetched.Load(), int64(fetchBurst+10))
	_, err = v.Verify(t.Context(), good, nil)
	require.NoError(t, err, "known keys are not fetched")
}

func TestNew_errors(t *testing.T) {
	for says, o := range map[string]Options{
		"is not the address of one; write for instance https://login.example.com": {Issuer: "login.example.com", Audience: "x"},
		"must be https":         {Issuer: "http://login.example.com", Audience: "x"},
		"an audience is needed": {Issuer: "https://login.example.com"},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, says)
	}
	evil := newFetches(nil)
	r, err := http.NewRequest(http.MethodGet, "http://evil.example/keys", nil)
	require.NoError(t, err)
	_, err = evil.RoundTrip(r)
	require.ErrorIs(t, err, errUnsafe)
}

// The metadata is served at its path and at those of the profiles below it, and at no other path.
func TestResource(t *testing.T) {
	public, err := url.Parse("https://mcp.example.com/tools/mcp")
	require.NoError(t, err)
	r := Resource{URL: public, Issuer: "https://login.example.com", Scopes: []string{"mcp"}}
	require.Equal(t, "https://mcp.example.com/.well-known/oauth-protected-resource/tools/mcp", r.MetadataURL())
	for path, resource := range map[string]string{
		MetadataPath: "https://mcp.example.com/tools/mcp", MetadataPath + "/": "https://mcp.example.com/tools/mcp", MetadataPath + "/tools/mcp": "https://mcp.example.com/tools/mcp",
		MetadataPath + "/tools/mcp/review": "https://mcp.example.com/tools/mcp/review", MetadataPath + "/tools/mcpx": "", MetadataPath + "/other": "",
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		if resource == "" {
			require.Equal(t, http.StatusNotFound, w.Code, path)
			continue
		}
		var said map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said), path)
		require.Equal(t, map[string]any{"resource": resource, "authorization_servers": []any{"https://login.example.com"}, "scopes_supported": []any{"mcp"},
			"bearer_methods_supported": []any{"header"}, "resource_name": "mcpvisor"}, said, path)
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		w = httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodOptions, "http://127.0.0.1"+path, nil))
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Headers"))
	}
}
