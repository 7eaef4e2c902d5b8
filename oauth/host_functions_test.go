package oauth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// A function of the host that ignores its context does not delay Detach.
func TestDetach_host_function_hangs(t *testing.T) {
	for name, hang := range map[string]func(o *Config, hang func()){
		"FetchAuthorizationCode": func(o *Config, hang func()) {
			o.FetchAuthorizationCode = func(context.Context, string) (string, error) { hang(); return "", errors.New("late") }
		},
		"Store": func(o *Config, hang func()) { o.Store = hungStore{NewMemoryStore(), hang} },
		"FetchAssertion": func(o *Config, hang func()) {
			o.Grant = GrantJWTBearer
			o.FetchAssertion = func(context.Context, AssertionRequest) (string, error) {
				hang()
				return "", errors.New("late")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{})
			free, hangs := make(chan struct{}), make(chan struct{}, 8)
			defer close(free)
			var o Config
			hang(&o, func() { hangs <- struct{}{}; <-free })
			a := newDetached(t, s, o)
			attaching, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			a.Attach(attaching)
			failed := make(chan error, 1)
			go func() { _, err := sendRequest(context.Background(), a, ""); failed <- err }()
			<-hangs
			done := make(chan struct{})
			go func() { a.Detach(50 * time.Millisecond); close(done) }()
			select {
			case <-done:
			case <-time.After(2 * testTimeout):
				require.FailNow(t, "Detach does not return")
			}
			require.Error(t, <-failed)
		})
	}
}

type hungStore struct {
	TokenStore
	hang func()
}

func (h hungStore) Load(context.Context, TokenKey) (*Authorization, error) {
	h.hang()
	return nil, errors.New("late")
}

// A panic of a function of the host's is the error of that function.
func TestHostFunction_panics(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{Store: panickyStore{}})
	redirect, err := approve(t.Context(), requireAuthRequired(t, a, "").URL)
	require.NoError(t, err)
	require.ErrorContains(t, a.Finish(t.Context(), redirect), "Store panicked: of the host")
	requireOK(t, a) // the token is in memory
	require.ErrorContains(t, a.Forget(t.Context()), "Store panicked: of the host")

	a = newAuthorizer(t, s, Config{FetchAuthorizationCode: func(context.Context, string) (string, error) { panic("of the host") }})
	require.ErrorContains(t, requireAuthRequired(t, a, ""), "FetchAuthorizationCode panicked: of the host")
	a = newAuthorizer(t, s, Config{Grant: GrantJWTBearer,
		FetchAssertion: func(context.Context, AssertionRequest) (string, error) { panic("of the host") }})
	_, err = sendRequest(t.Context(), a, "")
	require.ErrorContains(t, err, "FetchAssertion panicked: of the host")
}

type panickyStore struct{}

func (panickyStore) Load(context.Context, TokenKey) (*Authorization, error) {
	panic("of the host")
}

func (panickyStore) Save(context.Context, TokenKey, *Authorization) error {
	panic("of the host")
}
func (panickyStore) Delete(context.Context, TokenKey) error { panic("of the host") }
func (panickyStore) Lock(context.Context, TokenKey) (func(), error) {
	return func() { panic("of the host") }, nil
}

// A lock that is returned after its caller left is released.
func TestStore_late_lock(t *testing.T) {
	given, freed := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := hostcall.Wait(ctx, "Store", func(free func()) { free() }, func(context.Context) (func(), error) {
		<-given
		return func() { close(freed) }, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	close(given)
	<-freed
}

// hostTripper is a RoundTripper that the host supplies.
type hostTripper func(*http.Request) (*http.Response, error)

func (f hostTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A panic in the host's HTTP client fails the request and does not end the process.
func TestHostClient_panics(t *testing.T) {
	own := &http.Transport{DisableKeepAlives: true}
	for name, transport := range map[string]func(now func() bool) http.RoundTripper{
		"round_trip": func(now func() bool) http.RoundTripper {
			return hostTripper(func(r *http.Request) (*http.Response, error) {
				if now() {
					panic("of the host")
				}
				return own.RoundTrip(r)
			})
		},
		"body": func(now func() bool) http.RoundTripper {
			return hostTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := own.RoundTrip(r)
				if err == nil && now() {
					_ = resp.Body.Close()
					resp.Body = panickyBody{}
				}
				return resp, err
			})
		},
		"proxy": func(now func() bool) http.RoundTripper {
			return &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
				if now() {
					panic("of the host")
				}
				return nil, nil
			}}
		},
		"dial": func(now func() bool) http.RoundTripper {
			return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if now() {
					panic("of the host")
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t, oauthtest.Rules{})
			var now atomic.Bool
			a, err := newTestAuthorizer(&mcpvisor.HTTP{URL: s.URL, Client: &http.Client{Transport: transport(now.Load)},
				Auth: &Config{Store: NewMemoryStore()}}, func(text string) { t.Log("warning:", text) })
			require.NoError(t, err)
			a.Attach(t.Context())
			defer a.Detach(time.Second)
			required := requireAuthRequired(t, a, "")
			redirect, err := approve(t.Context(), required.URL)
			require.NoError(t, err)
			now.Store(true)
			require.ErrorContains(t, a.Finish(t.Context(), redirect), "panicked") // exchanges the code in a goroutine
			require.ErrorContains(t, a.Authorize(t.Context(), openBrowser), "panicked")
			now.Store(false)
			require.NoError(t, a.Authorize(t.Context(), openBrowser))
			requireOK(t, a)
		})
	}
}

type panickyBody struct{}

func (panickyBody) Read([]byte) (int, error) { panic("of the host") }
func (panickyBody) Close() error             { panic("of the host") }

func TestAuthorize_open_fails(t *testing.T) {
	s := newAuthServer(t, oauthtest.Rules{})
	a := newAuthorizer(t, s, Config{})
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { panic("of the host") }), "panicked")
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { runtime.Goexit(); return nil }), "ended its goroutine")
	require.ErrorContains(t, a.Authorize(t.Context(), nil), "panicked")
	require.ErrorContains(t, a.Authorize(t.Context(), func(string) error { return (*url.Error)(nil) }), "panicked")
}

// A panic while a late lock is released ends nothing.
func TestStore_late_lock_panics(t *testing.T) {
	given, freed := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := hostcall.Wait(ctx, "Store", func(free func()) { free() }, func(context.Context) (func(), error) {
		<-given
		return func() { close(freed); panic("of the host") }, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	close(given)
	<-freed
}
