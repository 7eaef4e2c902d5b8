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
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// The outcome of a step-up is not that of a request whose token was rejected meanwhile.
func TestRenew_during_step_up(t *testing.T) {
	var slow atomic.Bool
	resume := make(chan struct{})
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}, Document: func(string, map[string]any) int {
		if slow.Load() {
			<-resume
		}
		return 0
	}})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s, "read")})
	requireOK(t, a)
	slow.Store(true)
	stepUp, plain := make(chan error, 1), make(chan error, 1)
	go func() { _, err := sendRequest(context.Background(), a, "write"); stepUp <- err }()
	require.Eventually(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.renewal != nil }, testTimeout, time.Millisecond)
	s.Revoke(false, false) // the refresh token is still valid
	go func() { _, err := sendRequest(context.Background(), a, ""); plain <- err }()
	require.Never(t, func() bool { return len(plain) > 0 }, 100*time.Millisecond, 10*time.Millisecond, "it waits for the step-up")
	close(resume)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, <-stepUp, &required)
	require.NoError(t, <-plain, "the refresh token is enough")
}

// Every call gets the URL that the user may have open.
func TestStepUp_same_URL(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, Config{Store: authorizedStore(t, s, "read")})
	shown := requireAuthRequired(t, a, "write").URL
	for range maxAuthRequests {
		endPause(a)
		require.Equal(t, shown, requireAuthRequired(t, a, "write").URL)
	}
	redirect, err := approve(t.Context(), shown)
	require.NoError(t, err)
	require.NoError(t, a.Finish(t.Context(), redirect))
	_, err = sendRequest(t.Context(), a, "write")
	require.NoError(t, err)
}

// The user may consent in another process, which knows only what is stored.
func TestStepUp_in_another_process(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	store := authorizedStore(t, s, "read")
	host := newAuthorizer(t, s, Config{Store: store})
	requireAuthRequired(t, host, "write")
	requireOK(t, host)
	other := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, other.Authorize(t.Context(), openBrowser))
	require.Equal(t, "read write", s.Counts().LastAuthorization.Get("scope"))
	host.Attach(t.Context()) // the next session
	defer host.Detach(0)
	_, err := sendRequest(t.Context(), host, "write")
	require.NoError(t, err)
}

// Missing scopes are requested until the authorization server refuses them.
func TestStepUp_refused(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	store := authorizedStore(t, s, "read")
	host := newAuthorizer(t, s, Config{Store: store})
	redirect, err := approve(t.Context(), requireAuthRequired(t, host, "write").URL)
	require.NoError(t, err)
	require.ErrorContains(t, host.Finish(t.Context(), redirect+"&error=invalid_scope"), "invalid_scope")
	other := newAuthorizer(t, s, Config{Store: store})
	require.NoError(t, other.Authorize(t.Context(), openBrowser))
	require.Equal(t, "read", s.Counts().LastAuthorization.Get("scope"))
}

// A scope that the user did not grant is not requested again by each call.
func TestStepUp_scope_not_granted(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	a := newAuthorizer(t, s, Config{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		return approve(ctx, strings.ReplaceAll(u, "scope=read+write", "scope=read")) // the user unticks a scope
	}})
	requireOK(t, a)
	for range 3 {
		endPause(a)
		require.Contains(t, requireAuthRequired(t, a, "write").Reason, "not granted")
	}
	require.Equal(t, 2, s.Counts().Authorizations)
}

// A failed FetchAuthorizationCode keeps the token, even after a new registration.
func TestStepUp_fails(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{RequiredScopes: map[string]string{"write": "write"}})
	var absent atomic.Bool
	a := newAuthorizer(t, s, Config{Scopes: []string{"read"}, FetchAuthorizationCode: func(ctx context.Context, u string) (string, error) {
		if absent.Load() {
			return "", errors.New("no browser")
		}
		return approve(ctx, u)
	}})
	requireOK(t, a)
	a.mu.Lock()
	a.tokens = a.tokens.Clone()
	a.tokens.ClientSecretExpires = time.Now().Add(-time.Second)
	a.mu.Unlock()
	absent.Store(true)
	requireAuthRequired(t, a, "write")
	require.Equal(t, 2, s.Counts().Registrations)
	requireOK(t, a)
}
