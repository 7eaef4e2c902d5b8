package gateway

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

var hostileFrames = flag.Int("hostile.frames", 2_000, "how many malformed frames a host sends; the full size is 1000000")

// hostileHost is a host over HTTP that misbehaves, and what it can reach.
type hostileHost struct {
	*peer
	client  *facade.Client
	server  *Server
	address string
	served  func() int64 // calls of the other host that have succeeded
}

// hastyRows wait for what the gateway does after a timeout, which is shorter for them. Elsewhere it must not come on a
// busy machine.
var hastyRows = []string{"deaf/queue", "deaf/stream", "slow/head", "slow/frame"}

const hastyTimeout = 2 * time.Second

const hostileToken = "other"

// hostileVerifier knows the other host, and the tokens "a" and "b" of two more principals. A token that begins with
// "elsewhere" is valid, but for another server.
func hostileVerifier(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != hostileToken && token != "a" && token != "b" {
		return nil, fmt.Errorf("%w: it is for another audience", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{UserID: token}, nil
}

// raw sends bytes on a connection of its own, and returns what comes back until the connection ends.
func (h hostileHost) raw(t *testing.T, parts ...string) (conn net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", h.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for _, part := range parts {
		_, err = io.WriteString(conn, part)
		require.NoError(t, err)
	}
	return conn
}

// postHead is the head of a POST, but for its end.
func (h hostileHost) postHead() string {
	return "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" + sessionHeader + ": " + h.session + "\r\n"
}

func withLength(head, body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// sendBody sends a part 1,024 times, or until the connection ends, and returns the answer.
func (h hostileHost) sendBody(head, part string) string {
	conn := h.raw(h.t, h.postHead(), head)
	go func() {
		for range 1024 {
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
		}
	}()
	answer, _ := io.ReadAll(conn) // it may end with a reset
	return string(answer)
}

// requireOthersServed requires that the other host is served while the condition lasts.
func (h hostileHost) requireOthersServed(t *testing.T, lasts func() bool) {
	t.Helper()
	before := h.served()
	until(t, func() bool { return h.served() >= before+20 })
	require.True(t, lasts(), "the others were served only when it was over")
}

// as returns a host that is another principal, without a session.
func (h hostileHost) as(t *testing.T, token string) *peer {
	t.Helper()
	p := newPeer(t, h.url)
	p.header.Set("Authorization", "Bearer "+token)
	return p
}

// asks sends a request in a session, and returns the status of each way to use it.
func statusesOf(p *peer) (statuses []int) {
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		ctx, cancel := context.WithCancel(p.t.Context())
		response := p.do(ctx, method, pingRequest)
		statuses = append(statuses, response.StatusCode)
		cancel()
	}
	return statuses
}

// hostileHTTPRows are what a host over HTTP may do.
var hostileHTTPRows = map[string]func(t *testing.T, h hostileHost){
	"frame/malformed": func(t *testing.T, h hostileHost) {
		type sent struct {
			i     int
			frame []byte
		}
		frames := make(chan sent)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				p := newPeer2(h.peer)
				for s := range frames {
					status, answer, err := p.exchange(string(s.frame))
					if err != nil || !slices.Contains([]int{200, 202, 400}, status) || status == 400 && !strings.Contains(answer, `"error"`) {
						t.Errorf("frame %d: %q: %v %d %s", s.i, s.frame, err, status, answer)
					}
				}
			})
		}
		for i, frame := range gatewaytest.Frames(*hostileFrames, 1) {
			frames <- sent{i, frame}
		}
		close(frames)
		all.Wait()
	},
	"frame/64-mib": func(t *testing.T, h hostileHost) {
		for range 5 {
			require.Contains(t, h.sendBody("Content-Length: 67108864\r\n\r\n", strings.Repeat(" ", 1<<16)), "the body has 67108864 bytes, and 16777216 is the most")
		}
	},
	"frame/64-mib-unnamed": func(t *testing.T, h hostileHost) {
		require.Contains(t, h.sendBody("Transfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n"), "413 Request Entity Too Large")
	},
	"frame/nested": func(t *testing.T, h hostileHost) {
		for _, body := range []string{gatewaytest.Nested(100_000), `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + gatewaytest.Nested(100_000) + `}`} {
			status, answer := h.post(body)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, answer, "nested deeper than 1000 levels")
		}
	},
	"frame/cut": func(t *testing.T, h hostileHost) {
		for range 100 {
			_ = h.raw(t, h.postHead()+"Content-Length: 100\r\n\r\n{").Close()
		}
	},
	"batch/where-none-are": func(t *testing.T, h hostileHost) {
		status, answer := h.post("[" + pingRequest + "]")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "version 2025-11-25 has no batches")
	},
	"batch/nothing": func(t *testing.T, h hostileHost) {
		h.initialize("2025-03-26")
		for _, body := range []string{"[]", "[[]]", "[1,2]", "[null]", "[" + pingRequest + ",1]", `["x"]`, "[{}]"} {
			status, answer := h.post(body)
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, answer, `"error"`)
		}
	},
	"batch/too-many": func(t *testing.T, h hostileHost) {
		h.initialize("2025-03-26")
		status, answer := h.post("[" + strings.Repeat(pingRequest+",", 99_999) + pingRequest + "]")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "the batch has more than 1000 messages")
		status, answer = h.post("[" + strings.Repeat(toolCallOf(1, "fixture__hang", `{}`)+",", 99) + pingRequest + "]")
		require.Equal(t, http.StatusTooManyRequests, status)
		require.Contains(t, answer, "Nothing was done")
	},
	"batch/one-id": func(t *testing.T, h hostileHost) {
		h.initialize("2025-03-26")
		ctx, leave := context.WithCancel(t.Context())
		hang := toolCallOf(1, "fixture__hang", `{}`)
		stream := h.do(ctx, http.MethodPost, "["+hang+","+hang+"]")
		_, data, ok := events{t, bufio.NewReader(stream.Body), leave}.next()
		require.True(t, ok)
		require.Contains(t, data, "a request with this id is in flight")
		leave()
	},
	"id/duplicate": func(t *testing.T, h hostileHost) {
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			_, _, _ = newPeer2(h.peer).exchangeIn(ctx, toolCallOf(7, "fixture__hang", `{}`))
			close(ended)
		}()
		until(t, func() bool { return hanging(h.client) == 1 })
		status, answer := h.post(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, answer, "a request with this id is in flight")
		require.Equal(t, 1, hanging(h.client))
		leave()
		<-ended
	},
	"id/reused": func(t *testing.T, h hostileHost) {
		for range 500 {
			status, answer := h.post(pingRequest)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, answer, `"id":1`)
		}
	},
	"id/strange": func(t *testing.T, h hostileHost) {
		for id, bad := range gatewaytest.StrangeIDs() {
			status, answer := h.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			want := http.StatusOK
			if bad {
				want = http.StatusBadRequest
			}
			require.Equal(t, want, status, "%.100s: %.200s", id, answer)
			if !bad {
				require.Equal(t, id, memberOf(t, []byte(answer), "id"))
			}
		}
	},
	"answer/never-asked": func(t *testing.T, h hostileHost) {
		for i := range 500 {
			status, _ := h.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept"}}`, i))
			require.Equal(t, http.StatusAccepted, status)
		}
	},
	"cancel/never-asked": func(t *testing.T, h hostileHost) {
		for i := range 500 {
			status, _ := h.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
			require.Equal(t, http.StatusAccepted, status)
		}
	},
	"flood/calls": func(t *testing.T, h hostileHost) {
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range 200 {
			all.Go(func() {
				if status, _, _ := newPeer2(h.peer).exchangeIn(ctx, toolCallOf(i, "fixture__hang", `{}`)); status == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		until(t, func() bool { return hanging(h.client) == 64 && refused.Load() == 200-64 })
		h.requireOthersServed(t, func() bool { return hanging(h.client) == 64 })
		leave()
		all.Wait()
	},
	"flood/streams": func(t *testing.T, h hostileHost) {
		streams := make([]events, 100)
		for i := range streams {
			streams[i] = h.listen()
		}
		for _, s := range streams[:99] {
			for { // it ends after what came first
				if _, _, ok := s.next(); !ok {
					break
				}
			}
		}
		require.Equal(t, 1, h.server.Status().Streams)
		streams[99].stop()

		for i := range 40 { // sessions
			h.session = ""
			h.session = h.do(t.Context(), http.MethodPost, initializeRequest("2025-11-25")).Header.Get(sessionHeader)
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			want := http.StatusOK
			if i >= 32 {
				want = http.StatusTooManyRequests
			}
			require.Equal(t, want, h.do(ctx, http.MethodGet, "").StatusCode, i)
		}
	},
	"deaf/answer": func(t *testing.T, h hostileHost) {
		conn := h.raw(t, withLength(h.postHead(), toolCallOf(1, "fixture__big", `{"bytes":10000000}`)))
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		until(t, func() bool { return h.inFlight() == 1 })
		h.requireOthersServed(t, func() bool { return h.inFlight() == 1 })
		require.NoError(t, conn.Close())
		until(t, func() bool { return len(h.client.CallsInFlight()) == 0 && h.inFlight() == 0 })
	},
	"deaf/queue": func(t *testing.T, h hostileHost) {
		for i := range sized(50, 15) { // until it is dropped; each answer has its own connection: nothing is queued behind another one
			conn := h.raw(t, withLength(h.postHead(), toolCallOf(i, "fixture__big", `{"bytes":1000000}`)))
			require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		}
		until(t, func() bool { return h.inFlight() > 0 })
		until(t, func() bool { return h.inFlight() == 0 })
	},
	"deaf/stream": func(t *testing.T, h hostileHost) {
		uri := "mcptest://echo/" + strings.Repeat("x", 50_000)
		status, answer := h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"` + uri + `"}}`)
		require.Equal(t, http.StatusOK, status, answer)
		require.NotContains(t, answer, `"error"`)
		conn := h.raw(t, strings.Replace(h.postHead(), "POST", "GET", 1), "\r\n")
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		until(t, func() bool { return h.server.Status().Streams == 1 })
		until(t, func() bool { // until it is dropped
			h.server.gateway.hub.report(mcpvisor.Event{Kind: mcpvisor.EventResourceUpdated, Server: "fixture", URI: uri})
			return h.server.Status().Streams == 0
		})
	},
	"slow/head": func(t *testing.T, h hostileHost) {
		conns := make([]net.Conn, 100)
		for i := range conns {
			conns[i] = h.raw(t, h.postHead())
		}
		h.requireOthersServed(t, func() bool { return true })
		for _, conn := range conns { // the server gives up
			_, _ = io.Copy(io.Discard, conn)
		}
	},
	"slow/frame": func(t *testing.T, h hostileHost) {
		conns := make([]net.Conn, 50)
		for i := range conns {
			conns[i] = h.raw(t, h.postHead(), "Content-Length: 1000000\r\n\r\n", `{"jsonrpc"`)
		}
		for _, conn := range conns {
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Contains(t, string(answer), "408 Request Timeout")
		}
	},
	"gone/in-a-call": func(t *testing.T, h hostileHost) {
		conn := h.raw(t, withLength(h.postHead(), toolCallOf(1, "fixture__hang", `{}`)))
		until(t, func() bool { return hanging(h.client) == 1 })
		require.NoError(t, conn.Close())
		until(t, func() bool { return hanging(h.client) == 0 })
	},
	"access/host": func(t *testing.T, h hostileHost) {
		_, local := serveHTTP(t, h.client)
		for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.1", "[::ffff:10.0.0.1]", "0x7f.1", "evil.example:80@localhost", ""} {
			p := newPeer(t, local)
			status, err := p.statusUnder(host)
			require.NoError(t, err)
			require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, status, host)
		}
	},
	"access/origin": func(t *testing.T, h hostileHost) {
		_, local := serveHTTP(t, h.client)
		for _, origin := range []string{"http://evil.example", "null", "http://127.0.0.1:1", "https://localhost.evil.example", "file://", "", "http://127.0.0.1@evil.example"} {
			for _, url := range []string{local, h.url} {
				p := newPeer(t, url)
				p.header.Set("Authorization", "Bearer a")
				p.header["Origin"] = []string{origin}
				status, answer := p.post(pingRequest)
				require.Equal(t, http.StatusForbidden, status, "%s: %s", origin, answer)
			}
		}
	},
	"access/token": func(t *testing.T, h hostileHost) {
		_, hashed := serveHTTP(t, h.client, WithTokens(Token{Principal: "p", SHA256: HashToken("secret")}))
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "Bearer secret secret", "secret", "Bearer " + HashToken("secret"), "Bearer " + strings.Repeat("x", 30_000)} {
			p := newPeer(t, hashed)
			p.header["Authorization"] = []string{authorization}
			status, answer := p.post(pingRequest)
			require.Equal(t, http.StatusUnauthorized, status, "%.100s", authorization)
			require.NotContains(t, answer, "secret")
		}
	},
	"access/audience": func(t *testing.T, h hostileHost) {
		p := h.as(t, "elsewhere")
		response := p.do(t.Context(), http.MethodPost, initializeRequest("2025-11-25"))
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		require.Empty(t, response.Header.Get(sessionHeader))
	},
	"session/forged": func(t *testing.T, h hostileHost) {
		id := h.session
		for i := range len(id) {
			for _, c := range []byte("A9-") {
				forged := []byte(id)
				if forged[i] = c; string(forged) == id {
					continue
				}
				p := newPeer2(h.peer)
				p.session = string(forged)
				status, answer := p.post(pingRequest)
				require.Equal(t, http.StatusNotFound, status, "%s: %s", forged, answer)
			}
		}
		for _, made := range []string{"1", id[:len(id)-1], id + "A", id + id, strings.Repeat("A", len(id)), strings.Repeat("A", 30_000),
			sessionid.Seal(sessionid.NewKey(), sessionid.New(0, 0, "a", time.Now().Add(time.Hour)))} {
			p := newPeer2(h.peer)
			p.session = made
			require.Equal(t, []int{404, 404, 404}, statusesOf(p), "%.100s", made)
		}
	},
	"session/of-another": func(t *testing.T, h hostileHost) {
		other := h.as(t, "b")
		other.session = h.session
		require.Equal(t, []int{404, 404, 404}, statusesOf(other))
		status, _ := h.post(pingRequest)
		require.Equal(t, http.StatusOK, status, "the session continues")
	},
	"session/expired": func(t *testing.T, h hostileHost) {
		h.session = sessionid.Seal(h.server.gateway.opts.key, sessionid.New(3, 0, "a", time.Now().Add(-time.Second)))
		require.Equal(t, []int{404, 404, 404}, statusesOf(h.peer))
	},
	"session/ended": func(t *testing.T, h hostileHost) {
		stream := h.listen()
		require.Equal(t, http.StatusNoContent, h.do(t.Context(), http.MethodDelete, "").StatusCode)
		for {
			if _, _, ok := stream.next(); !ok {
				break
			}
		}
		require.Equal(t, []int{404, 404, 404}, statusesOf(h.peer))
	},
	"task/of-another": func(t *testing.T, h hostileHost) {
		require.NoError(t, h.client.Register(t.Context(), jobServer("2025-11-25", mcptest.TaskDef{Takes: time.Hour})))
		defer func() { require.NoError(t, h.client.Unregister(context.Background(), "s")) }()
		owner := follower(t, h.url, false, "Authorization", "Bearer b")
		id := owner.begin("of another")
		unknown := fmt.Sprintf(`"error":{"code":-32602,"message":%q}`, errUnknownTask.Message)
		notThere := func(method string) string {
			return fmt.Sprintf(`"error":{"code":-32601,"message":"method not found: %s"}`, method)
		}
		for _, modern := range []bool{false, true} {
			evil := follower(t, h.url, modern, "Authorization", "Bearer a")
			for method, want := range map[string]string{
				"tasks/get": unknown, "tasks/cancel": unknown,
				"tasks/result": map[bool]string{false: unknown, true: notThere("tasks/result")}[modern],
				"tasks/update": map[bool]string{false: notThere("tasks/update"), true: unknown}[modern],
			} {
				status := http.StatusOK
				if modern && want != unknown {
					status = http.StatusNotFound
				}
				for _, asked := range []string{id, "1", "the-task-of-another", id[:len(id)-2], strings.Repeat("x", 1<<12)} {
					got, next := evil.open(t.Context(), method, `{"taskId":"`+asked+`","inputResponses":{}}`)
					answer, ok := next()
					require.True(t, ok)
					require.Equal(t, status, got, "%s %.20s", method, asked)
					require.Equal(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, evil.id, want), string(answer), "%s %.20s", method, asked)
				}
			}
			if !modern {
				require.JSONEq(t, `{"tasks":[]}`, string(evil.ask("tasks/list", `{}`).Result))
			}
		}
		require.Equal(t, task.Working, owner.get(id).Status, "it was not canceled")
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"} { // a client that has declared no tasks
			status, answer := h.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q}}`, method, id))
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, `{"jsonrpc":"2.0","id":1,`+notThere(method)+`}`, answer)
		}
		require.Nil(t, owner.ask("tasks/cancel", about(id)).Error)
	},
}

// hostileHTTPReasons say why a misbehaviour cannot happen over HTTP.
var hostileHTTPReasons = map[string]string{
	"end/idle":              "a connection without a request means nothing",
	"end/in-a-frame":        "it is frame/cut",
	"end/before-initialize": "a connection without a request means nothing",
}

func (h hostileHost) inFlight() int {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if p := h.server.principals["a"]; p != nil {
		return p.inFlight
	}
	return 0
}

// hanging counts the calls of the tool hang.
func hanging(c *facade.Client) (n int) {
	for _, call := range c.CallsInFlight() {
		if call.Target == "hang" {
			n++
		}
	}
	return n
}

func TestHostileHTTP_every_misbehaviour_has_a_row(t *testing.T) {
	gatewaytest.RequireRows(t, hostileHTTPRows, hostileHTTPReasons)
}

// What one host does over HTTP costs a bounded amount of memory, has a clear error, and does not delay the others. Nothing
// panics, and nothing is left at the end.
func TestHostileHTTP(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostileHTTPRows)) {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, fixture("fixture", mcptest.Script{}))
			before, heap := runtime.NumGoroutine(), heapBytes()
			var printed testutil.LockedBuffer
			t.Run("row", func(t *testing.T) {
				timeout := patience
				if slices.Contains(hastyRows, name) {
					timeout = hastyTimeout
				}
				h := startHostileHost(t, c, timeout, &printed)
				hostileHTTPRows[name](t, h)
				require.Less(t, heapBytes()-heap, hostileHeap)
				h.requireOthersServed(t, func() bool { return true })
				status, _ := h.as(t, "a").post(initializeRequest("2025-11-25"))
				require.Equal(t, http.StatusOK, status, "it may begin again")
			})
			require.NotContains(t, printed.String(), "panic")
			until(t, func() bool { return len(c.CallsInFlight()) == 0 && runtime.NumGoroutine() <= before+idleGoroutines })
			require.Less(t, heapBytes()-heap, 16<<20, "what stays")
		})
	}
}

// startHostileHost starts a gateway, a host that makes calls until the end of the test, and the one that misbehaves.
func startHostileHost(t *testing.T, c *facade.Client, timeout time.Duration, printed io.Writer) hostileHost {
	t.Helper()
	limits := HTTPLimits{ReadTimeout: timeout, WriteTimeout: timeout, MaxInFlight: 64, MaxSessions: 32}
	s := Handler(c, WithHTTPLimits(limits), WithTokenVerifier(hostileVerifier, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: s, ReadHeaderTimeout: timeout, MaxHeaderBytes: 64 << 10, ErrorLog: log.New(printed, "", 0)}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10) // so that little fits before a peer that does not read is noticed
		return ctx
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		_ = server.Close()
		until(t, func() bool {
			st := s.Status()
			return st.InFlight == 0 && st.Sessions == 0 && st.Streams == 0
		})
	})
	h := hostileHost{peer: newPeer(t, "http://"+l.Addr().String()), client: c, server: s, address: l.Addr().String()}
	h.header.Set("Authorization", "Bearer a")
	h.initialize("2025-11-25")
	other := h.as(t, hostileToken)
	other.initialize("2025-11-25")
	var served atomic.Int64
	h.served = served.Load
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			default:
			}
			status, answer, err := other.exchange(toolCallOf(n, "fixture__echo", `{"text":"x"}`))
			if err != nil || status != http.StatusOK || !strings.Contains(answer, `"text":"x"`) {
				t.Errorf("the other host is not served: %v %d %s", err, status, answer)
				return
			}
			served.Add(1)
		}
	}()
	t.Cleanup(func() { // before the server is closed
		close(ended)
		<-stopped
	})
	return h
}

// exchange is post for other goroutines than that of the test.
func (p *peer) exchange(body string) (status int, answer string, err error) {
	return p.exchangeIn(context.Background(), body)
}

func (p *peer) exchangeIn(ctx context.Context, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header = p.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(sessionHeader, p.session)
	response, err := p.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// statusUnder is the status of a request under the name of a host, which need not be a name.
func (p *peer) statusUnder(host string) (int, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(pingRequest), pingRequest); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	var status int
	_, err = fmt.Fscanf(bytes.NewReader(answer), "HTTP/1.1 %d", &status)
	return status, err
}
