package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// pipes is a listener of connections within the process, so that they use the clock of a
// synctest bubble.
type pipes struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// dial connects to the listener.
func (p *pipes) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accepted <- unixConn{theirs}:
		return ours, nil
	case <-p.closed:
		return nil, errors.Join(net.ErrClosed, ours.Close(), theirs.Close())
	}
}

// unixConn is a connection of a unix socket, as far as the handler can see.
type unixConn struct{ net.Conn }

func (unixConn) LocalAddr() net.Addr { return &net.UnixAddr{} }

// withPipes runs a test in a bubble, with a client and a server on pipes that speaks
// HTTP/1.1 and HTTP/2.
func withPipes(t *testing.T, script mcptest.Script, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script)}))
		h, err := web.New(c, web.WithControls())
		require.NoError(t, err)
		p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(p) })
		defer func() {
			h.Close()
			require.NoError(t, server.Close())
			serving.Wait()
			time.Sleep(time.Second) // net/http keeps a connection that it has refused for half a second
			require.NoError(t, c.Close(context.Background()))
		}()
		test(t, p)
	})
}

// Over HTTP/2 a deadline ends a stream even when nothing is written.
func TestStream_stays_open_over_HTTP2(t *testing.T) {
	withPipes(t, mcptest.Script{}, func(t *testing.T, p *pipes) {
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial() }}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/events/stream", nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, 2, response.ProtoMajor)
		lines := bufio.NewScanner(response.Body)
		for heartbeats := 0; heartbeats < 4; {
			require.True(t, lines.Scan(), "the stream has ended after %d heartbeats: %v", heartbeats, lines.Err())
			if lines.Text() == ":" {
				heartbeats++
			}
		}
	})
}

// HEAD gets the headers; the connection serves the next request.
func TestStream_answers_HEAD_at_once(t *testing.T) {
	s := serve(t, newClient(t))
	for range 70 { // more than there may be streams
		response, _ := s.do(http.MethodHead, "/api/events/stream", "", nil)
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second))) // a test that fails ends
	_, err = conn.Write([]byte("HEAD /api/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)
	reading := bufio.NewReader(conn)
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		response, err := http.ReadResponse(reading, &http.Request{Method: method})
		require.NoError(t, err, method)
		require.Equal(t, 200, response.StatusCode, method)
	}
}

// A reader that does not read, and a writer that does not write, hold nothing for long.
func TestConnections_that_stall_are_closed(t *testing.T) {
	withPipes(t, mcptest.Script{Tools: []mcptest.ToolDef{{Name: "large", Description: strings.Repeat("x", 50_000)}}}, func(t *testing.T, p *pipes) {
		for _, head := range []string{
			"GET /api/servers/s/tools HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			"POST /api/servers/s/restart HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		} {
			conn, err := p.dial()
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte(head))
			require.NoError(t, err)
			time.Sleep(2 * time.Minute) // the clock of the bubble
			synctest.Wait()
			require.ErrorIs(t, conn.SetReadDeadline(time.Time{}), io.ErrClosedPipe, "%s: the connection is open", head)
		}
	})
}

// A call may take longer than its body may take to arrive.
func TestCall_outlasts_the_limit_of_its_body(t *testing.T) {
	const body = `{"tool":"s/hang","timeoutMs":300000}`
	for name, text := range map[string]string{
		"length known": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		"in chunks":    fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			withPipes(t, mcptest.Script{}, func(t *testing.T, p *pipes) {
				conn, err := p.dial()
				require.NoError(t, err)
				defer conn.Close()
				_, err = conn.Write([]byte("POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + text))
				require.NoError(t, err)
				began := time.Now()
				require.NoError(t, conn.SetReadDeadline(began.Add(10*time.Minute)))
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
				require.GreaterOrEqual(t, time.Since(began), 5*time.Minute)
			})
		})
	}
}
