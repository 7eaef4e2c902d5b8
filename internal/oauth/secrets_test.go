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
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What is at hand is hidden, whatever else there was meanwhile; what was at hand
// until a moment ago, too.
func TestSecretsAtHandStayHidden(t *testing.T) {
	var s secrets
	s.keep("of-the-spec")
	s.hold("access-1", "refresh-1")
	many := func() {
		for i := range 2 * secretsKept {
			s.hide(fmt.Sprintf("state-%04d", i))
		}
	}
	many()
	s.hold("access-2", "refresh-2")
	require.Equal(t, "*** *** *** *** ***", s.replace("of-the-spec access-1 refresh-1 access-2 refresh-2"))
	many()
	require.Equal(t, "*** *** *** access-1", s.replace("of-the-spec access-2 refresh-2 access-1"))

	s.hide("used-again")
	for i := range secretsKept - 1 {
		s.hide(fmt.Sprintf("other-%04d", i))
	}
	s.hide("used-again", "and-one-more")
	require.Equal(t, "***", s.replace("used-again"), "what is used last is dropped last")
	require.LessOrEqual(t, len(s.recent), secretsKept)
}

func TestTokenAtHandStaysHidden(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	requireOK(t, a)
	for i := range 2 * secretsKept {
		a.secrets.hide(fmt.Sprintf("state-%04d", i))
	}
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.AccessToken()))
	require.Equal(t, "you sent ***", a.Redact("you sent "+a.held.RefreshToken))
}

// What the spec holds is hidden from the first word on, before it was ever used.
func TestSecretsOfTheSpecAreHidden(t *testing.T) {
	for _, o := range []mcpvisor.OAuth{{ClientID: "me", ClientSecret: "the-secret"}, {ClientID: "me", PrivateKey: "the-secret"}} {
		o.Store = NewMemoryStore()
		a, err := New(&mcpvisor.HTTP{URL: "https://mcp.example/mcp", Auth: &o, Headers: map[string]string{"X-Key": "the-header"}}, func(string) {})
		require.NoError(t, err)
		require.Equal(t, "*** and ***", a.Redact("the-secret and the-header"))
	}
}

// A secret is hidden in whichever form it travels.
func TestSecretsAreHiddenInEachForm(t *testing.T) {
	const secret = `p+ss/w rd"&\é`
	var s secrets
	s.keep(secret)
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`)} {
		require.Equal(t, "it is ***.", s.replace("it is "+form+"."))
	}
	s.keep("p+ss/w") // the beginning of the other
	require.Equal(t, "***", s.replace(secret), "no end of it is left")
}

// What a client shows at the token endpoint is as good as its secret.
func TestBasicCredentialsAreHidden(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{AuthMethods: []string{"client_secret_basic"}})
	s.AddClient("me", "my-secret")
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, ClientID: "me", ClientSecret: "my-secret"})
	requireOK(t, a)
	require.Equal(t, "Basic ***", a.Redact("Basic "+base64.StdEncoding.EncodeToString([]byte("me:my-secret"))))
}
