package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
)

// A client of 2026-07-28 may cancel a request in the moment in which a server asks: the answer with the question waits to
// be read. The call ends at the server then, and is not held for a client that has given it up.
func TestHeld_canceled_before_the_question_is_read(t *testing.T) {
	told := make(chan time.Time, 1)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told), Era: mcpvisor.EraLegacy})
	transport := Transport(c, WithNames(Names{}))
	s := openRaw(t, transport)
	s.send(1, "tools/call", strings.Replace(modernCall(""), "a__consult", "a__x", 1))
	out := s.conn.(*connection).out
	until(t, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.queue) == 1
	})
	s.notify("notifications/cancelled", `{"requestId":1}`)
	receive(t, told)
	requireNothingHeld(t, transport.(*gateway))
}

// The same for a client whose connection breaks before the answer is written.
func TestHeld_client_is_gone_before_the_question_is_written(t *testing.T) {
	told := make(chan time.Time, 1)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told), Era: mcpvisor.EraLegacy})
	handler := Handler(c)
	t.Cleanup(handler.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+strings.Replace(modernCall(""), "a__consult", "a__x", 1)+`}`))
	require.NoError(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", versionHeader: "2026-07-28", methodHeader: "tools/call", nameHeader: "a__x"} {
		r.Header.Set(name, value)
	}
	w := brokenWriter{http.Header{}}
	x := &exchange{server: handler, gateway: handler.gateway, principal: handler.enter(""), w: w, r: r, wire: httpwire.New(w, handler.limits.wire())}
	x.post()
	receive(t, told)
	requireNothingHeld(t, handler.gateway)
}

// brokenWriter is the writer of a connection that has broken.
type brokenWriter struct{ header http.Header }

func (w brokenWriter) Header() http.Header     { return w.header }
func (brokenWriter) Write([]byte) (int, error) { return 0, context.Canceled }
func (brokenWriter) WriteHeader(int)           {}

// A client before 2026-07-28 that cancels its call over HTTP is told that the question because of it has ended.
func TestQuestions_end_with_a_canceled_call(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	_, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	stream := p.callStream(t.Context(), consultCall(7))
	_, asked, ok := stream.next()
	require.True(t, ok)
	require.Equal(t, `"elicitation/create"`, memberOf(t, []byte(asked), "method"))
	status, _ := p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	require.Equal(t, http.StatusAccepted, status)
	_, ended, ok := stream.next()
	require.True(t, ok, "the stream has ended without a word")
	require.Equal(t, `"notifications/cancelled"`, memberOf(t, []byte(ended), "method"))
	require.Equal(t, memberOf(t, []byte(asked), "id"), memberOf(t, []byte(ended), "params", "requestId"))
}

// A request for which there is no room yet can be canceled: it is not served later.
func TestRequests_canceled_while_they_wait_for_room(t *testing.T) {
	client, read := callsForever(t)
	g := newGateway(client, newOptions([]Option{WithLimits(Limits{MaxRequestBytes: 1})}))
	s := openRaw(t, g)
	s.send(1, "tools/call", `{"name":"a/x"}`)
	require.Equal(t, "tools/call", receive(t, read))
	second, err := jsonrpc.MakeID(2.0)
	require.NoError(t, err)
	taken := make(chan error, 1)
	go func() {
		taken <- s.conn.Write(t.Context(), &jsonrpc.Request{ID: second, Method: "tools/call", Params: json.RawMessage(`{"name":"a/x"}`)})
	}()
	q := s.conn.(*connection).requests()
	until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.outside.Len() == 1
	})
	s.notify("notifications/cancelled", `{"requestId":2}`)
	require.NoError(t, receive(t, taken), "the session continues")
	s.notify("notifications/cancelled", `{"requestId":1}`)
	require.Equal(t, "notifications/cancelled", receive(t, read))
	require.NoError(t, s.callWith(3, "ping", `{}`).Error, "there is room")
	require.Empty(t, read, "it was not served")
}
