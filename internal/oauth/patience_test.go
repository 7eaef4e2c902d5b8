package oauth

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host that has a Visit is asked to be waited for, and nothing before it.
func TestTokenEndpointThatHangsBeforeAVisit(t *testing.T) {
	rule, _, _ := hanging(t, "refresh_token")
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{FetchAuthorizationCode: visit, TokenWait: 200 * time.Millisecond})
	requireOK(t, a)
	s.Set(mcptest.AuthorityRules{Token: rule})
	s.Revoke(false, false)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := request(ctx, a, "")
	var passing *Unavailable
	require.ErrorAs(t, err, &passing)
}

// The visit itself takes as long as it takes.
func TestVisitIsWaitedFor(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{TokenWait: 200 * time.Millisecond, FetchAuthorizationCode: func(ctx context.Context, url string) (string, error) {
		time.Sleep(400 * time.Millisecond)
		return visit(ctx, url)
	}})
	requireOK(t, a)
}

// However many steps a renewal has: the whole of it is waited for once.
func TestWaitIsForTheWholeRenewal(t *testing.T) {
	rule, _, _ := hanging(t, "refresh_token")
	s := newAuthority(t, mcptest.AuthorityRules{})
	store := authorizedStore(t, s)
	s.Set(mcptest.AuthorityRules{Token: rule})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: store, TokenWait: 3 * time.Second})
	s.Revoke(false, false)
	unlock, err := store.(mcpvisor.TokenLocker).Lock(t.Context(), a.key)
	require.NoError(t, err)
	began := time.Now()
	timer := time.AfterFunc(2900*time.Millisecond, unlock)
	defer timer.Stop()
	_, err = request(t.Context(), a, "")
	var passing *Unavailable
	require.ErrorAs(t, err, &passing)
	require.Less(t, time.Since(began), 5500*time.Millisecond, "the second step begins no new wait")
}

// The pause after a renewal that failed grows up to a bound, is as long as the
// server wishes, and begins anew after one that succeeded.
func TestPausesAfterFailures(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := detached(t, s, mcpvisor.OAuth{})
	fail := func(after time.Duration) time.Duration {
		a.mu.Lock()
		defer a.mu.Unlock()
		var later *Unavailable
		require.ErrorAs(t, a.verdict(&flight{}, &passing{err: errors.New("slow down"), after: after}), &later)
		return later.RetryAfter
	}
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		require.Equal(t, time.Duration(seconds)*time.Second, fail(0))
	}
	require.Equal(t, 5*time.Minute, fail(5*time.Minute))
	a.mu.Lock()
	require.NoError(t, a.verdict(&flight{}, nil))
	a.mu.Unlock()
	require.Equal(t, time.Second, fail(0))
}
