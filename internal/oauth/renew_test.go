package oauth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestEightRefusalsMakeOneAuthorization(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	unlocked := struct{ mcpvisor.TokenStore }{NewMemoryStore()} // its lock would help
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, Store: unlocked})
	for _, err := range together(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Visits)
	require.Equal(t, 1, s.Counts().Exchanges)

	s.Revoke(false, false) // in the middle of the session
	for _, err := range together(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Visits, "the refresh token is good")
	require.Equal(t, 1, s.Counts().Refreshes)
}

func TestTokenEndpointThatHangsDelaysNoCall(t *testing.T) {
	rule, asked, _ := hanging(t, "refresh_token")
	s := newAuthority(t, mcptest.AuthorityRules{TokenLife: 8 * time.Second, Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, TokenWait: 200 * time.Millisecond})
	requireOK(t, a)
	age(t, a, 3*time.Second, 8*time.Second) // the renewal ahead is due soon
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for range 20 { // while the token is good, nobody waits for its renewal
		_, err := a.Token(ctx)
		require.NoError(t, err)
	}

	age(t, a, 0, 8*time.Second)
	for range 3 { // and when it is not, calls fail within their own bound
		began := time.Now()
		_, err := request(t.Context(), a, "")
		var passing *Unavailable
		require.ErrorAs(t, err, &passing)
		require.Less(t, time.Since(began), soon/2, "far less than the endpoint is given")
	}
	require.Equal(t, 1, s.Counts().Refreshes, "all wait for the one that is under way")
}

func TestCallerThatLeavesSpoilsNothing(t *testing.T) {
	rule, asked, free := hanging(t, "authorization_code")
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := request(ctx, a, ""); left <- err }()
	<-asked
	stays := make(chan error, 1)
	go func() { _, err := request(t.Context(), a, ""); stays <- err }()
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	free()
	require.NoError(t, <-stays)
	require.Equal(t, 1, s.Counts().Visits)
	requireOK(t, a)
}

func TestTokenIsRenewedAhead(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{TokenLife: 1500 * time.Millisecond, Rotate: true})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	requireOK(t, a)
	first := a.AccessToken()
	require.Eventually(t, func() bool { return a.AccessToken() != first }, soon, 5*time.Millisecond, "nobody has asked for it")
	requireOK(t, a)
	require.Equal(t, 1, s.Counts().Visits)
}

func TestExpiredTokenIsRenewedOnce(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	requireOK(t, a)
	age(t, a, 0, time.Hour)
	before := s.Counts().Refused
	for _, err := range together(t.Context(), a, 8) {
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, before, s.Counts().Refused, "nothing is sent with a token that has ended")
}

// A refresh token that is good for one use is stored before the access token
// that came with it is used, so that a host that dies at any moment goes on.
func TestRotatedRefreshTokenSurvivesARestart(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Rotate: true})
	store, err := NewFileStore(t.TempDir())
	require.NoError(t, err)
	a := detached(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, Store: store})
	a.Attach(t.Context())
	requireOK(t, a)
	s.Revoke(false, false)
	requireOK(t, a) // rotates
	a.Detach(0)

	for life := range 3 {
		next := detached(t, s, mcpvisor.OAuth{Store: store}) // nobody is there to visit
		next.Attach(t.Context())
		requireOK(t, next)
		s.Revoke(false, false)
		requireOK(t, next)
		next.Detach(0)
		require.Equal(t, 2+life, s.Counts().Refreshes)
	}
	require.Equal(t, 1, s.Counts().Visits)
}

// Nobody sees the new access token before the store has the new refresh token.
func TestStoredBeforeUsed(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Rotate: true})
	store := &slowStore{TokenStore: NewMemoryStore(), entered: make(chan struct{}, 8), free: make(chan struct{}, 8)}
	store.free <- struct{}{} // the registration
	store.free <- struct{}{} // the first tokens
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, Store: store})
	requireOK(t, a)
	old := a.AccessToken()
	s.Revoke(false, false)
	done := make(chan error, 1)
	go func() { _, err := request(context.Background(), a, ""); done <- err }()
	for range 3 {
		<-store.entered
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, old, a.AccessToken(), "the new token waits for the store")
	store.free <- struct{}{}
	require.NoError(t, <-done)
	require.NotEqual(t, old, a.AccessToken())
}

type slowStore struct {
	mcpvisor.TokenStore
	entered, free chan struct{}
}

func (s *slowStore) Save(ctx context.Context, key mcpvisor.TokenKey, n *mcpvisor.Authorization) error {
	s.entered <- struct{}{}
	<-s.free
	return s.TokenStore.Save(ctx, key, n)
}

// Several processes with one store renew a token once.
func TestProcessesShareARotatedToken(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Rotate: true})
	dir := t.TempDir()
	processes := make([]*Authorizer, 4)
	for i := range processes {
		store, err := NewFileStore(dir)
		require.NoError(t, err)
		processes[i] = newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, Store: store})
		requireOK(t, processes[i])
	}
	require.Equal(t, 1, s.Counts().Visits)
	for range 3 {
		s.Revoke(false, false)
		errs := make(chan error, len(processes))
		for _, a := range processes {
			go func() { _, err := request(context.Background(), a, ""); errs <- err }()
		}
		for range processes {
			require.NoError(t, <-errs)
		}
	}
	require.Equal(t, 1, s.Counts().Visits)
	require.Equal(t, 3, s.Counts().Refreshes)
}

func TestDeadRefreshToken(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	requireOK(t, a)
	s.Revoke(true, false)
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().Visits)
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, 1, s.Counts().Registrations)
	s.Revoke(true, true) // the server has forgotten this client as well
	requireOK(t, a)
	require.Equal(t, 2, s.Counts().Registrations)
}

// A refresh token that is refused in words of the server's own is refused: only
// a person can help, and is told so. It may have been a mistake, so that it is kept.
func TestRefreshRefusedInOtherWords(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"plain 400":    {http.StatusBadRequest, "refresh token expired"},
		"nested error": {http.StatusBadRequest, `{"error":{"code":"expired"}}`},
		"not found":    {http.StatusNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rule, refuse := refusing("refresh_token", c.status, c.body)
			s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
			a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s)})
			s.Revoke(false, false)
			age(t, a, 0, time.Hour)
			refuse.Store(true)
			required := requirePerson(t, a, "")
			require.NotEmpty(t, required.URL)
			require.ErrorContains(t, required, "renewing the token: the token endpoint answered HTTP")
			refuse.Store(false)
			a = newAuthorizer(t, s, mcpvisor.OAuth{Store: a.store}) // the next process
			requireOK(t, a)
		})
	}
}

// An endpoint that is no more is looked for once, at the same issuer.
func TestTokenEndpointThatMoved(t *testing.T) {
	rule, gone := refusing("refresh_token", http.StatusNotFound, "")
	s := newAuthority(t, mcptest.AuthorityRules{Rotate: true, Token: rule})
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerWith(w, http.StatusOK, `{"access_token":"of-the-new-endpoint"}`)
	}))
	defer next.Close()
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s)})
	gone.Store(true)
	s.Set(mcptest.AuthorityRules{Token: rule, Document: func(_ string, d map[string]any) int {
		if d["token_endpoint"] != nil {
			d["token_endpoint"] = next.URL
		}
		return 0
	}})
	age(t, a, 0, time.Hour)
	token, err := a.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "of-the-new-endpoint", token)
}

// A secret that was mistyped does not cost the refresh token.
func TestWrongSecretKeepsTheRefreshToken(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	s.AddClient("me", "secret-of-me")
	store := NewMemoryStore()
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{ClientID: "me", ClientSecret: "secret-of-me", Store: store, FetchAuthorizationCode: visit}))
	s.Revoke(false, false)
	wrong := newAuthorizer(t, s, mcpvisor.OAuth{ClientID: "me", ClientSecret: "a-typing-error", Store: store})
	require.ErrorContains(t, requirePerson(t, wrong, ""), "invalid_client")
	requireOK(t, newAuthorizer(t, s, mcpvisor.OAuth{ClientID: "me", ClientSecret: "secret-of-me", Store: store}))
}

// A server that refuses whatever its authorization server gives is not asked
// for ever.
func TestNoEndlessAuthorization(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{TokenLife: time.Nanosecond, Token: func(w http.ResponseWriter, _ *http.Request) bool {
		answerWith(w, http.StatusOK, `{"access_token":"never-any-good","token_type":"Bearer"}`)
		return true
	}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	for range 5 {
		require.Contains(t, requirePerson(t, a, "").Reason, "refuses the token")
	}
	require.Equal(t, 1, s.Counts().Visits)
}

func TestTransientFailureIsNotAskedAgainAtOnce(t *testing.T) {
	broken := true
	s := newAuthority(t, mcptest.AuthorityRules{Token: func(w http.ResponseWriter, r *http.Request) bool {
		if r.PostForm.Get("grant_type") == "refresh_token" && broken {
			answerWith(w, http.StatusServiceUnavailable, "")
			return true
		}
		return false
	}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	requireOK(t, a)
	s.Revoke(false, false)
	for range 5 {
		_, err := request(t.Context(), a, "")
		var passing *Unavailable
		require.ErrorAs(t, err, &passing)
		require.Positive(t, passing.RetryAfter)
		require.Contains(t, err.Error(), "503")
	}
	require.Equal(t, 1, s.Counts().Refreshes)
	require.Equal(t, 1, s.Counts().Visits, "the refresh token may still be good")
}

// asking has one session, which waits for a token endpoint that says nothing.
func asking(t *testing.T) (a *Authorizer, done chan error) {
	t.Helper()
	rule, asked, _ := hanging(t, "authorization_code")
	s := newAuthority(t, mcptest.AuthorityRules{Token: rule})
	a = detached(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit})
	a.Attach(t.Context())
	done = make(chan error, 1)
	go func() { _, err := request(context.Background(), a, ""); done <- err }()
	<-asked
	return a, done
}

// Detach waits for the token endpoint as long as it is told, and no longer.
func TestDetachIsBounded(t *testing.T) {
	a, done := asking(t)
	began := time.Now()
	a.Detach(50 * time.Millisecond)
	require.Less(t, time.Since(began), soon/2)
	require.Error(t, <-done)
}

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
