package oauth

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"github.com/mcpvisor/mcpvisor"
)

func TestKeyringStore(t *testing.T) {
	keyring.MockInit()
	s := NewKeyringStore()
	key := mcpvisor.TokenKey{Server: "https://mcp.example/mcp", Client: "c"}
	other := mcpvisor.TokenKey{Server: "https://mcp.example/mcp", Client: "d"}
	none, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, s.Delete(t.Context(), key), "what is not there is deleted")

	want := &mcpvisor.Authorization{AccessToken: "access", RefreshToken: "refresh", Expires: time.Now().Add(time.Hour).Truncate(time.Second).UTC()}
	require.NoError(t, s.Save(t.Context(), key, want))
	got, err := NewKeyringStore().Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, got)
	none, err = s.Load(t.Context(), other)
	require.NoError(t, err)
	require.Nil(t, none, "each has its own")
	require.NoError(t, s.Delete(t.Context(), key))
	none, err = s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestKeyringStoreThatFails(t *testing.T) {
	key := mcpvisor.TokenKey{Server: "https://mcp.example/mcp"}
	for _, failure := range []error{errors.New("it is locked"), keyring.ErrSetDataTooBig} {
		keyring.MockInitWithError(failure)
		s := NewKeyringStore()
		_, err := s.Load(t.Context(), key)
		require.ErrorIs(t, err, failure)
		err = s.Save(t.Context(), key, &mcpvisor.Authorization{AccessToken: "access-token-canary"})
		require.ErrorIs(t, err, failure)
		require.NotContains(t, err.Error(), "canary")
		require.ErrorContains(t, err, "files", "what to do")
		require.ErrorIs(t, s.Delete(t.Context(), key), failure)
	}
	keyring.MockInit()
	require.NoError(t, keyring.Set(keyringService, (&keyringStore{}).account(key), "no JSON"))
	_, err := NewKeyringStore().Load(t.Context(), key)
	require.ErrorContains(t, err, "authorize anew")
}

// A keyring that asks a person holds up nobody beyond his own time.
func TestKeyringStoreThatHangs(t *testing.T) {
	answer := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	left := make(chan struct{})
	_, err := (&keyringStore{}).visit(ctx, func() (string, error) { defer close(left); <-answer; return "", nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)

	next := make(chan error, 1) // what comes after it is not overwritten by it
	go func() {
		_, err := (&keyringStore{}).visit(context.Background(), func() (string, error) {
			select {
			case <-left:
				return "", nil
			default:
				return "", errors.New("the other is still there")
			}
		})
		next <- err
	}()
	require.Never(t, func() bool { return len(next) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	close(answer)
	require.NoError(t, <-next)
}
