package oauth

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			a := &Authorization{Issuer: "https://auth.example", AccessToken: "access", RefreshToken: "refresh",
				Expires: time.Now().Add(time.Hour).Round(0), Scopes: []string{"a"}}
			require.NoError(t, s.Save(ctx, testKey, a))
			a.Scopes[0] = "changed after Save"
			got, err = s.Load(ctx, testKey)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, got.Scopes)
			require.Equal(t, "refresh", got.RefreshToken)
			require.True(t, a.Expires.Equal(got.Expires))
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
