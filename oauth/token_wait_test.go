package oauth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
)

// TokenWait bounds the steps before FetchAuthorizationCode.
func TestTokenWait_before_FetchAuthorizationCode(t *testing.T) {
	rule, _, _ := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s), FetchAuthorizationCode: approve, TokenWait: 200 * time.Millisecond})
	s.Set(oauthtest.Rules{Token: rule})
	s.Revoke(false, false)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	_, err := sendRequest(ctx, a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
}

// TokenWait does not bound FetchAuthorizationCode itself.
func TestTokenWait_during_FetchAuthorizationCode(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	var a *authorizer
	waited := make(chan error, 1)
	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: func(ctx context.Context, url string) (string, error) {
		a.mu.Lock()
		r := a.renewal
		a.mu.Unlock()
		go func() { waited <- a.awaitRenewal(t.Context(), r, time.Now()) }() // the wait of another caller is over
		select {
		case err := <-waited:
			return "", fmt.Errorf("the other caller did not wait: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
		return approve(ctx, url)
	}})
	requireOK(t, a)
	require.NoError(t, <-waited)
}

// TokenWait bounds a renewal as a whole, not each of its steps.
func TestTokenWait_whole_renewal(t *testing.T) {
	rule, _, _ := hangGrant(t, "refresh_token")
	s := newAuthServer(t, oauthtest.Rules{})
	store := authorizedStore(t, s)
	s.Set(oauthtest.Rules{Token: rule})
	a := newAuthorizer(t, s, Config{Store: store, TokenWait: 3 * time.Second})
	s.Revoke(false, false)
	unlock, err := store.(TokenLocker).Lock(t.Context(), a.key)
	require.NoError(t, err)
	began := time.Now()
	timer := time.AfterFunc(2900*time.Millisecond, unlock)
	defer timer.Stop()
	_, err = sendRequest(t.Context(), a, "")
	var unavailable *mcpvisor.AuthUnavailable
	require.ErrorAs(t, err, &unavailable)
	require.Less(t, time.Since(began), 5500*time.Millisecond, "the second step does not extend the wait")
}

// The pause after a failed renewal doubles up to a bound, is at least Retry-After, and
// is reset by a success.
func TestRecordOutcome_pauses(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newDetached(t, s, Config{})
	fail := func(after time.Duration) time.Duration {
		a.mu.Lock()
		defer a.mu.Unlock()
		var unavailable *mcpvisor.AuthUnavailable
		require.ErrorAs(t, a.recordOutcome(&renewal{}, &safehttp.Temporary{Err: errors.New("slow down"), RetryAfter: after}), &unavailable)
		return unavailable.RetryAfter
	}
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, time.Duration(seconds)*time.Second, fail(0))
	}
	require.Equal(t, 5*time.Minute, fail(5*time.Minute))
	a.mu.Lock()
	require.NoError(t, a.recordOutcome(&renewal{}, nil))
	a.mu.Unlock()
	require.Equal(t, time.Second, fail(0))
}
