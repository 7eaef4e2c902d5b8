package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// TestHandler_unread_answers: a client that sends requests one after the other and reads nothing loses
// its connection, also if all of its answers are short.
func TestHandler_unread_answers(t *testing.T) {
	_, url := serveHTTPWith(t, func(server *http.Server) {
		// What is sent hangs before the peer's own requests do: its system drops what comes for a full buffer,
		// with the acknowledgements of its requests, and repeats those ever more slowly.
		server.ConnState = func(conn net.Conn, state http.ConnState) {
			if state == http.StateNew {
				_ = conn.(*net.TCPConn).SetWriteBuffer(4096)
			}
		}
	}, newClient(t, fixture("a", mcptest.Script{})), WithHTTPLimits(HTTPLimits{WriteTimeout: 500 * time.Millisecond}))
	for name, method := range map[string]string{"answers": "ping", "refusals": "PUT"} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, url)
			p.initialize("2025-11-25")
			address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
			verb, body := "POST", `{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 1500)+`","method":"ping"}`
			if method == "PUT" {
				verb, body = "PUT", ""
			}
			request := fmt.Sprintf("%s /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%s: %s\r\n%s: 2025-11-25\r\nContent-Length: %d\r\n\r\n%s",
				verb, path, address, sessionHeader, p.session, versionHeader, len(body), body)
			// The server closes the connection when its write has hung for as long as it may. Until then
			// it reads no further request, so that what is written here fails in the end.
			all := strings.Repeat(request, 50)
			deadline := time.Now().Add(time.Minute)
			for err == nil {
				require.NoError(t, conn.SetWriteDeadline(deadline))
				_, err = io.WriteString(conn, all)
			}
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			var timeout net.Error
			if ok := isTimeout(err, &timeout); ok {
				buffer := make([]byte, 1<<20)
				t.Fatalf("the connection is kept:\n%s", buffer[:runtime.Stack(buffer, true)])
			}
		})
	}
}

func isTimeout(err error, of *net.Error) bool {
	e, ok := err.(net.Error)
	*of = e
	return ok && e.Timeout()
}

// TestHandler_long_batch: the answers of a batch without a stream are held together, and are bounded
// together; each request has one.
func TestHandler_long_batch(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, legacyFixture("a")), WithLimits(Limits{MaxUnreadBytes: 1 << 20}))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	calls := make([]string, 20)
	for i := range calls {
		calls[i] = toolCallOf(i, "a__big", `{"bytes":200000}`)
	}
	p.header.Set("Accept", "application/json")
	response := p.do(t.Context(), http.MethodPost, "["+strings.Join(calls, ",")+"]")
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, len(text), 2<<20)
	var answers []struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(text, &answers))
	require.Len(t, answers, len(calls))
	whole := 0
	for _, a := range answers {
		if a.Error == nil {
			whole++
			continue
		}
		require.Contains(t, a.Error.Message, "one by one")
	}
	require.Equal(t, 5, whole)
}

// Answers of a batch that come faster than they are passed on are not lost: those that do not fit are short.
func TestConnection_answers_of_a_batch_that_do_not_fit(t *testing.T) {
	g := newGateway(newClient(t), newOptions([]Option{WithLimits(Limits{MaxUnreadBytes: 1 << 10})}))
	c := newConnection(t.Context(), g)
	defer c.end()
	out := newOutbox(&c.opts.limits, nil)
	out.overflow = func() { t.Error("the requests of the batch are canceled") }
	for i := range 3 {
		id, err := jsonrpc.MakeID(float64(i))
		require.NoError(t, err)
		r := newRequest(c.ctx, &jsonrpc.Request{ID: id, Method: "tools/call"}, out)
		c.respond(r, &jsonrpc.Response{ID: id, Result: json.RawMessage(`"` + strings.Repeat("x", 1<<10) + `"`)})
	}
	for i := range 3 {
		m, ended := out.next()
		require.NotNil(t, ended)
		require.Equal(t, i > 0, m.(*jsonrpc.Response).Error != nil)
	}
}

// TestServe_slow_peer_that_is_logged: a peer that reads is not dropped, whatever is around its transport.
func TestServe_slow_peer_that_is_logged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ended := make(chan error, 1)
		transport := Transport(newClient(t, legacyFixture("a")))
		go func() {
			ended <- Serve(t.Context(), transport, &mcp.LoggingTransport{Transport: &mcp.IOTransport{Reader: near, Writer: near}, Writer: io.Discard})
		}()
		_, err := io.WriteString(far, toolCallOf(0, "a/big", `{"bytes":20000000}`)+"\n")
		require.NoError(t, err)
		synctest.Wait()
		for i := range 20 {
			_, err := io.WriteString(far, toolCallOf(i+1, "a/big", `{"bytes":100000}`)+"\n")
			require.NoError(t, err)
		}
		lines := bufio.NewReaderSize(slowly{far}, message.PieceBytes)
		for range 21 {
			line, err := lines.ReadBytes('\n')
			require.NoError(t, err)
			require.True(t, json.Valid(line))
		}
		require.NoError(t, far.Close())
		<-ended
	})
}

// TestQuestions_no_room_to_move: a question that finds no room on the stream of the next call ends.
func TestQuestions_no_room_to_move(t *testing.T) {
	limits := Limits{MaxUnreadBytes: 1000}.withDefaults()
	q := &questions{isOnlyPeer: func(string) bool { return false }, open: map[int64]*question{}}
	call := func() *request {
		out := newOutbox(&limits, nil)
		out.asks = true
		return &request{Request: &jsonrpc.Request{}, ctx: t.Context(), out: out}
	}
	full, ending := call(), call()
	q.begin(full, "a")
	q.begin(ending, "a")
	full.out.addAnswer(full, &jsonrpc.Response{Result: json.RawMessage(strings.Repeat(" ", 700))})
	id, err := jsonrpc.MakeID(float64(1))
	require.NoError(t, err)
	one := &question{Request: &jsonrpc.Request{ID: id, Method: "elicitation/create"}, server: "a", answer: make(chan *jsonrpc.Response, 1), carrier: ending}
	require.True(t, ending.out.addQuestion(ending, one))
	q.open[1] = one
	q.end(ending)
	_, open := <-one.answer
	require.False(t, open)
	require.Empty(t, q.open)
}
