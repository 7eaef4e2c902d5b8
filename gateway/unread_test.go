package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
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

// blockingWriter is a client that reads nothing of its answer until read is closed.
type blockingWriter struct {
	*httptest.ResponseRecorder
	reached chan struct{} // gets a value when the answer is written
	read    chan struct{}
	bytes   *atomic.Int64 // that were read
}

func (w blockingWriter) Write(b []byte) (int, error) {
	select {
	case w.reached <- struct{}{}:
	default:
	}
	<-w.read
	defer w.bytes.Add(int64(len(b)))
	return w.ResponseRecorder.Write(b)
}

func (w blockingWriter) SetWriteDeadline(time.Time) error { return nil }

// TestHandler_unread_bytes_of_a_principal: the large answers that are being written to slow readers count towards their
// principal. Small ones, and those of others, are answered meanwhile, and large ones again when the first was read.
func TestHandler_unread_bytes_of_a_principal(t *testing.T) {
	next := make(chan struct{})
	inTurn := serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		if m.Method != "tools/call" {
			return "", nil
		}
		<-next
		return `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 700_000) + `"}]}`, nil
	})
	s, _ := serveHTTP(t, newClient(t, legacyFixture("a"), mcpvisor.ServerSpec{Name: "b", Era: mcpvisor.EraLegacy, InMemory: inTurn}), WithHTTPLimits(HTTPLimits{MaxBytes: 1 << 20}),
		WithTokens(Token{Principal: "ann", SHA256: HashToken("ann")}, Token{Principal: "bob", SHA256: HashToken("bob")}))
	ann, accept := s.enter("ann"), "application/json, text/event-stream"
	defer s.leave(ann)
	send := func(w http.ResponseWriter, token, body string) {
		start := httptest.NewRecorder()
		request := func(body, session string) *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {accept}, sessionHeader: {session}}
			return r
		}
		s.ServeHTTP(start, request(initializeRequest("2025-03-26"), ""))
		s.ServeHTTP(w, request(body, start.Header().Get(sessionHeader)))
	}
	big := func(size int) string { return toolCallOf(1, "a__big", fmt.Sprintf(`{"bytes":%d}`, size)) }
	answer := func(token string, size int) string {
		w := httptest.NewRecorder()
		send(w, token, big(size))
		return w.Body.String()
	}
	start := func(body string) (w blockingWriter, ended chan struct{}) {
		w, ended = blockingWriter{httptest.NewRecorder(), make(chan struct{}, 1), make(chan struct{}), new(atomic.Int64)}, make(chan struct{})
		go func() {
			defer close(ended)
			send(w, "ann", body)
		}()
		return w, ended
	}
	const refused = "the request was carried out"
	slow, ended := start(big(2 << 20)) // one may exceed MaxBytes
	receive(t, slow.reached)
	require.Contains(t, answer("ann", 100_000), refused)
	require.NotContains(t, answer("ann", 1000), refused)
	require.NotContains(t, answer("bob", 100_000), refused)
	close(slow.read)
	<-ended
	require.Greater(t, slow.Body.Len(), 2<<20)
	require.NotContains(t, answer("ann", 100_000), refused)
	// Of a batch, too, what was read does not count.
	batch, ended := start("[" + toolCallOf(1, "b__x", "{}") + "," + toolCallOf(2, "b__x", "{}") + "]")
	close(batch.read)
	for n := range int64(2) {
		next <- struct{}{}
		until(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return batch.bytes.Load() > (n+1)*700_000 && ann.unread == 0
		})
	}
	<-ended
	require.NotContains(t, batch.Body.String(), refused)

	accept = "application/json"
	whole := httptest.NewRecorder()
	send(whole, "ann", "["+big(100_000)+","+strings.Replace(big(100_000), `"id":1`, `"id":2`, 1)+"]")
	require.Greater(t, whole.Body.Len(), 200_000)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(t, ann.unread)
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
