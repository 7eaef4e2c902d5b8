package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A request of the server on the response of one call pauses the timeout of that call only.
func TestServerRequests_pauseOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		var calls atomic.Int64
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			send := startEvents(w)
			if calls.Add(1) == 1 {
				send("data: " + fmt.Sprintf(transporttest.ElicitRequest, 1) + "\n\n")
			}
			<-r.Context().Done()
		})
		s := NewDialer(web.spec().WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Handlers: transport.Handlers{
			ElicitForm: transporttest.AcceptAfter(func(context.Context) { time.Sleep(3 * time.Minute) })}}).NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(transporttest.Context(t)))
		r := transporttest.ToolCall
		r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
		ended := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				began := time.Now()
				if _, err := s.Request(t.Context(), r); !errors.Is(err, mcpvisor.ErrTimeout) {
					t.Errorf("not a timeout: %v", err)
				}
				ended <- time.Since(began)
			}()
		}
		require.InDelta(t, time.Minute, <-ended, float64(time.Second))
		require.InDelta(t, 4*time.Minute, <-ended, float64(time.Second))
	})
}

// An answer contains the id of the server's request byte for byte.
func TestServerRequests_idsVerbatim(t *testing.T) {
	ids := []string{"0", "-1", "9007199254740993", "18446744073709551617", "123456789012345678901234567890", "1.50", "1e3", `"a\u0062\/"`, `""`}
	web := newHTTPServer(t)
	replies := make(chan struct{}, len(ids))
	web.handle("", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		replies <- struct{}{} // each is recorded before
	})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		send := startEvents(w)
		for _, id := range ids {
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}\n\n", id)
		}
		web.hang(r)
	})
	openSession(t, specFor(web.URL))
	var want, got []string
	for _, id := range ids {
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
		<-replies
	}
	for _, reply := range web.requests("") {
		got = append(got, reply.body)
	}
	require.ElementsMatch(t, want, got)
}

// A server that sends requests without end and accepts no answer occupies a bounded number
// of connections. Calls are not affected.
func TestServerRequests_flood(t *testing.T) {
	const flood = 3000
	web := newHTTPServer(t)
	var stalled, most atomic.Int64
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		send := startEvents(w)
		for n := range flood {
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n+1)
		}
		web.hang(r)
	})
	web.handle("", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { // answers
		n := stalled.Add(1)
		defer stalled.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	require.Eventually(t, func() bool { return s.Info().Discarded.Dropped+uint64(most.Load()) >= flood }, transporttest.Patience, transporttest.TimeStep)
	require.LessOrEqual(t, most.Load(), int64(maxServerRequests))
	requireServing(t, s)
	require.LessOrEqual(t, s.receiver.requests.Count(), maxServerRequests)
}

// An answer that the server does not accept ends at answerTimeout, and its request is no
// longer pending.
func TestServerRequests_answerTimeout(t *testing.T) {
	web := newHTTPServer(t)
	received := make(chan struct{})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
		web.hang(r)
	})
	web.handle("", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(received)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	transporttest.RequireClosed(t, received, "the ping is not answered")
	pending := func() int { return s.receiver.requests.Count() }
	require.Equal(t, 1, pending())
	s.exchanger.table.requests.Mu.Lock()
	bounded := 0
	for b := range s.exchanger.table.requests.Open.All() {
		if b.ID < 0 && !b.Deadline.IsZero() {
			bounded++
			b.Owner.(*exchange).end(context.DeadlineExceeded, jsonrpc.ErrOverdue) // as at its deadline
		}
	}
	s.exchanger.table.requests.Mu.Unlock()
	require.Equal(t, 1, bounded)
	require.Eventually(t, func() bool { return pending() == 0 }, transporttest.Patience, transporttest.TimeStep)
	requireServing(t, s)
}

// Every request of the server is answered, also one with an unknown method or a text as id.
func TestServerRequests_allAnswered(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		send := startEvents(w)
		for n, method := range []string{"ping", "completion/complete", "unknown/method", "roots/list", "sampling/createMessage"} {
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":%q,\"params\":{}}\n\n", 100+n, method)
		}
		send("data: {\"jsonrpc\":\"2.0\",\"id\":\"text\",\"method\":\"ping\"}\n\n")
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	want := map[string]bool{`"text"`: true}
	for n := range 5 {
		want[fmt.Sprint(100+n)] = true
	}
	require.Eventually(t, func() bool {
		got := map[string]bool{}
		for _, r := range web.requests("") {
			var m transporttest.ClientMessage
			require.NoError(t, json.Unmarshal([]byte(r.body), &m))
			got[string(m.ID)] = true
			if string(m.ID) == "101" {
				require.Contains(t, string(m.Error), "-32601")
			}
		}
		return len(got) == len(want)
	}, transporttest.Patience, transporttest.TimeStep)
	require.Eventually(t, func() bool {
		return s.receiver.requests.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
}

// A request of the server is cancelled when the call to which it belongs has failed.
func TestServerRequests_endWithTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			replyEvents("data: {\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n\n")(w, r, nil)
			<-r.Context().Done()
		})
		received, ended := make(chan struct{}), make(chan struct{})
		options := transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Handlers: transport.Handlers{
			ElicitForm: func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				close(received)
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			}}}
		s := NewDialer(web.spec().WithDefaults(), options).NewSession().(*session)
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(transporttest.Context(t)))
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := s.Request(ctx, transporttest.ToolCall); failed <- err }()
		<-received
		cancel()
		require.ErrorIs(t, <-failed, mcpvisor.ErrCanceled)
		transporttest.RequireClosed(t, ended, "the request of the server continues after its call")
		require.Nil(t, s.Cause())
	})
}

// A request that only servers can serve is answered with an error. It is not sent back to
// the server, as the go-sdk would do. After the answer its id can be used again.
func TestServerRequests_refusedMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		refused := make(chan string, 2)
		web.handle("", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			sent := web.requests("")
			refused <- sent[len(sent)-1].body
		})
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			send := startEvents(w)
			for range 2 {
				send("data: {\"jsonrpc\":\"2.0\",\"id\":\"c1\",\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\",\"value\":\"v\"}}}\n\n")
				body := <-refused
				if !strings.Contains(body, `"id":"c1"`) || !strings.Contains(body, `"error"`) {
					t.Errorf("not refused: %s", body)
				}
			}
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		})
		requireServing(t, openSession(t, web.spec()))
		require.Empty(t, web.requests("completion/complete"))
	})
}
