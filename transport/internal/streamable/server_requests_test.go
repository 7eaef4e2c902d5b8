package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
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

// A server whose handshake never ends asks the user nothing, however often it is started.
func TestServerRequests_duringTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		var sent, asked atomic.Int64
		for _, method := range []string{"server/discover", "initialize"} {
			web.handle(method, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				startEvents(w)("data: " + fmt.Sprintf(transporttest.ElicitRequest, 1) + "\n\n")
				sent.Add(1)
				<-r.Context().Done()
			})
		}
		s := NewDialer(web.spec().WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Handlers: transport.Handlers{
			ElicitForm: transporttest.AcceptAfter(func(context.Context) { asked.Add(1) })}}).NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.Error(t, s.Open(transporttest.Context(t)))
		require.NotZero(t, sent.Load())
		require.Zero(t, asked.Load())
	})
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

// roundsServer is a session with a modern server that answers each round of a request with
// a given result.
type roundsServer struct {
	session transport.Session
	seen    func() []map[string]json.RawMessage // the parameters of each round
	ids     func() []string                     // the id of each round
}

// withRounds runs a test over HTTP; package stdio has rounds over pipes. round returns the result of
// round n, counted from 1.
func withRounds(t *testing.T, h transport.Handlers, round func(n int) string, test func(t *testing.T, r roundsServer)) {
	t.Helper()
	web := newHTTPServer(t)
	n := 0
	web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	})
	answer := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		n++
		writeResult(w, id, round(n))
	}
	web.handle("tools/call", answer)
	web.handle("tools/list", answer)
	spec := specFor(web.URL)
	spec.HTTP.Headers = map[string]string{"X-Key": transporttest.Secret}
	d := NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: h, Logger: zerolog.Nop()})
	s := transporttest.OpenSession(t, d)
	var ids []string
	seen := func() (all []map[string]json.RawMessage) {
		ids = nil
		for _, r := range web.requests("tools/call") {
			var m transporttest.ClientMessage
			require.NoError(t, json.Unmarshal([]byte(r.body), &m))
			require.Equal(t, "echo", r.header.Get("Mcp-Name"))
			all, ids = append(all, m.Params), append(ids, string(m.ID))
		}
		return all
	}
	test(t, roundsServer{s, seen, func() []string { seen(); return ids }})
}

// A request is repeated with the input that the server requires, each time with another
// id, until the result is complete.
func TestInputRounds(t *testing.T) {
	// Only the server reads requestState, so it is sent back byte for byte.
	const state = `"\u0061\/é\u00e9 <&> \\u003c \ud83d\ude00"`
	rounds := []string{
		transporttest.SingleLine(transporttest.FormRequired),
		`{"requestState":` + state + `,"_meta":{"a":[1]},"inputRequests":{
			"m<1>":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":7}},
			"r":{"method":"roots/list"}},"resultType":"input_required"}`,
		`{"resultType":"input_required","inputRequests":{"last":{"method":"elicitation/create","params":{"message":"?"}}}}`,
		transporttest.DoneResult,
	}
	h := transport.Handlers{ElicitForm: transporttest.AcceptAtOnce, Sample: transporttest.AnySample, Roots: transport.NewRoots([]*mcp.Root{{URI: "file:///a"}})}
	withRounds(t, h, func(n int) string { return transporttest.SingleLine(rounds[n-1]) }, func(t *testing.T, r roundsServer) {
		call := transport.Request{Method: "tools/call", Target: "echo", Params: json.RawMessage(` {"name":"echo","arguments":{"a":"}"}} `), Track: true}
		result, err := r.session.Request(transporttest.Context(t), call)
		require.NoError(t, err)
		require.Equal(t, transporttest.DoneResult, string(result))
		seen := r.seen()
		require.Len(t, seen, 4)
		different := map[string]bool{}
		for _, id := range r.ids() {
			different[id] = true
		}
		require.Len(t, different, 4)
		for _, params := range seen {
			require.Equal(t, `"echo"`, string(params["name"]))
			require.Equal(t, `{"a":"}"}`, string(params["arguments"]))
			require.Contains(t, string(params["_meta"]), jsonrpc.ModernVersion)
		}
		require.Empty(t, seen[0]["inputResponses"])
		require.Empty(t, seen[0]["requestState"])
		require.JSONEq(t, `{"form":{"action":"accept","content":{"level":3}}}`, string(seen[1]["inputResponses"]))
		require.Equal(t, `"s"`, string(seen[1]["requestState"]))
		require.JSONEq(t, `{"m<1>":{"role":"assistant","model":"","content":{"type":"text","text":"hi"}},"r":{"roots":[{"uri":"file:///a"}]}}`,
			string(seen[2]["inputResponses"]))
		require.Equal(t, state, string(seen[2]["requestState"]))
		require.JSONEq(t, `{"last":{"action":"accept"}}`, string(seen[3]["inputResponses"]))
		require.NotContains(t, seen[3], "requestState")
	})
}

// If the client cannot provide the input, the request fails with ErrInputRequired and is
// not sent again.
func TestInputRounds_fail(t *testing.T) {
	fails := transport.Handlers{ElicitForm: func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return nil, transporttest.ErrByHost
	}}
	panics := transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(context.Context) { panic(transporttest.ErrByHost) })}
	wants := func(requests string) string {
		return `{"resultType":"input_required","inputRequests":` + requests + `}`
	}
	many := `{"a0":{"method":"roots/list"}`
	for range jsonrpc.MaxInputRequests {
		many += `,"a":{"method":"roots/list"}`
	}
	for name, tc := range map[string]struct {
		handlers transport.Handlers
		result   string
		sent     int
		want     string
		hint     bool
	}{
		"no handler":             {transport.Handlers{}, transporttest.FormRequired, 1, `"form" requests elicitation/create`, true},
		"unknown method":         {fails, wants(`{"x":{"method":"tools/list"}}`), 1, `"x" requests "tools/list", which clients do not have`, true},
		"the host fails":         {fails, transporttest.FormRequired, 1, "said by the host", false},
		"the host panics":        {panics, transporttest.FormRequired, 1, "the handler panicked: said by the host", false},
		"a secret as key":        {fails, wants(`{"Bearer hunter22":{"method":"elicitation/create","params":{"requestedSchema":{"properties":{"hunter22":{"type":"null"}}}}}}`), 1, "unsupported type", false},
		"a secret as method":     {fails, wants(`{"x":{"method":"hunter22"}}`), 1, "clients do not have", true},
		"bad parameters":         {fails, wants(`{"x":{"method":"elicitation/create","params":7}}`), 1, "cannot be read", false},
		"no parameters":          {fails, wants(`{"x":{"method":"elicitation/create"}}`), 1, "are missing", false},
		"requests not an object": {fails, wants(`[1]`), 1, "", true},
		"no requests":            {fails, wants(`null`), 1, "does not say which", true},
		"too many":               {fails, wants(many + "}"), 1, "more than 32", true},
		"endless rounds":         {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, transporttest.FormRequired, jsonrpc.MaxRounds, "sent 8 times", true},
	} {
		t.Run(name, func(t *testing.T) {
			withRounds(t, tc.handlers, func(int) string { return transporttest.SingleLine(tc.result) }, func(t *testing.T, r roundsServer) {
				_, err := r.session.Request(transporttest.Context(t), transporttest.ToolCall)
				e := testutil.AsError[*mcpvisor.Error](t, err)
				require.ErrorIs(t, e, mcpvisor.ErrInputRequired)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.ErrorContains(t, e, tc.want)
				require.NotContains(t, e.Error(), transporttest.Secret)
				require.Equal(t, tc.hint, e.Hint != "", e.Hint)
				require.Equal(t, tc.want == transporttest.ErrByHost.Error(), errors.Is(e, transporttest.ErrByHost))
				require.Nil(t, r.session.Cause())
				require.Len(t, r.seen(), tc.sent)
			})
		})
	}
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
