package streamable

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/mcpvisor/mcpvisor"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// panickingConn is a connection of the application that panics while now is set: in Read
// or in Write.
type panickingConn struct {
	net.Conn
	now    *atomic.Bool
	onRead bool
}

func (c *panickingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.onRead && c.now.Load() {
		panic("panic of the host")
	}
	return n, err
}

func (c *panickingConn) Write(p []byte) (int, error) {
	if !c.onRead && c.now.Load() {
		panic("panic of the host")
	}
	return c.Conn.Write(p)
}

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
// its functions panics, ends its goroutine, or returns an invalid value.
var panickingClients = map[string]func(c *http.Client, now *atomic.Bool){
	"round_trip": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) { _ = resp.Body.Close(); panic("panic of the host") })
	},
	"round_trip_ends_goroutine": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) {
			_ = resp.Body.Close()
			runtime.Goexit()
			return nil, nil
		})
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
	"body_read_ends_goroutine": func(c *http.Client, now *atomic.Bool) {
		readThen(c, now, func([]byte) (int, error) { runtime.Goexit(); return 0, nil })
	},
	"body_read_too_much": func(c *http.Client, now *atomic.Bool) {
		readThen(c, now, func(p []byte) (int, error) { return len(p) + 1, nil })
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
	"connection_read": func(c *http.Client, now *atomic.Bool) {
		dialThen(c, func(conn net.Conn) (net.Conn, error) { return &panickingConn{Conn: conn, now: now, onRead: true}, nil })
	},
	"connection_write": func(c *http.Client, now *atomic.Bool) {
		dialThen(c, func(conn net.Conn) (net.Conn, error) { return &panickingConn{Conn: conn, now: now}, nil })
	},
}

// A panic of the application's client fails only one request, in whichever goroutine
// net/http calls it.
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
			require.NotEmpty(t, e.Error())
			s.notifyServer(s.agreed.Load(), []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)) // in a goroutine of the session
			s.pingServer(s.agreed.Load())
			now.Store(false)
			if s.Cause() == nil {
				requireServing(t, s)
			}
			require.Zero(t, s.Info().AbandonedRequests)
		})
	}
}

// A panic of a caller's httptrace hook is recovered, although net/http calls the hooks in
// its own goroutines. Hooks that do not panic are called.
func TestHostTrace_panics(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	own := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(own.CloseIdleConnections)
	spec.HTTP.Client = &http.Client{Transport: own}
	s := openSession(t, spec)
	var gotConn atomic.Int32
	ctx := httptrace.WithClientTrace(transporttest.Context(t), &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { panic("panic of the host") },
		ConnectDone:          func(string, string, error) { panic("panic of the host") },
		WroteHeaders:         func() { panic("panic of the host") },
		GotFirstResponseByte: func() { panic("panic of the host") },
		GotConn:              func(httptrace.GotConnInfo) { gotConn.Add(1) },
	})
	got, err := s.Request(ctx, transporttest.ToolCall)
	require.NoError(t, err)
	require.Contains(t, string(got), "hello")
	require.EqualValues(t, 1, gotConn.Load())
}

// panicking is a RoundTripper of the application that panics for a request whose context
// has the value panicNow.
type panicking struct{ http.RoundTripper }

func (p panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Now") != "" && r.Context().Value(panicNow{}) != nil {
		panic("panic of the host")
	}
	return p.RoundTripper.RoundTrip(r)
}

type panicNow struct{}

// A RoundTripper that panics fails only one request, with and without a Progress function:
// the latter decides in which goroutine the request is sent.
func TestHostRoundTripper_panics(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.HTTP.Headers = map[string]string{"X-Now": "1"}
	spec.HTTP.Client = &http.Client{Transport: panicking{web.Client().Transport}}
	s := openSession(t, spec)
	for _, onProgress := range []func(mcpvisor.Progress){nil, func(mcpvisor.Progress) {}} {
		r := transporttest.ToolCall
		r.Progress = onProgress
		_, err := s.Request(context.WithValue(transporttest.Context(t), panicNow{}, true), r)
		require.ErrorContains(t, err, "RoundTripper panicked")
		requireServing(t, s)
	}
}
