package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// hostBody is a response body that the application's RoundTripper returns.
type hostBody struct {
	io.Reader
	close func() error
}

func (b hostBody) Close() error { return b.close() }

// readFunc is a function that implements io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// panickingJar is a cookie jar that panics: in Cookies while now is set, in SetCookies
// always.
type panickingJar struct{ now *atomic.Bool }

func (j panickingJar) Cookies(*url.URL) []*http.Cookie {
	if j.now.Load() {
		panic("panic of the host")
	}
	return []*http.Cookie{nil}
}

func (j panickingJar) SetCookies(*url.URL, []*http.Cookie) { panic("panic of the host") }

// dialThen makes the transport of c call then with each new connection.
func dialThen(c *http.Client, then func(net.Conn) (net.Conn, error)) {
	t := c.Transport.(*http.Transport)
	t.DisableKeepAlives = true
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return then(conn)
	}
}

// tripThen makes the RoundTripper of c call then with the response to each POST, while now
// is set.
func tripThen(c *http.Client, now *atomic.Bool, then func(*http.Response) (*http.Response, error)) {
	base := c.Transport
	c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(r)
		if err != nil || !now.Load() || r.Method != http.MethodPost {
			return resp, err
		}
		return then(resp)
	})
}

// readThen makes the RoundTripper of c return bodies that call read, while now is set.
func readThen(c *http.Client, now *atomic.Bool, read readFunc) {
	tripThen(c, now, func(resp *http.Response) (*http.Response, error) {
		resp.Body = hostBody{read, resp.Body.Close}
		resp.ContentLength = -1
		return resp, nil
	})
}

// panickingClients prepare a client of the application so that, while now is set, one of
// its functions panics, or returns an invalid value.
var panickingClients = map[string]func(c *http.Client, now *atomic.Bool){
	"round_trip": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) { _ = resp.Body.Close(); panic("panic of the host") })
	},
	"round_trip_nothing": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) { return nil, resp.Body.Close() })
	},
	"round_trip_nil_error_pointer": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) {
			_ = resp.Body.Close()
			return nil, (*url.Error)(nil)
		})
	},
	"body_read": func(c *http.Client, now *atomic.Bool) {
		readThen(c, now, func([]byte) (int, error) { panic("panic of the host") })
	},
	"jar": func(c *http.Client, now *atomic.Bool) { c.Jar = panickingJar{now} },
	"proxy": func(c *http.Client, now *atomic.Bool) {
		c.Transport.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) {
			if now.Load() {
				panic("panic of the host")
			}
			return nil, nil
		}
	},
	"dial": func(c *http.Client, now *atomic.Bool) {
		dialThen(c, func(conn net.Conn) (net.Conn, error) {
			if now.Load() {
				_ = conn.Close()
				panic("panic of the host")
			}
			return conn, nil
		})
	},
	"dial_nothing": func(c *http.Client, now *atomic.Bool) {
		dialThen(c, func(conn net.Conn) (net.Conn, error) {
			if now.Load() {
				return nil, conn.Close()
			}
			return conn, nil
		})
	},
}

// A panic of the application's client fails only one request, where the session calls it: the
// RoundTripper and its bodies, the jar, Proxy and the dial functions. What net/http calls in
// its own goroutines is called as it is.
func TestHostClient_panics(t *testing.T) {
	for name, prepare := range panickingClients {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				http.SetCookie(w, &http.Cookie{Name: "seat", Value: "12"})
				writeResult(w, id, helloResult)
			})
			own := &http.Transport{}
			t.Cleanup(own.CloseIdleConnections)
			var now atomic.Bool
			spec := specFor(web.URL)
			spec.HTTP.Client = &http.Client{Transport: own}
			prepare(spec.HTTP.Client, &now)
			s := openSession(t, spec)
			requireServing(t, s)
			now.Store(true)
			e := requireCallFails(t, s)
			require.Equal(t, name != "dial" && name != "dial_nothing" && name != "proxy" && name != "jar", e.Outcome == mcpvisor.OutcomeUnknown, e.Error())
			s.exchanger.notify([]byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)) // in a goroutine of the session
			s.calls.ping()
			now.Store(false)
			if s.Cause() == nil {
				requireServing(t, s)
			}
		})
	}
}

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

// The application's RoundTripper may modify the header, which is a copy. Cookies of the server are
// kept in the application's jar.
func TestHostClient_cookiesAndHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			http.SetCookie(w, &http.Cookie{Name: "seat", Value: "12"})
			writeResult(w, id, helloResult)
		})
		spec := web.spec()
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		spec.HTTP.Client.Jar = jar
		spec.HTTP.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			require.Empty(t, r.Header.Get("X-Trace"), "the header of this request is not shared")
			r.Header.Set("X-Trace", "1")
			return web.RoundTrip(r)
		})
		s := openSession(t, spec)
		requireServing(t, s)
		requireServing(t, s)
		calls := web.requests("tools/call")
		require.Empty(t, calls[0].header.Get("Cookie"))
		require.Equal(t, "seat=12", calls[1].header.Get("Cookie"))
	})
}
