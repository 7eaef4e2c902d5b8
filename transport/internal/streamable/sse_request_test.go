package streamable

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// Two answers in one batch go to two callers. A caller that appends to its result does not
// change the other one.
func TestSSE_batchResultsSeparate(t *testing.T) {
	c := &sseConn{exchanger: new(exchanger), waiting: make(map[int64]*sseRequest)}
	first, second := c.addRequest(1, nil), c.addRequest(2, nil)
	long := `"` + strings.Repeat("b", 100) + `"`
	c.receiveEvent(httpbody.Event{Data: []byte(`[{"id":1,"result":"a"},{"id":2,"result":` + long + `}]`)})
	a, b := <-first.answer, <-second.answer
	_ = append(a.reply.result, strings.Repeat("x", 50)...)
	require.Equal(t, long, string(b.reply.result))
}

// An error without an id does not fail a call if the error may be about another message of
// the client. A call that times out quotes the error.
func TestSSE_errorWithoutID(t *testing.T) {
	for name, row := range map[string]struct {
		code   string
		notify bool // a notification is sent after the call
	}{
		"unknown method":                   {"-32601", false},
		"unknown method, notification":     {"-32601", true},
		"invalid request of notification":  {"-32600", true},
		"invalid params of a notification": {"-32602", true},
	} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			s := openSession(t, sseSpec(web))
			called := make(chan json.RawMessage, 1)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				called <- id
			})
			complain := func() {
				web.send(`{"jsonrpc":"2.0","id":null,"error":{"code":%s,"message":"no such thing, %s"}}`, row.code, sseSecret)
			}
			web.handle("notifications/test", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				complain()
			})
			provoke := func() {
				if row.notify {
					s.exchanger.notify([]byte(`{"jsonrpc":"2.0","method":"notifications/test"}`))
				} else {
					complain()
				}
			}
			done := make(chan error, 1)
			provokeAndWait := func(unmatched uint64) {
				provoke()
				require.Eventually(t, func() bool { return s.receiver.discarded.Unmatched.Load() == unmatched || len(done) == 1 }, transporttest.Patience, time.Millisecond)
			}
			call := func() json.RawMessage {
				r := transporttest.ToolCall
				r.Timeout = transporttest.Patience
				go func() {
					_, err := s.Request(t.Context(), r)
					done <- err
				}()
				return <-called
			}
			id := call()
			provokeAndWait(1)
			web.answer("tools/call", id)
			require.NoError(t, <-done)
			call()
			provokeAndWait(2)
			s.exchanger.table.expireCalls()
			err := <-done
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			require.ErrorContains(t, err, "an error that names no request: no such thing, ***")
		})
	}
}

// expireCalls ends the requests on the call channel as their deadline does.
func (t *exchangeTable) expireCalls() {
	t.requests.Mu.Lock()
	var calls []*jsonrpc.Entry
	for b := range t.requests.Open.All() {
		if b.ID > 0 {
			calls = append(calls, b)
		}
	}
	t.requests.Mu.Unlock()
	for _, b := range calls {
		b.Owner.(*exchange).end(context.DeadlineExceeded, jsonrpc.ErrOverdue)
	}
}

// A POST may end after its request was answered on the stream, and answer it again. The
// exchange then ends, and the memory of that answer is released.
func TestSSE_POSTAnswersAfterStream(t *testing.T) {
	web := newSSEServer(t)
	returned := make(chan struct{})
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		web.answer("tools/call", id)
		<-returned
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+transporttest.Filler(2<<20)+`}`)
	})
	s := openSession(t, sseSpec(web))
	onlyStream := func() bool { return s.exchanger.table.size() == 1 && s.exchanger.table.buffer.Used() == 0 }
	require.Eventually(t, onlyStream, transporttest.Patience, transporttest.TimeStep, "the POSTs of the handshake end")
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	require.NoError(t, err)
	require.Equal(t, 2, s.exchanger.table.size(), "the POST continues")
	close(returned)
	require.Eventually(t, onlyStream, transporttest.Patience, transporttest.TimeStep)
	require.Zero(t, s.exchanger.draining.Load())
}
