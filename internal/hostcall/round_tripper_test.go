package hostcall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// body is a response body of the host.
type body struct {
	read  func(p []byte) (int, error)
	close func() error
}

func (b body) Read(p []byte) (int, error) { return b.read(p) }
func (b body) Close() error               { return b.close() }

// send sends a request through a RoundTripper of the host.
func send(ctx context.Context, t *testing.T, held *HeldRequests, host roundTripper) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host.example", nil)
	require.NoError(t, err)
	return (&RoundTripper{Base: host, Held: held}).RoundTrip(req)
}

// The response equals that of the host, which may return the same one each time. Every body
// is closed once, before its reader sees the end.
func TestRoundTripper_body(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10_000)
	var held HeldRequests
	var open atomic.Int32
	shared := &http.Response{StatusCode: http.StatusTeapot}
	for range 20 {
		rest := strings.NewReader(text)
		shared.Body = body{rest.Read, func() error { open.Add(-1); return nil }}
		resp, err := send(t.Context(), t, &held, func(*http.Request) (*http.Response, error) { open.Add(1); return shared, nil })
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, resp.StatusCode)
		require.IsType(t, body{}, shared.Body, "the host's response is not changed")
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.Zero(t, open.Load())
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
	}
}

// Close ends a Read that blocks, as with bodies of net/http, and closes the host's body and
// the context of its request.
func TestRoundTripper_close_during_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held HeldRequests
		var ended func() error // of the context that the host was given
		closed := make(chan struct{})
		resp, err := send(t.Context(), t, &held, func(r *http.Request) (*http.Response, error) {
			ended = r.Context().Err
			return &http.Response{Body: body{func([]byte) (int, error) { <-closed; return 0, io.EOF }, func() error { close(closed); return nil }}}, nil
		})
		require.NoError(t, err)
		failed := make(chan error, 1)
		go func() { _, err := resp.Body.Read(make([]byte, 1)); failed <- err }()
		synctest.Wait()
		require.NoError(t, ended())
		require.NoError(t, resp.Body.Close())
		require.Error(t, <-failed)
		synctest.Wait()
		require.Error(t, ended())
		require.Zero(t, held.Count())
	})
}

// RoundTrip and Read end with the context of the request, although the host's do not. The
// request is counted until they return, and a late response is closed.
func TestRoundTripper_ignores_its_context(t *testing.T) {
	for name, host := range map[string]func(free, closed chan struct{}) roundTripper{
		"round trip": func(free, closed chan struct{}) roundTripper {
			return func(*http.Request) (*http.Response, error) {
				<-free
				return &http.Response{Body: body{strings.NewReader("").Read, func() error { close(closed); return nil }}}, nil
			}
		},
		"read": func(free, closed chan struct{}) roundTripper {
			return func(*http.Request) (*http.Response, error) {
				return &http.Response{Body: body{func([]byte) (int, error) { <-free; return 0, io.EOF }, func() error { close(closed); return nil }}}, nil
			}
		},
		"read and close": func(free, closed chan struct{}) roundTripper {
			return func(*http.Request) (*http.Response, error) {
				return &http.Response{Body: body{func([]byte) (int, error) { <-free; return 0, io.EOF }, func() error { <-free; close(closed); return nil }}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held HeldRequests
				free, closed := make(chan struct{}), make(chan struct{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				resp, err := send(ctx, t, &held, host(free, closed))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(began))
				synctest.Wait()
				require.Equal(t, 1, held.Count())
				close(free)
				<-closed
				synctest.Wait()
				require.Zero(t, held.Count())
			})
		})
	}
}

// A panic, or the end of its goroutine, fails the request.
func TestRoundTripper_fails(t *testing.T) {
	reading := func(read func(p []byte) (int, error)) roundTripper {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: body{read, func() error { panic("boom") }}}, nil
		}
	}
	for name, row := range map[string]struct {
		host roundTripper
		says string
	}{
		"panic":      {func(*http.Request) (*http.Response, error) { panic("boom") }, "RoundTripper panicked: boom"},
		"Goexit":     {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, "RoundTripper ended its goroutine"},
		"error":      {func(*http.Request) (*http.Response, error) { return nil, errPlain }, "plain"},
		"read":       {reading(func([]byte) (int, error) { panic("boom") }), "response body panicked: boom"},
		"read fails": {reading(func([]byte) (int, error) { return 0, errPlain }), "plain"},
		"read ends":  {reading(func([]byte) (int, error) { runtime.Goexit(); return 0, nil }), "response body ended its goroutine"},
		"read lies":  {reading(func(p []byte) (int, error) { return len(p) + 1, nil }), "response body panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := send(t.Context(), t, new(HeldRequests), row.host)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			require.ErrorContains(t, err, row.says)
		})
	}
	closed := false
	_, err := send(t.Context(), t, new(HeldRequests), func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: body{close: func() error { closed = true; return nil }}}, errPlain
	})
	require.True(t, errors.Is(err, errPlain) && closed, "a response beside an error is closed")
}
