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

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// panickingConn is a connection of the host's that panics from some moment on.
type panickingConn struct {
	net.Conn
	now    *atomic.Bool
	onRead bool
}

func (c *panickingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.onRead && c.now.Load() {
		panic("of the host")
	}
	return n, err
}

func (c *panickingConn) Write(p []byte) (int, error) {
	if !c.onRead && c.now.Load() {
		panic("of the host")
	}
	return c.Conn.Write(p)
}

type panickingJar struct{ now *atomic.Bool }

func (j panickingJar) Cookies(*url.URL) []*http.Cookie {
	if j.now.Load() {
		panic("of the host")
	}
	return []*http.Cookie{nil}
}

func (j panickingJar) SetCookies(*url.URL, []*http.Cookie) { panic("of the host") }

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

func readThen(c *http.Client, now *atomic.Bool, read readFunc) {
	tripThen(c, now, func(resp *http.Response) (*http.Response, error) {
		resp.Body = hostBody{read, resp.Body.Close}
		resp.ContentLength = -1
		return resp, nil
	})
}

// panickingClients are clients of the host that panic, or end the goroutine in which
// they are called, or return invalid values.
var panickingClients = map[string]func(c *http.Client, now *atomic.Bool){
	"round_trip": func(c *http.Client, now *atomic.Bool) {
		tripThen(c, now, func(resp *http.Response) (*http.Response, error) { _ = resp.Body.Close(); panic("of the host") })
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
		readThen(c, now, func([]byte) (int, error) { panic("of the host") })
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
				panic("of the host")
			}
			return nil, nil
		}
	},
	"dial": func(c *http.Client, now *atomic.Bool) {
		dialThen(c, func(conn net.Conn) (net.Conn, error) {
			if now.Load() {
				_ = conn.Close()
				panic("of the host")
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

// What a client of the host's does costs the one request and not the process, in
// whichever goroutine it is called.
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
			s.notifyServer(s.agreed.Load(), []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)) // in a goroutine of the session's
			s.pingServer(s.agreed.Load())
			now.Store(false)
			if s.Cause() == nil {
				requireServing(t, s)
			}
			require.Zero(t, s.Info().AbandonedRequests)
		})
	}
}

// A caller's httptrace runs in goroutines of net/http.
func TestHostTrace_panics(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	own := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(own.CloseIdleConnections)
	spec.HTTP.Client = &http.Client{Transport: own}
	s := openSession(t, spec)
	var calm atomic.Int32
	ctx := httptrace.WithClientTrace(transporttest.Context(t), &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { panic("of the host") },
		ConnectDone:          func(string, string, error) { panic("of the host") },
		WroteHeaders:         func() { panic("of the host") },
		GotFirstResponseByte: func() { panic("of the host") },
		GotConn:              func(httptrace.GotConnInfo) { calm.Add(1) },
	})
	got, err := s.Request(ctx, transporttest.ToolCall)
	require.NoError(t, err)
	require.Contains(t, string(got), "hello")
	require.EqualValues(t, 1, calm.Load())
}
