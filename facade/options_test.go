package facade_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The client's default overrides the server's Timeouts.Call.
func TestWithDefaultCallTimeout(t *testing.T) {
	c := newClient(t, facade.WithDefaultCallTimeout(30*time.Millisecond))
	silent := rawAnswer("tools/call", silence)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Timeouts: mcpvisor.Timeouts{Call: time.Hour, CallTotal: time.Hour}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	longer, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.CallTool(longer, "s/x", nil, facade.WithTimeout(time.Hour))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled, "WithTimeout overrides both")
}

// A later valid option does not hide the error of an earlier one.
func TestNew_reports_the_error_of_every_option(t *testing.T) {
	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "https://h/"}), facade.WithRoots(mcp.Root{URI: "file:///tmp"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

// WaitReady without names waits for all servers, and its error names each that cannot
// become ready.
func TestWaitReady_of_several_servers(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.WaitReady(t.Context()), "there are none")
	broken := mcpvisor.ServerSpec{InMemory: mcptest.InMemory(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit}}}), StartSupervised: true}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{}), StartSupervised: true}))
	}
	require.NoError(t, c.WaitReady(t.Context()))
	require.NoError(t, c.WaitReady(t.Context(), "b", "a"))
	for _, name := range []string{"x", "y"} {
		broken.Name = name
		require.NoError(t, c.Register(t.Context(), broken))
	}
	err := c.WaitReady(t.Context())
	require.ErrorIs(t, err, mcpvisor.ErrEvicted)
	for _, name := range []string{"x", "y"} {
		require.ErrorContains(t, err, "wait for "+name)
	}
	require.NotContains(t, err.Error(), "wait for a")
	var e *mcpvisor.Error
	require.ErrorAs(t, c.WaitReady(t.Context(), "a", "y"), &e)
	require.Equal(t, "y", e.Server)
	require.ErrorIs(t, c.WaitReady(t.Context(), "a", "unknown"), mcpvisor.ErrUnknownServer)
}

func TestPing(t *testing.T) {
	c := newClient(t)
	for name, versions := range map[string][]string{"legacy": {"2025-11-25"}, "modern": {"2026-07-28"}} {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{Versions: versions})}))
		require.NoError(t, c.Ping(t.Context(), name))
	}
	require.ErrorIs(t, c.Ping(t.Context(), "unknown"), mcpvisor.ErrUnknownServer)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Ping(ended, "legacy"), mcpvisor.ErrCanceled)
	calls, _ := c.History().Calls(0)
	require.Empty(t, calls)

	silent := rawAnswer("ping", silence)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "silent", InMemory: silent, Probe: mcpvisor.Probe{Interval: -1, Timeout: 50 * time.Millisecond}}))
	err := c.Ping(t.Context(), "silent")
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
	require.ErrorContains(t, err, "Probe.Timeout")
	require.ErrorContains(t, err, "ping silent")
}

func TestWithoutValidation(t *testing.T) {
	for name, opts := range map[string][]facade.Option{"plain": {facade.WithValidation()}, "with an interceptor": {facade.WithValidation(), facade.WithInterceptor(passOn)}} {
		t.Run(name, func(t *testing.T) {
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, opts...)
			args := map[string]any{"text": 7}
			var wrong *facade.ArgumentError
			_, err := c.CallTool(t.Context(), "s/echo", args)
			require.ErrorAs(t, err, &wrong)
			_, err = c.CallTool(t.Context(), "s/echo", args, facade.WithoutValidation())
			require.False(t, errors.As(err, &wrong), "%v", err)
		})
	}
}

type tripperFunc func(*http.Request) (*http.Response, error)

func (f tripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// HeaderFunc sees the context of each call, and what it returns is sent with that call.
func TestHeaderFunc(t *testing.T) {
	type user struct{}
	var mu sync.Mutex
	sent := map[string]int{} // requests by user
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: tripperFunc(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		sent[r.Header.Get("X-User")]++
		require.Empty(t, r.Header.Values("Accept-Nothing"))
		require.NotEqual(t, "text/plain", r.Header.Get("Content-Type"), "headers of the protocol stay")
		return base.RoundTrip(r)
	})}
	for name, opts := range map[string][]mcptest.HTTPOption{"legacy": nil, "modern": {mcptest.WithStateless()}} {
		t.Run(name, func(t *testing.T) {
			web := mcptest.NewHTTP(mcptest.Script{}, opts...)
			t.Cleanup(web.Close)
			refused := errors.New("this user has no token")
			spec := mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL, Client: client, Headers: map[string]string{"X-User": "nobody"},
				HeaderFunc: func(ctx context.Context) (map[string]string, error) {
					switch u, _ := ctx.Value(user{}).(string); u {
					case "":
						return nil, nil
					case "refused":
						return nil, refused
					case "panics":
						panic("boom")
					case "bad":
						return map[string]string{"X-User": "a\nb"}, nil
					default:
						return map[string]string{"x-user": u, "Content-Type": "text/plain"}, nil
					}
				}}}
			c := registered(t, spec)
			for _, u := range []string{"ann", "bob"} {
				mu.Lock()
				delete(sent, u)
				mu.Unlock()
				_, err := c.CallTool(context.WithValue(t.Context(), user{}, u), "s/echo", map[string]any{"text": "x"})
				require.NoError(t, err)
				mu.Lock()
				require.Equal(t, 1, sent[u])
				mu.Unlock()
			}
			for u, text := range map[string]string{"refused": "no token", "panics": "boom", "bad": "X-User"} {
				_, err := c.CallTool(context.WithValue(t.Context(), user{}, u), "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
				require.ErrorIs(t, err, mcpvisor.ErrInvalid, u)
				require.ErrorContains(t, err, text)
				requireOutcome(t, err, mcpvisor.OutcomeNotSent)
			}
			require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
			status, _ := c.ServerStatus("s")
			require.EqualValues(t, 1, status.Epoch, "the same specification keeps its session")
		})
	}
}
