package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// failingStore fails to load or to save on demand.
type failingStore struct {
	TokenStore
	loadFails, saveFails atomic.Bool
}

func (m *failingStore) Load(ctx context.Context, key TokenKey) ([]byte, error) {
	if m.loadFails.Load() {
		return nil, errors.New("too many open files")
	}
	return m.TokenStore.Load(ctx, key)
}

func (m *failingStore) Save(ctx context.Context, key TokenKey, data []byte) error {
	if m.saveFails.Load() {
		return errors.New("the disk is full")
	}
	return m.TokenStore.Save(ctx, key, data)
}

// While the store cannot be read, the refresh token in memory is not used: another
// process may have used it.
func TestReload_store_fails_temporarily(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	shared := NewMemoryStore()
	one := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: shared})
	m := &failingStore{TokenStore: shared}
	two := newAuthorizer(t, s, Config{Store: m})
	s.Revoke(false, false)
	requireOK(t, one) // rotates
	m.loadFails.Store(true)
	require.ErrorContains(t, requireUnavailable(t, two), "too many open files")
	require.Equal(t, 1, s.Counts().Refreshes, "the refresh token is not used twice")
	m.loadFails.Store(false)
	require.Eventually(t, func() bool { _, err := sendRequest(t.Context(), two, ""); return err == nil }, testTimeout, 50*time.Millisecond)
	require.Equal(t, 1, s.Counts().Authorizations)
}

// A store that never worked does not prevent a renewal.
func TestReload_store_never_worked(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	m := &failingStore{TokenStore: NewMemoryStore()}
	m.loadFails.Store(true)
	m.saveFails.Store(true)
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: m})
	s.Revoke(false, false)
	requireOK(t, a)
	require.Equal(t, 1, s.Counts().Authorizations)
}

// An entry that cannot be parsed counts as missing.
func TestReload_unreadable_entry(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	dir := t.TempDir()
	store, err := NewFileStore(dir)
	require.NoError(t, err)
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for _, text := range []string{"{", strings.Replace(string(whole), `"access_token": "`, `"access_token": 1, "x": "`, 1)} {
		require.NoError(t, os.WriteFile(files[0], []byte(text), 0o600))
		s.Revoke(false, false)
		requireOK(t, a)
		requireOK(t, newAuthorizer(t, s, Config{Store: store}))
	}
}

// Tokens that another process stored are used, whatever the clocks say.
func TestReload_tokens_of_another_process(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	store := NewMemoryStore()
	first := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: store})
	setExpiry(t, first, 2*time.Hour, time.Hour) // as if the clock had been set back
	s.Revoke(false, false)
	requireOK(t, newAuthorizer(t, s, Config{Store: store})) // rotates
	requireOK(t, first)
	require.Equal(t, 1, s.Counts().Authorizations)
	require.Equal(t, 1, s.Counts().Refreshes)
}

// Tokens that could not be stored are not replaced by older ones of the store.
func TestSave_fails(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	m := &failingStore{TokenStore: NewMemoryStore()}
	a := newWorking(t, s, Config{FetchAuthorizationCode: approve, Store: m})
	m.saveFails.Store(true)
	for range 3 {
		s.Revoke(false, false)
		requireOK(t, a)
	}
	require.Equal(t, 1, s.Counts().Authorizations)
}

// Servers whose URLs differ in the query have tokens of their own. Tokens for one of
// them are not sent to the other.
func TestReload_tokens_of_another_resource(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	store := NewMemoryStore()
	at := func(project string) *authorizer {
		a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.URL + "?project=" + project, Auth: &Config{Store: store}}, func(string) {})
		require.NoError(t, err)
		return a
	}
	one, two := at("a"), at("b")
	require.NotEqual(t, one.key, two.key)
	require.NotContains(t, one.key.Server, "project", "a query may hold secrets")
	tokens := &authorization{Issuer: s.Issuer, Resource: s.URL + "?project=a", AccessToken: "for-project-a"}
	for _, a := range []*authorizer{one, two} {
		require.NoError(t, store.Save(t.Context(), a.key, encode(t, tokens)))
		require.NoError(t, a.reload(t.Context()))
	}
	require.Equal(t, "for-project-a", one.accessToken())
	require.Empty(t, two.accessToken())
}

// timedStore saves slowly and observes its context.
type timedStore struct {
	TokenStore
	slow    atomic.Bool
	entered chan struct{}
}

func (s *timedStore) Save(ctx context.Context, key TokenKey, data []byte) error {
	if s.slow.Load() {
		close(s.entered)
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.TokenStore.Save(ctx, key, data)
}

func TestDetach_stores_rotated_token(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{Rotate: true})
	store := &timedStore{TokenStore: authorizedStore(t, s), entered: make(chan struct{})}
	a := newDetached(t, s, Config{Store: store})
	a.Attach(t.Context())
	s.Revoke(false, false)
	store.slow.Store(true)
	go func() { _, _ = sendRequest(context.Background(), a, "") }()
	<-store.entered
	a.Detach(0)
	store.slow.Store(false)
	requireOK(t, newAuthorizer(t, s, Config{Store: store}))
}

// Forget drops the tokens of a renewal that completes meanwhile.
func TestForget_during_refresh(t *testing.T) {
	rule, asked, _ := hangGrant(t, "refresh_token")
	s, store := newServerWithTokens(t, oauthtest.Rules{Rotate: true})
	s.Set(oauthtest.Rules{Rotate: true, Token: rule})
	a := newAuthorizer(t, s, Config{Store: store})
	setExpiry(t, a, 0, time.Hour)
	done := make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, ""); done <- err }()
	<-asked
	require.NoError(t, a.Forget(t.Context()))
	require.Error(t, <-done, "Forget cancels the renewal")
	requireForgotten(t, a, store)

	slow := &timedStore{TokenStore: authorizedStore(t, s), entered: make(chan struct{})}
	s.Set(oauthtest.Rules{Rotate: true})
	a = newAuthorizer(t, s, Config{Store: slow})
	setExpiry(t, a, 0, time.Hour)
	slow.slow.Store(true)
	go func() { _, err := sendRequest(context.Background(), a, ""); done <- err }()
	<-slow.entered // the token was received and is being stored
	require.NoError(t, a.Forget(t.Context()))
	require.Error(t, <-done)
	requireForgotten(t, a, slow)
}

func requireForgotten(t *testing.T, a *authorizer, store TokenStore) {
	t.Helper()
	stored, err := store.Load(t.Context(), a.key)
	require.NoError(t, err)
	require.Nil(t, stored)
	require.Empty(t, a.accessToken())
}

// An actor calls New, so New must not write to a log. The first session writes the warning.
func TestNew_no_directory_for_tokens(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, "")
	}
	warnings := make(chan string, 10)
	a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: "https://host/mcp", Auth: &Config{}}, func(text string) { warnings <- text })
	require.NoError(t, err)
	require.Empty(t, warnings)
	for range 2 {
		a.Attach(t.Context())
		defer a.Detach(0)
	}
	require.Contains(t, <-warnings, "there is no directory for tokens")
	require.Empty(t, warnings, "only the first session warns")
}

// The writer of a log may block, so warnings are written without the mutex.
func TestAttach_warns_without_the_mutex(t *testing.T) {
	for name, store := range map[string]func(TokenStore) TokenStore{
		"the store fails": func(s TokenStore) TokenStore {
			failing := &failingStore{TokenStore: s}
			failing.loadFails.Store(true)
			return failing
		},
		"tokens of another server": func(s TokenStore) TokenStore { return foreignTokens{s} },
	} {
		t.Run(name, func(t *testing.T) {
			var a *authorizer
			warned, locked := 0, 0
			a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: "https://host/mcp", Auth: &Config{Store: store(NewMemoryStore())}}, func(string) {
				warned++
				if !a.mu.TryLock() {
					locked++
					return
				}
				a.mu.Unlock()
			})
			require.NoError(t, err)
			a.Attach(t.Context())
			defer a.Detach(0)
			require.Equal(t, 1, warned)
			require.Zero(t, locked)
		})
	}
}

// foreignTokens is a store with the tokens of another server.
type foreignTokens struct{ TokenStore }

func (foreignTokens) Load(context.Context, TokenKey) ([]byte, error) {
	return json.Marshal(&authorization{Resource: "https://other.example/mcp", AccessToken: "t"})
}

// Each server, client and account has a key of its own, and no key holds a secret of
// the URL.
func TestStoreKey(t *testing.T) {
	key := func(o Config, address string) TokenKey {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return storeKey(&o, u, "")
	}
	require.Equal(t, TokenKey{Server: "https://mcp.example/mcp"}, key(Config{}, "https://user:pass@mcp.example/mcp#part"))
	require.Equal(t, TokenKey{Server: "https://mcp.example/mcp", Client: "me", Account: "work"},
		key(Config{ClientID: "me", ClientMetadataURL: "https://host.example/c.json", Account: "work"}, "https://mcp.example/mcp"))
	require.Equal(t, "https://host.example/c.json", key(Config{ClientMetadataURL: "https://host.example/c.json"}, "https://mcp.example/mcp").Client)
	one, two := key(Config{}, "https://mcp.example/mcp?key=canary-1"), key(Config{}, "https://mcp.example/mcp?key=canary-2")
	require.NotEqual(t, one, two)
	require.NotContains(t, one.Server, "canary")
}

// testKey is the key of most tests of stores.
var testKey = TokenKey{Server: "https://mcp.example/mcp", Client: "me"}

func stores(t *testing.T) map[string]TokenStore {
	t.Helper()
	files, err := NewFileStore(filepath.Join(t.TempDir(), "deep", "tokens"))
	require.NoError(t, err)
	return map[string]TokenStore{"memory": NewMemoryStore(), "files": files}
}

func TestStore(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			got, err := s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Nil(t, got)
			require.NoError(t, s.Delete(ctx, testKey))
			data := []byte(`{"refresh_token":"refresh","scopes":["a"]}`)
			require.NoError(t, s.Save(ctx, testKey, data))
			data[2] = 'R' // after Save
			got, err = s.Load(ctx, testKey)
			require.NoError(t, err)
			require.JSONEq(t, `{"refresh_token":"refresh","scopes":["a"]}`, string(got))
			other := testKey
			other.Account = "second"
			got, err = s.Load(ctx, other)
			require.NoError(t, err)
			require.Nil(t, got, "another account")
			require.NoError(t, s.Delete(ctx, testKey))
			got, err = s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Nil(t, got)
		})
	}
}

func TestTokenLocker(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			locker := s.(TokenLocker)
			unlock, err := locker.Lock(t.Context(), testKey)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = locker.Lock(short, testKey)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			got := make(chan error, 1)
			go func() {
				free, err := locker.Lock(context.Background(), testKey)
				if err == nil {
					free()
				}
				got <- err
			}()
			unlock()
			require.NoError(t, <-got)
		})
	}
}

// Stores of one place are equal, so that specs with them are.
func TestStore_equal(t *testing.T) {
	one, err := NewFileStore("a")
	require.NoError(t, err)
	same, err := NewFileStore("a")
	require.NoError(t, err)
	other, err := NewFileStore("b")
	require.NoError(t, err)
	require.True(t, equalStores(one, same))
	require.False(t, equalStores(one, other))
	require.True(t, equalStores(NewKeyringStore(), NewKeyringStore()))
	require.False(t, equalStores(NewMemoryStore(), NewMemoryStore()))
	require.NotImplements(t, (*TokenLocker)(nil), NewKeyringStore())
}
