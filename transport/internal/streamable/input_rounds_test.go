package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// roundsServer is a session with a modern server that answers each round of a request with
// a given result.
type roundsServer struct {
	session transport.Session
	seen    func() []map[string]json.RawMessage // the parameters of each round
	ids     func() []string                     // the id of each round
}

// onBothTransports runs a test over pipes and over HTTP. round returns the result of round
// n, counted from 1.
func onBothTransports(t *testing.T, h transport.Handlers, round func(n int) string, test func(t *testing.T, r roundsServer)) {
	t.Helper()
	t.Run("stream", func(t *testing.T) {
		p := newPipePartner(t, true)
		s := p.Open(h)
		var all []map[string]json.RawMessage
		var ids []string
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for n := 1; ; n++ {
				select {
				case m := <-p.Received:
					all, ids = append(all, m.Params), append(ids, string(m.ID))
					p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, round(n))
				case <-s.Dead():
					return
				}
			}
		}()
		end := func() { transporttest.EndSession(t, s); <-finished }
		test(t, roundsServer{s, func() []map[string]json.RawMessage { end(); return all }, func() []string { end(); return ids }})
		end()
	})
	t.Run("http", func(t *testing.T) {
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
		s := d.NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(t.Context()))
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
	})
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
	onBothTransports(t, h, func(n int) string { return transporttest.SingleLine(rounds[n-1]) }, func(t *testing.T, r roundsServer) {
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
			onBothTransports(t, tc.handlers, func(int) string { return transporttest.SingleLine(tc.result) }, func(t *testing.T, r roundsServer) {
				_, err := r.session.Request(transporttest.Context(t), transporttest.ToolCall)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
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
