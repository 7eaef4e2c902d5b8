package oauth

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What a step-up comes to is nothing to those whose token was refused meanwhile.
func TestRefusalDuringAStepUp(t *testing.T) {
	var slow atomic.Bool
	gate := make(chan struct{})
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}, Document: func(string, map[string]any) int {
		if slow.Load() {
			<-gate
		}
		return 0
	}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s, "read")})
	requireOK(t, a)
	slow.Store(true)
	stepUp, plain := make(chan error, 1), make(chan error, 1)
	go func() { _, err := request(context.Background(), a, "write"); stepUp <- err }()
	require.Eventually(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.flight != nil }, soon, time.Millisecond)
	s.Revoke(false, false) // the refresh token is good
	go func() { _, err := request(context.Background(), a, ""); plain <- err }()
	require.Never(t, func() bool { return len(plain) > 0 }, 100*time.Millisecond, 10*time.Millisecond, "it waits")
	close(gate)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, <-stepUp, &required)
	require.NoError(t, <-plain, "no person is needed")
}

// The URL that a person was given stays good, however many calls need it.
func TestStepUpGivesOneURL(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Store: authorizedStore(t, s, "read")})
	shown := requirePerson(t, a, "write").URL
	for range consentsKept {
		a.mu.Lock()
		a.failed = nil // as if a second had passed
		a.mu.Unlock()
		require.Equal(t, shown, requirePerson(t, a, "write").URL)
	}
	redirect, err := visit(t.Context(), shown)
	require.NoError(t, err)
	require.NoError(t, a.Finish(t.Context(), redirect))
	_, err = request(t.Context(), a, "write")
	require.NoError(t, err)
}

// A person may consent in another process, which knows only what is stored.
func TestStepUpInAnotherProcess(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}})
	store := authorizedStore(t, s, "read")
	host := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	requirePerson(t, host, "write")
	requireOK(t, host)
	other := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	require.NoError(t, other.Authorize(t.Context(), browse))
	require.Equal(t, "read write", s.Counts().LastVisit.Get("scope"))
	host.Attach(t.Context()) // the next session
	defer host.Detach(0)
	_, err := request(t.Context(), host, "write")
	require.NoError(t, err)
}

// Scopes that a server does not give are wished for until it says so.
func TestStepUpThatIsRefused(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}})
	store := authorizedStore(t, s, "read")
	host := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	redirect, err := visit(t.Context(), requirePerson(t, host, "write").URL)
	require.NoError(t, err)
	require.ErrorContains(t, host.Finish(t.Context(), redirect+"&error=invalid_scope"), "invalid_scope")
	other := newAuthorizer(t, s, mcpvisor.OAuth{Store: store})
	require.NoError(t, other.Authorize(t.Context(), browse))
	require.Equal(t, "read", s.Counts().LastVisit.Get("scope"))
}

// Somebody who gives less than was asked for is not asked again by every call.
func TestStepUpThatYieldsLess(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, mcpvisor.OAuth{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		return visit(ctx, strings.ReplaceAll(u, "scope=read+write", "scope=read")) // a box is unticked
	}})
	requireOK(t, a)
	for range 3 {
		a.mu.Lock()
		a.failed = nil // as if a second had passed
		a.mu.Unlock()
		require.Contains(t, requirePerson(t, a, "write").Reason, "not given")
	}
	require.Equal(t, 2, s.Counts().Visits)
}

// A visit that fails takes nothing away, even if the client has to be registered anew.
func TestStepUpThatFailsLeavesTheToken(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{Needs: map[string]string{"write": "write"}})
	var absent atomic.Bool
	a := newAuthorizer(t, s, mcpvisor.OAuth{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		if absent.Load() {
			return "", errors.New("nobody there")
		}
		return visit(ctx, u)
	}})
	requireOK(t, a)
	a.mu.Lock()
	a.held = a.held.Clone()
	a.held.ClientSecretExpires = time.Now().Add(-time.Second)
	a.mu.Unlock()
	absent.Store(true)
	requirePerson(t, a, "write")
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)
}
