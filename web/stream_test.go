package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// sentEvent is one event of a stream.
type sentEvent struct{ name, id, data string }

func (e sentEvent) event(t *testing.T) (event api.Event) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(e.data), &event), e.data)
	return event
}

// reader reads an event stream.
type reader struct {
	t       *testing.T
	ctx     context.Context
	body    *bufio.Scanner
	leave   context.CancelFunc
	closing func() error
	lastID  string // of the last event that until has read
}

// open opens an event stream, and reads its first event. lastID is sent as Last-Event-ID unless it
// is empty.
func (s *site) open(query, lastID string) *reader {
	s.t.Helper()
	_, reading := s.openStream(query, lastID)
	hello := reading.next()
	require.Equal(s.t, "hello", hello.name)
	require.Contains(s.t, hello.data, api.Schema)
	return reading
}

func (s *site) openStream(query, lastID string) (*http.Response, *reader) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a test that fails ends
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events/stream"+query, nil)
	require.NoError(s.t, err)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := s.Client().Do(r)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, response.StatusCode)
	require.Equal(s.t, "text/event-stream", response.Header.Get("Content-Type"))
	scanner := bufio.NewScanner(response.Body)
	scanner.Buffer(nil, 1<<20)
	reading := &reader{t: s.t, ctx: ctx, body: scanner, leave: cancel, closing: response.Body.Close}
	s.t.Cleanup(reading.close)
	return response, reading
}

func (r *reader) close() {
	r.leave()
	_ = r.closing()
}

// next returns the next event; the zero value when the stream has ended.
func (r *reader) next() (e sentEvent) {
	for r.body.Scan() {
		field, value, _ := strings.Cut(r.body.Text(), ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.data != "" {
				return e
			}
		}
	}
	return sentEvent{}
}

// until reads events of the default name up to one of a kind, and returns their numbers.
func (r *reader) until(kind mcpvisor.EventKind) (seqs []uint64) {
	r.t.Helper()
	for {
		e := r.next()
		require.NotEmpty(r.t, e.data, "the stream has ended before %s", kind)
		if e.name != "" {
			continue
		}
		event := e.event(r.t)
		_, seq, _ := strings.Cut(e.id, "-")
		require.Equal(r.t, fmt.Sprint(event.Seq), seq)
		r.lastID = e.id
		require.Equal(r.t, event.String(), event.Text)
		seqs = append(seqs, event.Seq)
		if event.Kind == kind {
			return seqs
		}
	}
}

// A stream replays what is kept and continues with what happens, without gap and without
// repetition; after a reconnect it continues after Last-Event-ID.
func TestStream_replays_and_continues(t *testing.T) {
	c, s := serveOne(t, "s")
	first := s.open("", "")
	seqs := first.until(mcpvisor.EventReady)
	require.EqualValues(t, 1, seqs[0])
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.Error(t, err)
	seqs = append(seqs, first.until(mcpvisor.EventReady)...)
	last, lastID := seqs[len(seqs)-1], first.lastID
	require.NoError(t, c.Unregister(t.Context(), "s"))
	seqs = append(seqs, first.until(mcpvisor.EventUnregistered)...)
	for i, seq := range seqs {
		require.EqualValues(t, i+1, seq)
	}
	second := s.open("?after=0", lastID)
	require.Equal(t, seqs[last:], second.until(mcpvisor.EventUnregistered), "Last-Event-ID overrides the query")
	third := s.open("?kind=ready&kind=unregistered", "")
	require.Len(t, third.until(mcpvisor.EventUnregistered), 3)
	require.Equal(t, seqs[len(seqs)-1:], s.open("?last=1", "").until(mcpvisor.EventUnregistered))
	require.Equal(t, seqs, s.open("?after=99999", "").until(mcpvisor.EventUnregistered), "a number of an earlier process")

	events := decoded[api.Events](s, "/api/events?after=2&kind=ready", 200)
	require.Len(t, events.Events, 2)
	require.Zero(t, events.Missed)
}

// What the client no longer keeps is reported before the rest.
func TestStream_reports_what_is_lost(t *testing.T) {
	c, s := serveOne(t, "s")
	first := s.open("?last=1", "")
	id, lastID := fmt.Sprint(first.until(mcpvisor.EventReady)[0]), first.lastID
	first.close()
	for range retention.Events/2 + 10 {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "x", InMemory: mcptest.InMemory(mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true})}))
		require.NoError(t, c.Unregister(t.Context(), "x"))
	}
	second := s.open("", lastID)
	missed := second.next()
	require.Equal(t, "missed", missed.name)
	require.Empty(t, missed.id, "the place of the reader stays")
	var lost api.Missed
	require.NoError(t, json.Unmarshal([]byte(missed.data), &lost))
	require.NotZero(t, lost.Missed)
	next := second.next().event(t)
	require.Equal(t, lost.Missed, next.Seq-1-mustNumber(t, id), "the rest follows without a further gap")
	answer := decoded[api.Events](s, "/api/events?after="+id, 200)
	require.Equal(t, lost.Missed, answer.Missed)
	require.Len(t, answer.Events, retention.Events)
}

func mustNumber(t *testing.T, text string) (n uint64) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

// The numbers of an earlier process say nothing about this one, which may have more events.
func TestStream_continues_after_a_restart_of_the_program(t *testing.T) {
	earlier, later := newClient(t), newClient(t)
	register(t, earlier, "s")
	old := serve(t, earlier).open("", "")
	old.until(mcpvisor.EventReady)
	for i := range 5 {
		register(t, later, fmt.Sprint("s", i))
	}
	s := serve(t, later)
	require.EqualValues(t, 1, s.open("", old.lastID).next().event(t).Seq)
	for _, id := range []string{"3", "x-y", old.lastID + "x"} {
		response, body := s.do(http.MethodGet, "/api/events/stream", "", func(r *http.Request) { r.Header.Set("Last-Event-ID", id) })
		require.Equal(t, 400, response.StatusCode, "%s: %s", id, body)
	}
}

// Close ends the streams; what is not a stream is served as before.
func TestClose_ends_streams(t *testing.T) {
	c := newClient(t)
	s := serve(t, c)
	stream := s.open("", "")
	s.handler.Close()
	s.handler.Close()
	require.Empty(t, stream.next().data)
	require.NoError(t, stream.ctx.Err(), "the handler has ended it")
	status, _ := s.get("/api/status")
	require.Equal(t, 200, status)
}

// pacedWriter notes when it was written to.
type pacedWriter struct {
	mu     sync.Mutex
	header http.Header
	writes []time.Time // guarded by mu
	text   strings.Builder
}

func (w *pacedWriter) Header() http.Header { return w.header }
func (w *pacedWriter) WriteHeader(int)     {}
func (w *pacedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, time.Now())
	return w.text.Write(b)
}

// written is all that was written.
func (w *pacedWriter) written() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// pacedStream reads the events of a client whose server "s" is started again after a delay, with
// the clock of the test.
func pacedStream(t *testing.T, delay time.Duration) (c *facade.Client, w *pacedWriter, end func()) {
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(supervisor.Unlimited, delay, supervisor.WithMaxDelay(delay))}))
	h, err := web.New(c)
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	w = &pacedWriter{header: http.Header{}}
	var serving sync.WaitGroup
	r := httptest.NewRequest(http.MethodGet, "http://localhost/api/events/stream", nil).WithContext(context.WithValue(ctx, http.LocalAddrContextKey, &net.UnixAddr{}))
	serving.Go(func() { h.ServeHTTP(w, r) })
	synctest.Wait()
	return c, w, func() {
		leave()
		serving.Wait()
		require.NoError(t, c.Close(t.Context()))
	}
}

// A server that crashes again and again, each time after half a second, is shown when it does:
// no event waits for those before it.
func TestStream_of_a_crash_loop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, end := pacedStream(t, 400*time.Millisecond)
		defer end()
		for range 30 {
			before := w.written()
			_, err := c.CallTool(t.Context(), "s/crash", nil)
			require.Error(t, err)
			crashed := time.Now()
			synctest.Wait()
			require.Equal(t, crashed, time.Now())
			require.Contains(t, w.written()[len(before):], `"kind":"down"`)
			require.NoError(t, c.WaitReady(t.Context(), "s"))
		}
	})
}

// Many events make few writes: sixteen at once, and then one each 100 ms.
func TestStream_coalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, end := pacedStream(t, 10*time.Millisecond)
		defer end()
		time.Sleep(time.Second)
		w.mu.Lock()
		before := len(w.writes)
		w.mu.Unlock()
		require.LessOrEqual(t, before, 5, "hello, and what was kept")
		began := time.Now()
		for range 100 { // each crash is four events
			_, err := c.CallTool(t.Context(), "s/crash", nil)
			require.Error(t, err)
			require.NoError(t, c.WaitReady(t.Context(), "s"))
		}
		took := time.Since(began)
		time.Sleep(time.Second)
		w.mu.Lock()
		writes := w.writes[before:]
		w.mu.Unlock()
		for i := range 12 {
			require.Less(t, writes[i].Sub(began), 100*time.Millisecond, "the first events are written at once")
		}
		for i := 20; i < len(writes); i++ {
			require.GreaterOrEqual(t, writes[i].Sub(writes[i-1]), 100*time.Millisecond)
		}
		require.LessOrEqual(t, len(writes), int(took/(100*time.Millisecond))+18)
		require.GreaterOrEqual(t, took, time.Second)
		require.Equal(t, 400, strings.Count(w.written(), "\nid: ")-3)
	})
}

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

// The number of streams is bounded, and each that ends makes room.
func TestStreams_are_bounded(t *testing.T) {
	s := serve(t, newClient(t))
	var open []*reader
	for range 64 {
		open = append(open, s.open("", ""))
	}
	status, body := s.get("/api/events/stream")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "close a page")
	for _, r := range open[:8] {
		r.close()
	}
	require.Eventually(t, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/events/stream", nil)
		require.NoError(t, err)
		response, err := s.Client().Do(r)
		require.NoError(t, err)
		response.Body.Close()
		return response.StatusCode == 200
	}, 30*time.Second, 10*time.Millisecond)
}
