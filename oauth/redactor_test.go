package oauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// Current values are masked however many others were added. Replaced ones are masked
// for a while.
func TestRedactor_current_values(t *testing.T) {
	var s redactor
	s.addPermanent("of-the-spec")
	s.setCurrent("access-1", "refresh-1")
	many := func() {
		for i := range 2 * maxRecentSecrets {
			s.add(fmt.Sprintf("state-%04d", i))
		}
	}
	many()
	s.setCurrent("access-2", "refresh-2")
	require.Equal(t, "*** *** *** *** ***", s.redact("of-the-spec access-1 refresh-1 access-2 refresh-2"))
	many()
	require.Equal(t, "*** *** *** access-1", s.redact("of-the-spec access-2 refresh-2 access-1"))

	s.add("used-again")
	for i := range maxRecentSecrets - 1 {
		s.add(fmt.Sprintf("other-%04d", i))
	}
	s.add("used-again", "and-one-more")
	require.Equal(t, "***", s.redact("used-again"), "the value added last is dropped last")
	require.LessOrEqual(t, len(s.recent), maxRecentSecrets)
}

func TestRedact_current_token(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve})
	requireOK(t, a)
	for i := range 2 * maxRecentSecrets {
		a.redactor.add(fmt.Sprintf("state-%04d", i))
	}
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.accessToken()))
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.tokens.RefreshToken))
}

func TestRedact_secrets_of_the_spec(t *testing.T) {
	for _, o := range []Config{{ClientID: "me", ClientSecret: "the-secret"}, {ClientID: "me", PrivateKey: "the-secret"}} {
		o.Store = NewMemoryStore()
		a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: "https://mcp.example/mcp", Auth: &o, Headers: map[string]string{"X-Key": "the-header"}}, func(string) {})
		require.NoError(t, err)
		require.Equal(t, "*** and ***", a.Redact("the-secret and the-header"))
	}
}

func TestRedactor_encoded_forms(t *testing.T) {
	const secret = `p+ss/w rd"&\é`
	var s redactor
	s.addPermanent(secret)
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`)} {
		require.Equal(t, "it is ***.", s.redact("it is "+form+"."))
	}
	s.addPermanent("p+ss/w") // a prefix of the other secret
	require.Equal(t, "***", s.redact(secret), "no rest of the longer secret is left")
}

func TestRedact_basic_credentials(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{AuthMethods: []string{"client_secret_basic"}})
	s.AddClient("me", "my-secret")
	a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, ClientID: "me", ClientSecret: "my-secret"})
	requireOK(t, a)
	require.Equal(t, "Basic ***", a.Redact("Basic "+base64.StdEncoding.EncodeToString([]byte("me:my-secret"))))
}
