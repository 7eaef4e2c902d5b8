package gateway

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A token that is removed ends its stream and its subscription, and is refused. Those of another token of the principal
// continue, and so does the session.
func TestTokenSet_revokes(t *testing.T) {
	first, second := Token{Principal: "p", SHA256: HashToken("first")}, Token{Principal: "p", SHA256: HashToken("second")}
	set := new(TokenSet)
	set.Set(first, second, first)
	set.Set(first, first, second) // a line that is there twice is revoked as a whole
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})), WithTokenSet(set))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer first")
	p.initialize("2025-11-25")
	stream := p.listen()
	subscribe := func(token string) io.Reader {
		other := newPeer(t, url)
		other.header.Set("Authorization", "Bearer "+token)
		response := other.do(t.Context(), http.MethodPost, modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), versionHeader, modernVersion, methodHeader, "subscriptions/listen")
		require.Equal(t, http.StatusOK, response.StatusCode)
		return response.Body
	}
	ended := func(body io.Reader) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, body)
		}()
		return done
	}
	revoked, kept := ended(subscribe("first")), ended(subscribe("second"))
	streamed := ended(stream.body)

	set.Set(second)
	receive(t, revoked)
	receive(t, streamed)
	status, _ := p.post(pingRequest)
	require.Equal(t, http.StatusUnauthorized, status)
	p.header.Set("Authorization", "Bearer second")
	status, _ = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status, "the session continues")

	set.Set(second, first)
	p.header.Set("Authorization", "Bearer first")
	status, _ = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status, "the token was added")
	select {
	case <-kept:
		t.Fatal("the subscription of the other token has ended")
	default:
	}
}

// A token that has expired is refused.
func TestTokenSet_expires(t *testing.T) {
	set := new(TokenSet)
	set.Set(Token{Principal: "p", SHA256: HashToken("old"), Expires: time.Now().Add(-time.Hour)}, Token{Principal: "p", SHA256: HashToken("new"), Expires: time.Now().Add(time.Hour)})
	_, url := serveHTTP(t, newClient(t), WithTokenSet(set))
	for token, want := range map[string]int{"old": http.StatusUnauthorized, "new": http.StatusOK} {
		p := newPeer(t, url)
		status, answer := p.post(initializeRequest("2025-11-25"), "Authorization", "Bearer "+token)
		require.Equal(t, want, status, answer)
	}
}

// A token that stays has the life that it had, and one that changes has a new one.
func TestTokenSet_keeps_lives(t *testing.T) {
	expires := time.Now().Add(time.Hour)
	set := new(TokenSet)
	set.Set(Token{Principal: "p", SHA256: HashToken("x"), Expires: expires})
	before, err := set.verify(context.Background(), "x", nil)
	require.NoError(t, err)
	life := before.Extra[lifeKey].(context.Context) //nolint:forcetypeassert // as set
	set.Set(Token{Principal: "p", SHA256: HashToken("x"), Expires: expires.Local()})
	require.NoError(t, life.Err())
	set.Set(Token{Principal: "p", Profile: "read", SHA256: HashToken("x"), Expires: expires})
	require.Error(t, life.Err())
}
