package oauth

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A renewal asks for the scopes that were granted last (RFC 6749, section 6).
func TestRenew_scope(t *testing.T) {
	const wide, narrow = `,"scope":"read write"`, `,"scope":"read"`
	for name, c := range map[string]struct {
		grant    string   // the scope in the answer to the code; empty: no word of it
		renewals []string // the same for renewals, one after the other
		want     []string // the scope of the renewals
	}{
		"all_granted":          {wide, []string{wide, wide}, []string{"read write", "read write"}},
		"fewer_granted":        {narrow, []string{narrow, narrow}, []string{"read", "read"}},
		"answer_without_scope": {"", []string{"", ""}, []string{"read write", "read write"}},
		"empty_scope":          {`,"scope":""`, []string{""}, []string{"read write"}},
		"narrowed_later":       {wide, []string{narrow, ""}, []string{"read write", "read"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []url.Values
			s := newAuthServer(t, oauthtest.Rules{})
			s.Set(oauthtest.Rules{Token: func(w http.ResponseWriter, r *http.Request) bool {
				extra := c.grant
				if r.PostForm.Get("grant_type") == "refresh_token" {
					asked = append(asked, r.PostForm)
					extra = c.renewals[len(asked)-1]
				}
				answerWith(w, http.StatusOK, `{"access_token":"access-`+r.PostForm.Get("refresh_token")+`","token_type":"Bearer","refresh_token":"r`+r.PostForm.Get("refresh_token")+`"`+extra+`}`)
				return true
			}})
			a := newAuthorizer(t, s, Config{FetchAuthorizationCode: approve, Scopes: []string{"read", "write"}})
			_, _ = sendRequest(t.Context(), a, "") // the token of this server is not valid at the endpoint
			asked = nil
			for i, want := range c.want {
				setExpiry(t, a, 0, time.Hour)
				_, err := a.token(t.Context())
				require.NoError(t, err)
				require.Len(t, asked, i+1)
				require.Equal(t, want, asked[i].Get("scope"))
			}
		})
	}
}

// The tokens of an earlier version have no scopes.
func TestRenew_scope_unknown(t *testing.T) {
	s, store := newServerWithTokens(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: store})
	a.mu.Lock()
	a.tokens = a.tokens.clone()
	a.tokens.Scopes, a.tokens.RequestedScopes = nil, nil
	a.mu.Unlock()
	setExpiry(t, a, 0, time.Hour)
	requireOK(t, a)
	require.False(t, s.Counts().LastToken.Has("scope"))
}

// A server that refuses the scope is asked once more, without it.
func TestRenew_scope_refused(t *testing.T) {
	var asked []url.Values
	s, store := newServerWithTokens(t, oauthtest.Rules{Rotate: true}, "read")
	s.Set(oauthtest.Rules{Rotate: true, Token: func(w http.ResponseWriter, r *http.Request) bool {
		asked = append(asked, r.PostForm)
		if r.PostForm.Has("scope") {
			answerWith(w, http.StatusBadRequest, `{"error":"invalid_scope"}`)
		}
		return r.PostForm.Has("scope")
	}})
	a := newAuthorizer(t, s, Config{Store: store})
	setExpiry(t, a, 0, time.Hour)
	requireOK(t, a)
	require.Len(t, asked, 2)
	require.Equal(t, "read", asked[0].Get("scope"))

	s.Set(oauthtest.Rules{Rotate: true, Token: func(w http.ResponseWriter, r *http.Request) bool {
		asked = append(asked, r.PostForm)
		answerWith(w, http.StatusBadRequest, `{"error":"invalid_scope"}`)
		return true
	}})
	asked = nil
	setExpiry(t, a, 0, time.Hour)
	_, _ = a.token(t.Context())
	require.Len(t, asked, 2)
}
