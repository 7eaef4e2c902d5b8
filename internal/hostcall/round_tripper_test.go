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

	"github.com/stretchr/testify/require"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hostBody is a response body of the host.
type hostBody struct {
	read  func(p []byte) (int, error)
	close func() error
}

func (b hostBody) Read(p []byte) (int, error) { return b.read(p) }
func (b hostBody) Close() error               { return b.close() }

// send sends a request through a RoundTripper of the host.
func send(ctx context.Context, t *testing.T, host roundTripper) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host.example", nil)
	require.NoError(t, err)
	return (&RoundTripper{Base: host}).RoundTrip(req)
}

// The response equals that of the host, which may return the same one each time. Every body
// is closed once, before its reader sees the end.
func TestRoundTripper_body(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10_000)
	var open atomic.Int32
	shared := &http.Response{StatusCode: http.StatusTeapot}
	for range 20 {
		rest := strings.NewReader(text)
		shared.Body = hostBody{rest.Read, func() error { open.Add(-1); return nil }}
		resp, err := send(t.Context(), t, func(*http.Request) (*http.Response, error) { open.Add(1); return shared, nil })
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, resp.StatusCode)
		require.IsType(t, hostBody{}, shared.Body, "the host's response is not changed")
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.NoError(t, resp.Body.Close())
		require.Zero(t, open.Load())
	}
}

// A panic, or the end of its goroutine, fails the request.
func TestRoundTripper_fails(t *testing.T) {
	reading := func(read func(p []byte) (int, error)) roundTripper {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: hostBody{read, func() error { panic("boom") }}}, nil
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
		"read lies":  {reading(func(p []byte) (int, error) { return len(p) + 1, nil }), "response body read "},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := send(t.Context(), t, row.host)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			require.ErrorContains(t, err, row.says)
		})
	}
	closed := false
	_, err := send(t.Context(), t, func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: hostBody{close: func() error { closed = true; return nil }}}, errPlain
	})
	require.True(t, errors.Is(err, errPlain) && closed, "a response beside an error is closed")
}
