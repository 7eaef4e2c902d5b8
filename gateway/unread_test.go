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
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
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
	inTurn := serveRaw(func(m *rawtest.Message) string {
		if m.Method != "tools/call" {
			return ""
		}
		<-next
		return `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 700_000) + `"}]}`
	}, nil)
	s, _ := serveHTTP(t, newClient(t, legacyFixture("a"), mcpvisor.ServerSpec{Name: "b", Era: mcpvisor.EraLegacy, InMemory: inTurn}), WithHTTPLimits(HTTPLimits{MaxBytes: 1 << 20}),
		withNames("ann", "bob"))
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
	s := newSession(t.Context(), g)
	defer s.end()
	x := &exchange{session: s, out: newOutbox(&g.opts.limits, nil, unbounded)}
	for i := range 3 {
		id, err := jsonrpc.MakeID(float64(i))
		require.NoError(t, err)
		r := newRequest(x, &jsonrpc.Request{ID: id, Method: "tools/call"}, nil)
		r.respond(&jsonrpc.Response{ID: id, Result: json.RawMessage(`"` + strings.Repeat("x", 1<<10) + `"`)})
	}
	for i := range 3 {
		m, ended := x.out.next()
		require.NotNil(t, ended)
		require.False(t, ended.canceled.Load())
		require.Equal(t, i > 0, m.(*jsonrpc.Response).Error != nil)
	}
}

// TestQuestions_no_room_to_move: a question that finds no room on the stream of the next call ends.
func TestQuestions_no_room_to_move(t *testing.T) {
	limits := Limits{MaxUnreadBytes: 1000}.withDefaults()
	q := &questions{session: newSession(t.Context(), newGateway(newClient(t), newOptions(nil))), open: map[int64]*question{}}
	call := func() *request {
		return &request{Request: &jsonrpc.Request{}, ctx: t.Context(), exchange: &exchange{asks: true, out: newOutbox(&limits, nil, unbounded)}}
	}
	full, ending := call(), call()
	q.begin(full, "a")
	q.begin(ending, "a")
	full.exchange.out.addAnswer(full, &jsonrpc.Response{Result: json.RawMessage(strings.Repeat(" ", 700))})
	id, err := jsonrpc.MakeID(float64(1))
	require.NoError(t, err)
	one := &question{Request: &jsonrpc.Request{ID: id, Method: "elicitation/create"}, server: "a", answer: make(chan *jsonrpc.Response, 1), carrier: ending}
	require.True(t, ending.exchange.out.addQuestion(ending, one))
	q.open[1] = one
	q.end(ending)
	_, open := <-one.answer
	require.False(t, open)
	require.Empty(t, q.open)
}

// unbounded is an answerRoom without a bound.
var unbounded *budget.Budget

func defaultLimits() *Limits {
	l := Limits{}.withDefaults()
	return &l
}

// servePipe serves a session on a pipe, which has no buffer.
func servePipe(t *testing.T, transport mcp.Transport) (far net.Conn, ended <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	result := make(chan error, 1)
	go func() { result <- Serve(t.Context(), transport, &mcp.IOTransport{Reader: near, Writer: near}) }()
	return far, result
}

// A client that reads nothing while more than 1 MiB waits behind the message that is being written is dropped. The
// others are served meanwhile, and their answers take no time.
func TestServe_deaf_client_is_dropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := Transport(newClient(t, legacyFixture("a")))
		other := openRaw(t, transport)
		far, ended := servePipe(t, transport)
		begin := time.Now()
		for i := range 12 { // the first answer is being written
			_, err := io.WriteString(far, toolCallOf(i, "a/big", `{"bytes":100000}`)+"\n")
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Empty(t, ended)
		require.NoError(t, other.callWith(1, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error)
		require.Zero(t, time.Since(begin))
		require.ErrorIs(t, <-ended, ErrPeerDoesNotRead)
		require.Less(t, time.Since(begin), DefaultStallTimeout+closeTimeout+time.Second)
		require.NoError(t, other.callWith(2, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error)
	})
}

// A client that has closed its side, and reads nothing, delays the end of its session by little, though a write to it
// does not end: the stdout of a process cannot be closed under a write.
func TestServe_deaf_client_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := Transport(newClient(t, legacyFixture("a")))
		in, host := io.Pipe()
		unread, out := io.Pipe()
		defer func() { _ = unread.Close() }()
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(t.Context(), transport, &mcp.IOTransport{Reader: in, Writer: openEnd{out}})
		}()
		_, err := io.WriteString(host, pingRequest+"\n")
		require.NoError(t, err)
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, host.Close())
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(begin), endTimeout+closeTimeout)
		require.Less(t, endTimeout+closeTimeout, 4*time.Second)
	})
}

// openEnd is a writer that stays open.
type openEnd struct{ io.Writer }

// Close implements io.Closer.
func (openEnd) Close() error { return nil }

// One that leaves less unread, or one large answer alone, costs little and may continue later.
func TestServe_client_that_pauses_continues(t *testing.T) {
	for name, calls := range map[string][]string{
		"less than 1 MiB waits": {`{"bytes":100000}`, `{"bytes":100000}`, `{"bytes":100000}`},
		"one large answer":      {`{"bytes":20000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far, ended := servePipe(t, Transport(newClient(t, legacyFixture("a"))))
				for i, arguments := range calls {
					_, err := io.WriteString(far, toolCallOf(i, "a/big", arguments)+"\n")
					require.NoError(t, err)
				}
				time.Sleep(time.Hour)
				lines := bufio.NewReader(far)
				for range calls {
					line, err := lines.ReadBytes('\n')
					require.NoError(t, err)
					require.True(t, json.Valid(line))
				}
				require.NoError(t, far.Close())
				require.NoError(t, <-ended)
			})
		})
	}
}

// A client that reads slowly is not deaf, whatever waits: here 4 MB, and behind it 2 MB. What is around its transport
// does not matter.
func TestServe_slow_client_is_served(t *testing.T) {
	for name, wrap := range map[string]func(mcp.Transport) mcp.Transport{"plain": asIs, "logged": func(peer mcp.Transport) mcp.Transport {
		return &mcp.LoggingTransport{Transport: peer, Writer: io.Discard}
	}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := serveLine(t, Transport(newClient(t, legacyFixture("a"))), wrap)
				l.send(toolCallOf(0, "a/big", `{"bytes":4000000}`))
				synctest.Wait()
				const others = 20
				for i := range others {
					l.send(toolCallOf(i+1, "a/big", `{"bytes":100000}`))
				}
				lines := bufio.NewReaderSize(slowly{l.stream}, message.PieceBytes)
				for range 1 + others {
					line, err := lines.ReadBytes('\n')
					require.NoError(t, err)
					require.True(t, json.Valid(line))
				}
				require.NoError(t, l.stream.Close())
				<-l.ended
			})
		})
	}
}

// slowly reads so that the peer nearly counts as deaf: a piece takes two reads.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(DefaultStallTimeout/2 - time.Second)
	return s.Reader.Read(b)
}

// A peer that stops in the middle is dropped, though it has read before.
func TestOutbox_stalls_after_it_was_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newOutbox(defaultLimits(), nil, unbounded)
		var stalled atomic.Bool
		out.stalled = func() { stalled.Store(true) }
		add := func(n int) {
			for i := range n {
				r := &request{Request: numbered("tools/call", "")(i)}
				require.True(t, out.addAnswer(r, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(strings.Repeat("x", 100_000))}))
			}
		}
		add(30)
		for range 15 {
			time.Sleep(DefaultStallTimeout - time.Second)
			m, _ := out.next()
			require.NotNil(t, m)
			require.False(t, stalled.Load())
		}
		time.Sleep(2 * DefaultStallTimeout)
		require.True(t, stalled.Load())

		stalled.Store(false)
		add(1) // it is watched again
		time.Sleep(DefaultStallTimeout + time.Second)
		require.True(t, stalled.Load())
		stalled.Store(false)
		add(1)
		out.close()
		time.Sleep(2 * DefaultStallTimeout)
		require.False(t, stalled.Load())
	})
}

// Answers and notifications take turns: a peer that reads slowly gets both.
func TestOutbox_alternates(t *testing.T) {
	out := newOutbox(defaultLimits(), notices.New[*subscription](), unbounded)
	out.notify.SetLogLevel(0)
	const each = 10
	for i := range each {
		r := &request{Request: numbered("ping", "")(i)}
		require.True(t, out.addAnswer(r, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}))
		out.notify.ReportLog(mcpvisor.LogMessage{Level: "info", Text: "x"})
	}
	for range each {
		answers := 0
		for range 2 {
			m, ended := out.next()
			require.NotNil(t, m)
			if ended != nil {
				answers++
			}
		}
		require.Equal(t, 1, answers, "one of two is an answer")
	}
	m, _ := out.next()
	require.Nil(t, m)
}

// The progress of a canceled request is not sent, though the request has not ended yet.
func TestOutbox_drops_progress_of_a_canceled_request(t *testing.T) {
	out := newOutbox(defaultLimits(), notices.New[*subscription](), unbounded)
	report := func(id int) *request {
		r := &request{Request: numbered("tools/call", "")(id)}
		r.token = fmt.Append(nil, id)
		out.addProgress(r, mcpvisor.Progress{Progress: 1})
		return r
	}
	report(1).canceled.Store(true)
	report(2)
	m, _ := out.next()
	require.JSONEq(t, `{"progressToken":2,"progress":1}`, string(m.(*jsonrpc.Request).Params))
	m, _ = out.next()
	require.Nil(t, m)
}

// A notification that is too long is not read: here a cancellation, which has no effect.
func TestNotification_that_is_too_long(t *testing.T) {
	c := openRaw(t, Transport(newClient(t))).conn.(*connection)
	call := newRequest(c.exchange, numbered("tools/call", "")(0), nil)
	c.session.requests.byID = map[jsonrpc.ID]*request{call.ID: call}
	cancellation := func(bytes int) *jsonrpc.Request {
		const text = `{"requestId":1,"reason":""}`
		return &jsonrpc.Request{Method: "notifications/cancelled",
			Params: json.RawMessage(strings.Replace(text, `""`, `"`+strings.Repeat("x", bytes-len(text))+`"`, 1))}
	}
	c.session.receiveNotification(cancellation(maxNotificationBytes+1), nil)
	require.False(t, call.canceled.Load())
	require.NoError(t, call.ctx.Err())
	c.session.receiveNotification(cancellation(maxNotificationBytes), nil)
	require.True(t, call.canceled.Load())
	require.Error(t, call.ctx.Err())
}

// An answer that comes after the end of the session keeps no memory, whatever its form.
func TestOutbox_closed(t *testing.T) {
	for what, add := range map[string]func(*outbox, *request, *jsonrpc.Response){
		"answer": func(o *outbox, r *request, a *jsonrpc.Response) { o.addAnswer(r, a) },
		"short":  (*outbox).addShort,
	} {
		out := newOutbox(defaultLimits(), nil, unbounded)
		out.close()
		add(out, &request{Request: &jsonrpc.Request{}}, &jsonrpc.Response{Result: json.RawMessage(`{}`)})
		require.Zero(t, out.held(), what)
	}
}
