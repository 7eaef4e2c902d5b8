package hostcall

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errPlain = errors.New("plain")

func TestCall(t *testing.T) {
	require.NoError(t, Call("thing", func() error { return nil }))
	require.Equal(t, errPlain, Call("thing", func() error { return errPlain }))
	require.EqualError(t, Call("thing", func() error { panic("boom") }), "the host's thing panicked: boom")
	require.ErrorContains(t, Call("thing", func() error { return (*url.Error)(nil) }), "an error of type *url.Error that panicked")
	require.EqualError(t, Call("thing", func() error { runtime.Goexit(); return nil }), "the host's thing ended its goroutine")
	n, err := Value("thing", func() (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	_, err = Value("thing", func() (int, error) { panic(errPlain) })
	require.EqualError(t, err, "the host's thing panicked: plain")
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := func(context.Context) error { runtime.Goexit(); return nil }
		require.EqualError(t, Do(t.Context(), "thing", ended), "the host's thing ended its goroutine")
		require.EqualError(t, Do(t.Context(), "thing", func(context.Context) error { panic("boom") }), "the host's thing panicked: boom")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late, free := make(chan int, 1), make(chan struct{})
		_, err := Wait(ctx, "thing", func(n int) { late <- n; panic("boom") }, func(context.Context) (int, error) { <-free; return 7, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(free)
		require.Equal(t, 7, <-late)
	})
}

// A panic in a dial function is its error: net/http calls it in a goroutine of its own. The
// deprecated functions are used only where the others are not set, as in net/http.
func TestDialFuncs(t *testing.T) {
	panics := func(context.Context, string, string) (net.Conn, error) { panic("boom") }
	deprecated := func(string, string) (net.Conn, error) { return nil, errPlain }
	for name, row := range map[string]struct {
		transport     *http.Transport
		dial, dialTLS string // the error; "": no function
	}{
		"none":       {transport: &http.Transport{}},
		"both":       {&http.Transport{DialContext: panics, DialTLSContext: panics}, "dial function panicked: boom", "dial function panicked: boom"},
		"deprecated": {&http.Transport{Dial: deprecated, DialTLS: deprecated}, "plain", "plain"}, //nolint:staticcheck // hosts still set them
		"preferred":  {&http.Transport{Dial: deprecated, DialContext: panics}, "panicked", ""},   //nolint:staticcheck // hosts still set it
	} {
		t.Run(name, func(t *testing.T) {
			own := row.transport.Clone()
			dial, dialTLS := DialFuncs(own)
			for want, got := range map[*string]DialFunc{&row.dial: dial, &row.dialTLS: dialTLS} {
				if require.Equal(t, *want == "", got == nil); got != nil {
					_, err := got(t.Context(), "tcp", "h:1")
					require.ErrorContains(t, err, *want)
				}
			}
			require.Nil(t, own.Dial)    //nolint:staticcheck // the functions that are returned call it
			require.Nil(t, own.DialTLS) //nolint:staticcheck // the functions that are returned call it
		})
	}
}

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
