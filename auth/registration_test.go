package auth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
)

func TestClientByHand(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		s := newAuthority(t, mcptest.AuthorityRules{AuthMethods: []string{method}})
		s.AddClient("by hand:+%", "its secret&=")
		a := newAuthorizer(t, s, messages.OAuth{Visit: visit, ClientID: "by hand:+%", ClientSecret: "its secret&="})
		requireOK(t, a)
		require.Zero(t, s.Counts().Registrations)
		require.Equal(t, method == "client_secret_post", s.Counts().LastToken.Has("client_secret"))
		s.Revoke(false, false)
		requireOK(t, a)
		require.Equal(t, 1, s.Counts().Refreshes)
	}
}

func TestRegisteredClientWithASecret(t *testing.T) {
	for _, method := range []string{"none", "client_secret_basic", "client_secret_post"} {
		s := newAuthority(t, mcptest.AuthorityRules{AuthMethods: []string{method}})
		store := NewMemoryStore()
		a := newAuthorizer(t, s, messages.OAuth{Visit: visit, Store: store})
		requireOK(t, a)
		s.Revoke(false, false)
		requireOK(t, newAuthorizer(t, s, messages.OAuth{Store: store}))
		require.Equal(t, 1, s.Counts().Refreshes, method)
	}
}

// Some servers read the client's name from the form alone, also where they offer
// both ways to show a secret; others refuse a form that has it beside the header.
func TestServersOrderOfMethods(t *testing.T) {
	for _, methods := range [][]string{{"client_secret_post", "client_secret_basic"}, {"client_secret_basic", "client_secret_post"}} {
		s := newAuthority(t, mcptest.AuthorityRules{AuthMethods: methods, Token: func(w http.ResponseWriter, r *http.Request) bool {
			if r.PostForm.Has("client_id") == (methods[0] == "client_secret_post") {
				return false
			}
			answerWith(w, http.StatusUnauthorized, `{"error":"invalid_client"}`)
			return true
		}})
		requireOK(t, newAuthorizer(t, s, messages.OAuth{Visit: visit}))
	}
}

// Some servers give a client the scopes that it registered for, and no others.
// Others register no client that names scopes.
func TestRegistrationNamesScopes(t *testing.T) {
	for _, takes := range []bool{true, false} {
		var asked []string
		desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct{ Scope string }
			_ = json.NewDecoder(r.Body).Decode(&m)
			if asked = append(asked, m.Scope); !takes && m.Scope != "" {
				answerWith(w, http.StatusForbidden, `{"error":"insufficient_scope"}`)
				return
			}
			answerWith(w, http.StatusCreated, `{"client_id":"me"}`)
		}))
		s := newAuthority(t, mcptest.AuthorityRules{Scopes: []string{"read"}, Document: func(_ string, d map[string]any) int {
			switch {
			case d["registration_endpoint"] != nil:
				d["registration_endpoint"] = desk.URL
			case d["resource"] != nil:
				d["scopes_supported"] = []string{"read", "write"}
			}
			return 0
		}})
		a := newAuthorizer(t, s, messages.OAuth{})
		require.Equal(t, []string{"read"}, requirePerson(t, a, "").Scopes)
		desk.Close()
		want := []string{"read write", ""}
		if takes {
			want = want[:1] // what it may ask for later, too
		}
		require.Equal(t, want, asked)
	}
}

func TestMetadataDocumentAsClient(t *testing.T) {
	supported := func(_ string, d map[string]any) int {
		d["client_id_metadata_document_supported"] = true
		return 0
	}
	o := messages.OAuth{Visit: visit, ClientMetadataURL: "https://host.example/client.json"}
	s := newAuthority(t, mcptest.AuthorityRules{Document: supported})
	requireOK(t, newAuthorizer(t, s, o))
	require.Zero(t, s.Counts().Registrations)
	require.Equal(t, o.ClientMetadataURL, s.Counts().LastVisit.Get("client_id"))

	s = newAuthority(t, mcptest.AuthorityRules{}) // knows no such documents
	requireOK(t, newAuthorizer(t, s, o))
	require.Equal(t, 1, s.Counts().Registrations)
}

// A secret is shown to no other authorization server than its own.
func TestSecretBelongsToOneIssuer(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	s.AddClient("me", "my-secret")
	a := newAuthorizer(t, s, messages.OAuth{Visit: visit, ClientID: "me", ClientSecret: "my-secret", Issuer: "https://right.example"})
	_, err := request(t.Context(), a, "")
	require.ErrorContains(t, err, "belongs to https://right.example")
	require.Empty(t, s.Counts().LastToken)

	// Without Issuer it is the one that was used first.
	store := NewMemoryStore()
	a = newAuthorizer(t, s, messages.OAuth{Visit: visit, ClientID: "me", ClientSecret: "my-secret", Store: store})
	requireOK(t, a)
	other := newAuthority(t, mcptest.AuthorityRules{})
	other.AddClient("me", "my-secret")
	s.Revoke(true, false)
	s.Set(mcptest.AuthorityRules{Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{other.Issuer}
		}
		return 0
	}})
	_, err = request(t.Context(), a, "")
	require.ErrorContains(t, err, "belongs to "+s.Issuer)
	require.Empty(t, other.Counts().LastToken)
}

// A client that registered itself does so again at another server, and leaves
// behind what it had at the first.
func TestServerMovesToAnotherIssuer(t *testing.T) {
	s, other := newAuthority(t, mcptest.AuthorityRules{}), newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, messages.OAuth{Visit: visit, RedirectURL: "http://127.0.0.1:9/callback"}) // nobody goes there
	requireOK(t, a)
	before := a.held
	s.Revoke(true, false)
	s.Set(mcptest.AuthorityRules{Document: func(_ string, d map[string]any) int {
		if d["authorization_servers"] != nil {
			d["authorization_servers"] = []string{other.Issuer}
		}
		return 0
	}})
	_, _ = request(t.Context(), a, "") // other gives tokens for itself only
	require.Equal(t, 1, other.Counts().Registrations)
	require.Equal(t, 1, other.Counts().Visits)
	require.NotEqual(t, before.ClientID, other.Counts().LastVisit.Get("client_id"))
}

func TestRegistrationIsRefused(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Document: func(_ string, d map[string]any) int {
		delete(d, "registration_endpoint")
		return 0
	}})
	a := newAuthorizer(t, s, messages.OAuth{Visit: visit})
	_, err := request(t.Context(), a, "")
	require.ErrorContains(t, err, "set ClientID")
}

// Whatever goes wrong, no secret is in what is said about it.
func TestErrorsHoldNoSecrets(t *testing.T) {
	var token string
	s := newAuthority(t, mcptest.AuthorityRules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") != "refresh_token" {
			return false
		}
		token = r.PostForm.Get("refresh_token")
		answerWith(w, http.StatusServiceUnavailable, "")
		return true
	}})
	a := newAuthorizer(t, s, messages.OAuth{Visit: visit})
	requireOK(t, a)
	access := a.Held()
	s.Revoke(false, false)
	_, err := request(t.Context(), a, "")
	require.Error(t, err)
	for _, secret := range []string{token, access, s.Counts().LastVisit.Get("state"), s.Counts().LastToken.Get("code_verifier")} {
		if secret == "" {
			continue
		}
		require.NotContains(t, err.Error(), secret)
		require.Equal(t, "said ***!", a.Hide("said "+secret+"!"))
	}

	parrot := newAuthority(t, mcptest.AuthorityRules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		answerWith(w, http.StatusBadRequest, `{"error":"invalid_grant","error_description":"`+r.PostForm.Get("code")+" "+r.PostForm.Get("code_verifier")+`"}`)
		return true
	}})
	a = newAuthorizer(t, parrot, messages.OAuth{Visit: visit})
	_, err = request(t.Context(), a, "")
	require.ErrorContains(t, err, "invalid_grant")
	require.NotContains(t, err.Error(), "code-")
	require.NotContains(t, err.Error(), parrot.Counts().LastToken.Get("code_verifier"))
	require.NotContains(t, a.held.String(), a.held.ClientID)
}
