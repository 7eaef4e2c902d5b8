package tokenstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
)

func TestKeyring(t *testing.T) {
	keyring.MockInit()
	s := newKeyring()
	key := testKeyType{Server: "https://mcp.example/mcp", Client: "c"}
	other := testKeyType{Server: "https://mcp.example/mcp", Client: "d"}
	none, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, s.Delete(t.Context(), key), "deleting a missing entry is no error")

	want := &authorization{AccessToken: "access", RefreshToken: "refresh", Expires: time.Now().Add(time.Hour).Truncate(time.Second).UTC()}
	require.NoError(t, s.Save(t.Context(), key, want))
	got, err := newKeyring().Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, got)
	none, err = s.Load(t.Context(), other)
	require.NoError(t, err)
	require.Nil(t, none, "each key has an entry of its own")
	require.NoError(t, s.Delete(t.Context(), key))
	none, err = s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestKeyring_fails(t *testing.T) {
	key := testKeyType{Server: "https://mcp.example/mcp"}
	for _, failure := range []error{errors.New("it is locked"), keyring.ErrSetDataTooBig} {
		keyring.MockInitWithError(failure)
		s := newKeyring()
		_, err := s.Load(t.Context(), key)
		require.ErrorIs(t, err, failure)
		err = s.Save(t.Context(), key, &authorization{AccessToken: "access-token-canary"})
		require.ErrorIs(t, err, failure)
		require.NotContains(t, err.Error(), "canary")
		require.ErrorContains(t, err, "files", "the error says what to do")
		require.ErrorIs(t, s.Delete(t.Context(), key), failure)
	}
	keyring.MockInit()
	require.NoError(t, keyring.Set(keyringService, (testKeyring{}).account(key), "no JSON"))
	_, err := newKeyring().Load(t.Context(), key)
	require.ErrorContains(t, err, "authorize again")
}

// A keyring that asks the user for a password delays no caller beyond its context.
func TestKeyring_hangs(t *testing.T) {
	answer := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	ended := make(chan struct{})
	_, err := (testKeyring{}).access(ctx, func() (string, error) { defer close(ended); <-answer; return "", nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// The next access waits for it, so a late write overwrites nothing.
	next := make(chan error, 1)
	go func() {
		_, err := (testKeyring{}).access(context.Background(), func() (string, error) {
			select {
			case <-ended:
				return "", nil
			default:
				return "", errors.New("the earlier access still runs")
			}
		})
		next <- err
	}()
	require.Never(t, func() bool { return len(next) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	close(answer)
	require.NoError(t, <-next)
}
