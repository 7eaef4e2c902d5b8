package facade_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// newGuarded starts an MCP server that requires tokens of an authorization server.
func newGuarded(t *testing.T) *oauthtest.Server {
	t.Helper()
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	guard := oauthtest.NewServer(web.URL)
	t.Cleanup(guard.Close)
	return guard
}

func newAuthClient(t *testing.T) *facade.Client {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// consent opens the authorization URL and consents, as the user does in a browser. It
// returns the redirect URL, and follows it if asked to.
func consent(url string, followed bool) (redirect string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if !followed {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("Location"), resp.Body.Close()
}

func TestAuthorize_and_call(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "web", StartSupervised: true, Policy: supervisor.Retry(5, time.Hour),
		HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}))
	err := c.WaitReady(ctx, "web")
	require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, err, &required)
	require.NotEmpty(t, required.URL)
	s, _ := c.ServerStatus("web")
	require.Equal(t, supervisor.StateUnauthorized, s.State, "no retry can help")
	require.Equal(t, 1, guard.Counts().Registrations)

	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
	require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
	require.ErrorAs(t, err, &required)
	require.Contains(t, err.Error(), "authorize")
	require.NotContains(t, err.Error(), "state=")

	require.NoError(t, c.Authorize(ctx, "web", func(url string) error {
		go func() { _, _ = consent(url, true) }()
		return nil
	}))
	require.NoError(t, c.WaitReady(ctx, "web"))
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
	require.NoError(t, err)

	guard.Revoke(true, false) // in the middle of the session
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
	require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
	require.ErrorAs(t, err, &required)
	requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	redirect, err := consent(required.URL, false)
	require.NoError(t, err)
	require.NoError(t, c.FinishAuthorization(ctx, "web", redirect))
	require.NoError(t, c.WaitReady(ctx, "web"))
	_, err = c.CallTool(ctx, "web/echo", map[string]any{"text": "hello"})
	require.NoError(t, err)

	require.NoError(t, c.ForgetAuthorization(ctx, "web"))
	require.NoError(t, c.Restart(ctx, "web"))
	require.ErrorIs(t, c.WaitReady(ctx, "web"), mcpvisor.ErrAuthRequired)
}

func TestAuthorize_errors(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	open := func(string) error { return nil }
	require.ErrorIs(t, c.Authorize(t.Context(), "unknown", open), mcpvisor.ErrUnknownServer)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.ErrorIs(t, c.Authorize(t.Context(), "mem", open), mcpvisor.ErrInvalid)
	require.ErrorIs(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web",
		HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}), mcpvisor.ErrAuthRequired)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, c.Authorize(ctx, "web", func(string) error { cancel(); return nil }), mcpvisor.ErrCanceled)
	noBrowser := errors.New("no browser here")
	err := c.Authorize(t.Context(), "web", func(string) error { return noBrowser })
	require.ErrorIs(t, err, mcpvisor.ErrAuthRequired)
	require.ErrorIs(t, err, noBrowser)
	require.ErrorIs(t, c.FinishAuthorization(t.Context(), "web", "http://127.0.0.1/callback?state=made-up&code=1"), mcpvisor.ErrAuthRequired)
}

// Close ends an authorization in progress; later ones fail.
func TestAuthorize_ends_with_Close(t *testing.T) {
	guard := newGuarded(t)
	c, err := facade.New()
	require.NoError(t, err)
	require.ErrorIs(t, c.Register(t.Context(), webSpec(guard, &oauth.Config{})), mcpvisor.ErrAuthRequired)
	shown, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.Authorize(context.Background(), "web", func(string) error { close(shown); return nil })
	}()
	<-shown
	require.NoError(t, c.Close(context.Background()))
	require.ErrorIs(t, <-done, mcpvisor.ErrClosed)

	asked := false
	require.ErrorIs(t, c.Authorize(t.Context(), "web", func(string) error { asked = true; return nil }), mcpvisor.ErrClosed)
	require.False(t, asked)
	require.ErrorIs(t, c.FinishAuthorization(t.Context(), "web", "http://127.0.0.1/callback?state=x&code=1"), mcpvisor.ErrClosed)
}

// webSpec is the spec of a guarded server, with a token store in memory by default.
func webSpec(guard *oauthtest.Server, o *oauth.Config) mcpvisor.ServerSpec {
	if o.Store == nil {
		o.Store = oauth.NewMemoryStore()
	}
	return mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: o}}
}

// Register may be repeated while the user consents: the authorization URL stays the same.
func TestRegister_again_keeps_authorization_URL(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	spec := webSpec(guard, &oauth.Config{})
	var first, again *mcpvisor.AuthRequired
	require.ErrorAs(t, c.Register(t.Context(), spec), &first)
	require.ErrorAs(t, c.Register(t.Context(), spec), &again)
	require.Equal(t, first.URL, again.URL)
	redirect, err := consent(first.URL, false)
	require.NoError(t, err)
	require.NoError(t, c.FinishAuthorization(t.Context(), "web", redirect))
	require.NoError(t, c.Register(t.Context(), spec))
}

// Functions of the host that hang or panic block nothing and end nothing else.
func TestOAuth_host_functions_that_hang_or_panic(t *testing.T) {
	guard := newGuarded(t)
	c, err := facade.New()
	require.NoError(t, err)
	free, visiting := make(chan struct{}), make(chan struct{}, 9)
	defer close(free)
	spec := webSpec(guard, &oauth.Config{FetchAuthorizationCode: func(context.Context, string) (string, error) {
		visiting <- struct{}{}
		<-free
		return "", context.Canceled
	}})
	spec.StartSupervised, spec.Timeouts = true, mcpvisor.Timeouts{Start: time.Second, Shutdown: 100 * time.Millisecond}
	require.NoError(t, c.Register(t.Context(), spec))
	<-visiting
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, c.Unregister(ctx, "web"))
	require.ErrorIs(t, c.Register(ctx, webSpec(guard, &oauth.Config{Store: panicky{oauth.NewMemoryStore()}})), mcpvisor.ErrAuthRequired)
	require.NoError(t, c.Close(ctx))
}

type panicky struct{ oauth.TokenStore }

func (panicky) Load(context.Context, oauth.TokenKey) ([]byte, error) {
	panic("in the host's function")
}

// Authorize may follow at once after a supervised Register.
func TestAuthorize_right_after_supervised_register(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	for range 10 {
		spec := webSpec(guard, &oauth.Config{})
		spec.StartSupervised = true
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.Authorize(t.Context(), "web", func(url string) error {
			_, err := consent(url, true)
			return err
		}))
		require.NoError(t, c.WaitReady(t.Context(), "web"), "the token is in the store of this registration")
		require.NoError(t, c.Unregister(t.Context(), "web"))
	}
}

func TestAuthorization_after_Close(t *testing.T) {
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"with_Auth": {Name: "web", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1/mcp", Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}},
		"without":   {Name: "web", InMemory: mcptest.InMemory(mcptest.Script{})},
		"unknown":   {Name: "other", InMemory: mcptest.InMemory(mcptest.Script{})},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := facade.New()
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), spec))
			require.NoError(t, c.Close(t.Context()))
			require.ErrorIs(t, c.Authorize(t.Context(), "web", func(string) error { return nil }), mcpvisor.ErrClosed)
			require.ErrorIs(t, c.FinishAuthorization(t.Context(), "web", "http://127.0.0.1/callback?state=x&code=1"), mcpvisor.ErrClosed)
			require.ErrorIs(t, c.ForgetAuthorization(t.Context(), "web"), mcpvisor.ErrClosed)
		})
	}
}

// credentials is an Auth that needs no user, and has none.
type credentials struct{ mcpvisor.Authorizer }

func (credentials) Validate() error           { return nil }
func (credentials) Equal(mcpvisor.Auth) bool  { return true }
func (credentials) Attach(context.Context)    {}
func (credentials) Detach(time.Duration)      {}
func (credentials) Redact(text string) string { return text }
func (c credentials) NewAuthorizer(*mcpvisor.HTTP, func(string)) (mcpvisor.Authorizer, error) {
	return c, nil
}

func (credentials) Credential(context.Context) (mcpvisor.Credential, error) {
	return nil, &mcpvisor.AuthUnavailable{Err: context.Canceled}
}

// An Auth that needs no user has nothing that the user could authorize.
func TestAuthorize_without_user(t *testing.T) {
	c := newAuthClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1/mcp", Auth: credentials{}}}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := c.Authorize(ctx, "web", func(string) error { return nil })
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "needs no user")
	require.ErrorIs(t, c.ForgetAuthorization(ctx, "web"), mcpvisor.ErrInvalid)
}

// A name that is registered again without Auth cannot be authorized.
func TestAuthorize_after_registering_without_Auth(t *testing.T) {
	guard := newGuarded(t)
	c := newAuthClient(t)
	require.ErrorIs(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: guard.URL,
		Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}), mcpvisor.ErrAuthRequired)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", InMemory: mcptest.InMemory(mcptest.Script{})}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorIs(t, c.Authorize(ctx, "web", func(string) error { return nil }), mcpvisor.ErrInvalid)
}
