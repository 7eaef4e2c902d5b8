package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A server that asks without end and takes no answer has a bounded number of
// connections busy with them; the calls are not concerned.
func TestServerRequests_flood(t *testing.T) {
	const flood = 3000
	web := newHTTPServer(t)
	var stalled, most atomic.Int64
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		say := startEvents(w)
		for n := range flood {
			say("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n+1)
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
	require.LessOrEqual(t, most.Load(), int64(sdkStreamSize))
	requireServing(t, s)
	require.LessOrEqual(t, s.serverRequests.Count(), sdkStreamSize)
}

// A stalled answer does not keep its place for ever.
func TestServerRequests_answerTimeout(t *testing.T) {
	web := newHTTPServer(t)
	asked := make(chan struct{})
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n")
		web.hang(r)
	})
	web.handle("", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		close(asked)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	transporttest.RequireClosed(t, asked, "the ping is not answered")
	owes := func() int {
		return s.serverRequests.Count()
	}
	require.Equal(t, 1, owes())
	s.exchanges.requests.Mu.Lock()
	bounded := 0
	for key, b := range s.exchanges.requests.Open {
		if key < 0 && !b.Deadline.IsZero() {
			bounded++
			b.Owner.(*exchange).end(context.DeadlineExceeded, jsonrpc.ErrOverdue) // as if its time were up
		}
	}
	s.exchanges.requests.Mu.Unlock()
	require.Equal(t, 1, bounded)
	require.Eventually(t, func() bool { return owes() == 0 }, transporttest.Patience, transporttest.TimeStep)
	requireServing(t, s)
}

// A server's request is answered, whatever it is; one whose id is in use is not.
func TestServerRequests_allAnswered(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		say := startEvents(w)
		for n, method := range []string{"ping", "completion/complete", "unknown/method", "roots/list", "sampling/createMessage"} {
			say("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":%q,\"params\":{}}\n\n", 100+n, method)
		}
		say("data: {\"jsonrpc\":\"2.0\",\"id\":\"text\",\"method\":\"ping\"}\n\n")
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
		return s.serverRequests.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
}

// A request of the server is cancelled when the call to which it belongs has failed.
func TestServerRequests_endWithTheirCall(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			replyEvents("data: {\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}\n\n")(w, r, nil)
			<-r.Context().Done()
		})
		asked, ended := make(chan struct{}), make(chan struct{})
		options := transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Handlers: transport.Handlers{
			ElicitForm: func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				close(asked)
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
		<-asked
		cancel()
		require.ErrorIs(t, <-failed, mcpvisor.ErrCanceled)
		transporttest.RequireClosed(t, ended, "the question outlived its call")
		require.Nil(t, s.Cause())
	})
}

// A request that only servers can serve is refused, and not put to the server in
// return, which the go-sdk would do. The refusal makes its id free.
func TestServerRequests_refusedMethod(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		refused := make(chan string, 2)
		web.handle("", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			sent := web.requests("")
			refused <- sent[len(sent)-1].body
		})
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			say := startEvents(w)
			for range 2 {
				say("data: {\"jsonrpc\":\"2.0\",\"id\":\"c1\",\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\",\"value\":\"v\"}}}\n\n")
				body := <-refused
				if !strings.Contains(body, `"id":"c1"`) || !strings.Contains(body, `"error"`) {
					t.Errorf("not refused: %s", body)
				}
			}
			say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		})
		requireServing(t, openInMemory(t, web.spec()))
		require.Empty(t, web.requests("completion/complete"))
	})
}
