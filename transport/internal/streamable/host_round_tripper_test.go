package streamable

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"syscall"
	"testing"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// No error of the application's RoundTripper counts as NotSent, because the RoundTripper
// may have sent the request before, and the server may have carried it out.
func TestHostRoundTripper_outcome(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	rows := map[string]struct {
		second func() (*http.Response, error)
		gone   bool
	}{
		"second try refused":  {func() (*http.Response, error) { return nil, refused }, true},
		"second try no proxy": {func() (*http.Response, error) { return nil, &net.OpError{Op: "proxyconnect", Err: refused} }, false},
		"second try unknown host": {func() (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "host.example", IsNotFound: true}}
		}, false},
		"second try turned away": {func() (*http.Response, error) {
			return nil, errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error")
		}, false},
		"second try finds no session": {func() (*http.Response, error) {
			return &http.Response{StatusCode: 404, Body: http.NoBody, Header: http.Header{}}, nil
		}, true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			spec := specFor(web.URL)
			own := &http.Transport{}
			t.Cleanup(own.CloseIdleConnections)
			retries := false
			spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if !retries || r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") == "" {
					return own.RoundTrip(r)
				}
				first, err := own.RoundTrip(r) // the server carries it out, and the answer is lost
				if err == nil {
					_ = first.Body.Close()
				}
				return row.second()
			})}
			s := openSession(t, spec)
			requireServing(t, s)
			retries = true
			e := requireCallFails(t, s)
			retries = false
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Equal(t, row.gone, s.Cause() != nil, "the end of the session: %v", s.Cause())
			require.Len(t, web.requests("tools/call"), 2, "the call was sent again")
		})
	}
}

// A panic of the application's RoundTripper fails one request. It may modify the header,
// which is a copy. Cookies of the server are kept in the application's jar.
func TestHostClient_cookiesAndHeaders(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			http.SetCookie(w, &http.Cookie{Name: "seat", Value: "12"})
			writeResult(w, id, helloResult)
		})
		panics := false
		spec := web.spec()
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		spec.HTTP.Client.Jar = jar
		spec.HTTP.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if panics {
				panics = false
				panic("a bug of the application")
			}
			require.Empty(t, r.Header.Get("X-Trace"), "the header of this request is not shared")
			r.Header.Set("X-Trace", "1")
			return web.RoundTrip(r)
		})
		s := openSession(t, spec)
		requireServing(t, s)
		panics = true
		e := requireCallFails(t, s)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.ErrorContains(t, e, "panicked")
		requireServing(t, s)
		calls := web.requests("tools/call")
		require.Empty(t, calls[0].header.Get("Cookie"))
		require.Equal(t, "seat=12", calls[1].header.Get("Cookie"))
	})
}
