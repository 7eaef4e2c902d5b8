package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}}`

// modernCall are params of a call of a client of 2026-07-28 that answers forms, with further members.
func modernCall(more string) string {
	return `{"name":"a__consult","arguments":{"method":"elicitation/create","params":` + wantsText + `},` + modernMeta + more + `}`
}

// roundOf are the members of the next round.
func roundOf(state, responses string) string {
	return `,"requestState":` + state + `,"inputResponses":` + responses
}

// caller makes a request of 2026-07-28.
type caller func(method, name, params string) (result, failure string)

func (r raw) modernCaller() caller {
	return func(method, _, params string) (result, failure string) {
		r.t.Helper()
		answer := r.call(method, params)
		if answer.Error != nil {
			encoded, err := json.Marshal(answer.Error)
			require.NoError(r.t, err)
			return "", string(encoded)
		}
		return string(answer.Result), ""
	}
}

func (p *peer) modernCaller() caller {
	return func(method, name, params string) (result, failure string) {
		p.t.Helper()
		status, text := p.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, versionHeader, "2026-07-28", methodHeader, method, nameHeader, name)
		require.Equal(p.t, http.StatusOK, status, text)
		return memberOf(p.t, []byte(text), "result"), memberOf(p.t, []byte(text), "error")
	}
}

// required reads a result that requires input: its state, and the keys of its questions.
func required(t *testing.T, result string) (state string, keys []string) {
	t.Helper()
	require.Equal(t, `"input_required"`, memberOf(t, []byte(result), "resultType"), result)
	var requests map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(memberOf(t, []byte(result), "inputRequests")), &requests))
	for key := range requests {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return memberOf(t, []byte(result), "requestState"), keys
}

// onTransportAndHTTP runs f with clients of 2026-07-28 of each kind: ann and, with a token, eve.
func onTransportAndHTTP(t *testing.T, f func(t *testing.T, c *facade.Client, g *gateway, ann caller), specs ...mcpvisor.ServerSpec) {
	t.Helper()
	t.Run("Transport", func(t *testing.T) {
		c := newAskingClient(t, nil, specs...)
		transport := Transport(c, WithNames(Names{}))
		f(t, c, transport.(*gateway), openRaw(t, transport).modernCaller())
	})
	t.Run("HTTP", func(t *testing.T) {
		c := newAskingClient(t, nil, specs...)
		s, url := serveHTTP(t, c)
		f(t, c, s.gateway, newPeer(t, url).modernCaller())
	})
}

// A question of a server before 2026-07-28 is asked of a client of 2026-07-28 as the server has sent it, and
// the answer reaches the server as the client has sent it. Meanwhile the call is in flight at the server.
func TestHeld(t *testing.T) {
	onTransportAndHTTP(t, func(t *testing.T, c *facade.Client, g *gateway, ann caller) {
		result, failure := ann("tools/call", "a__consult", modernCall(""))
		require.Empty(t, failure)
		state, keys := required(t, result)
		require.JSONEq(t, wantsText, memberOf(t, []byte(result), "inputRequests", keys[0], "params"))
		require.Equal(t, `"elicitation/create"`, memberOf(t, []byte(result), "inputRequests", keys[0], "method"))
		require.Len(t, c.CallsInFlight(), 1)
		require.True(t, heldAre(g, 1, 0))

		result, failure = ann("tools/call", "a__consult", modernCall(roundOf(state, `{"`+keys[0]+`":{"action":"accept","content":{"name":"\u0041"},"x":1.0}}`)))
		require.Empty(t, failure)
		require.Contains(t, result, `{"resultType":"complete",`, "the server does not say it")
		require.Contains(t, result, `{\"action\":\"accept\",\"content\":{\"name\":\"\\u0041\"},\"x\":1.0}`)
		require.Empty(t, c.CallsInFlight())
		requireNothingHeld(t, g)
	}, legacyFixture("a"))
}

// requireNothingHeld waits until no call is held, and nothing is counted.
func requireNothingHeld(t *testing.T, g *gateway) {
	t.Helper()
	until(t, g.holds.IsIdle)
}

// A requestState that was changed, belongs to another request or another client, or was used, is refused,
// and says so. The held call waits on.
func TestHeld_refused_states(t *testing.T) {
	key := sessionid.NewKey()
	c := newAskingClient(t, nil, legacyFixture("a"), legacyFixture("b"))
	tokens := []Token{{Principal: "ann", SHA256: HashToken("t1")}, {Principal: "eve", SHA256: HashToken("t2")}}
	s, url := serveHTTP(t, c, WithSessionKey(key), WithTokens(tokens...))
	as := func(token string) caller {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+token)
		return p.modernCaller()
	}
	ann, eve := as("t1"), as("t2")
	result, _ := ann("tools/call", "a__consult", modernCall(""))
	state, keys := required(t, result)
	accept := `{"` + keys[0] + `":{"action":"accept","content":{"name":"ann"}}}`
	changed := state[:20] + map[bool]string{true: "B", false: "A"}[state[20] == 'A'] + state[21:]
	forged := seal.Seal(sessionid.NewKey(), "held call", "ann", "a", "", seal.Time(time.Now().Add(time.Hour)), "instance", "1", "1")
	for name, test := range map[string]struct {
		by                 caller
		tool, params, text string
	}{
		"another client":    {eve, "a__consult", modernCall(roundOf(state, accept)), "of another client"},
		"changed":           {ann, "a__consult", modernCall(roundOf(changed, accept)), "was not made by this gateway"},
		"another key":       {ann, "a__consult", modernCall(roundOf(`"h`+forged+`"`, accept)), "was not made by this gateway"},
		"of another kind":   {ann, "a__consult", modernCall(roundOf(`"s`+state[2:], accept)), "was not made by this gateway"},
		"no text":           {ann, "a__consult", modernCall(roundOf(`{"a":1}`, accept)), "was not made by this gateway"},
		"empty":             {ann, "a__consult", modernCall(roundOf(`""`, accept)), "was not made by this gateway"},
		"another server":    {ann, "b__consult", strings.Replace(modernCall(roundOf(state, accept)), "a__", "b__", 1), "of another request"},
		"another tool":      {ann, "a__ask", strings.Replace(modernCall(roundOf(state, accept)), "a__consult", "a__ask", 1), "of another request"},
		"other arguments":   {ann, "a__consult", strings.Replace(modernCall(roundOf(state, accept)), `"?"`, `"!"`, 1), "of another request"},
		"an answer of text": {ann, "a__consult", modernCall(roundOf(state, `{"`+keys[0]+`":"x"}`)), "is not an object"},
		"answers of text":   {ann, "a__consult", modernCall(roundOf(state, `"x"`)), "not an object"},
	} {
		result, failure := test.by("tools/call", test.tool, test.params)
		require.Empty(t, result, name)
		require.Equal(t, "-32602", memberOf(t, []byte(failure), "code"), name)
		require.Contains(t, memberOf(t, []byte(failure), "message"), test.text, name)
	}
	reordered := `{"arguments":{"params":` + wantsText + `, "method":"elicitation/create"},"name":"a__consult",` + modernMeta + roundOf(state, accept) + `}`
	result, failure := ann("tools/call", "a__consult", reordered)
	require.Empty(t, failure)
	require.Contains(t, result, `ann`)
	_, failure = ann("tools/call", "a__consult", modernCall(roundOf(state, accept)))
	require.Contains(t, failure, "was used before")
	require.Contains(t, failure, "-32602")
	calls, _ := c.History().Calls(0)
	require.Len(t, calls, 1, "what was refused was not sent")
	requireNothingHeld(t, s.gateway)
}

// A state of a server whose tool has the same name as that of another server since does not reach that.
func TestHeld_state_of_a_server_that_was_replaced(t *testing.T) {
	a, b := legacyFixture("a"), legacyFixture("b")
	a.Era, b.Era = mcpvisor.EraModern, mcpvisor.EraModern
	c := newAskingClient(t, nil, a)
	ann := openRaw(t, Transport(c, WithNames(Names{Prefix: PrefixNever}))).modernCaller()
	call := func(more string) (result, failure string) {
		return ann("tools/call", "", strings.Replace(modernCall(more), "a__consult", "consult", 1))
	}
	result, _ := call("")
	state, keys := required(t, result)
	require.NoError(t, c.Unregister(t.Context(), "a"))
	require.NoError(t, c.Register(t.Context(), b))
	until(t, func() bool { // the name leads to the other server
		result, _ = call("")
		return strings.Contains(result, "input_required")
	})
	before, _ := c.History().Calls(0)
	result, failure := call(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`))
	require.Empty(t, result)
	require.Contains(t, failure, "-32602")
	require.Contains(t, failure, "of another server")
	after, _ := c.History().Calls(0)
	require.Len(t, after, len(before), "nothing was sent")
}

// A state of a server of 2026-07-28 is refused in the same way, and reaches no server.
func TestHeld_refused_states_of_servers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modern := legacyFixture("a")
		modern.Era = mcpvisor.EraModern
		c := newAskingClient(t, nil, modern)
		transport := Transport(c, WithNames(Names{}))
		ann := openRaw(t, transport).modernCaller()
		result, _ := ann("tools/call", "a__consult", modernCall(""))
		state, keys := required(t, result)
		accept := roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)
		_, failure := ann("tools/call", "", strings.Replace(modernCall(accept), `"?"`, `"!"`, 1))
		require.Contains(t, failure, "of another request")
		c2 := openRaw(t, transport)
		c2.conn.(*connection).session.owner = "eve"
		_, failure = c2.modernCaller()("tools/call", "", modernCall(accept))
		require.Contains(t, failure, "of another client")
		time.Sleep(roundtrip.StateTime - time.Second)
		result, failure = ann("tools/call", "", modernCall(accept))
		require.Empty(t, failure)
		require.Contains(t, result, "decline")
		time.Sleep(time.Second)
		_, failure = ann("tools/call", "", modernCall(accept))
		require.Contains(t, failure, "has expired")
		calls, _ := c.History().Calls(0)
		require.Len(t, calls, 2)
	})
}

// What the client does not answer is asked again, with a new state; unknown answers are ignored.
func TestHeld_without_answer(t *testing.T) {
	onTransportAndHTTP(t, func(t *testing.T, _ *facade.Client, _ *gateway, ann caller) {
		result, _ := ann("tools/call", "a__consult", modernCall(""))
		state, keys := required(t, result)
		for _, responses := range []string{`{}`, `{"x":1}`} {
			result, _ = ann("tools/call", "a__consult", modernCall(roundOf(state, responses)))
			next, again := required(t, result)
			require.Equal(t, keys, again)
			require.NotEqual(t, state, next)
			_, failure := ann("tools/call", "a__consult", modernCall(roundOf(state, responses)))
			require.Contains(t, failure, "was used before")
			state = next
		}
		result, _ = ann("tools/call", "a__consult", modernCall(`,"requestState":`+state))
		state, _ = required(t, result)
		result, _ = ann("tools/call", "a__consult", modernCall(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
		require.Contains(t, result, "decline")
	}, legacyFixture("a"))
}

// A client that does not come back: its call is canceled at the server after roundtrip.HoldTime, and its state is
// refused from then on.
func TestHeld_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := legacyFixture("a")
		spec.Timeouts.CallTotal = time.Hour
		c := newAskingClient(t, nil, spec)
		transport := Transport(c, WithNames(Names{}))
		ann := openRaw(t, transport).modernCaller()
		result, _ := ann("tools/call", "", modernCall(""))
		state, keys := required(t, result)
		time.Sleep(roundtrip.HoldTime - time.Second)
		synctest.Wait()
		require.Len(t, c.CallsInFlight(), 1)
		result, _ = ann("tools/call", "", modernCall(roundOf(state, `{}`))) // the time begins again
		state, _ = required(t, result)
		time.Sleep(roundtrip.HoldTime - time.Second)
		synctest.Wait()
		require.Len(t, c.CallsInFlight(), 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, c.CallsInFlight())
		requireNothingHeld(t, transport.(*gateway))
		_, failure := ann("tools/call", "", modernCall(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
		require.Contains(t, failure, "has expired")
		require.Contains(t, failure, "-32602")
		calls, _ := c.History().Calls(0)
		require.Equal(t, mcpvisor.ErrCanceled, calls[0].Kind)
	})
}

// The gateway ends while the client answers: the state is authentic, and the call may have been executed. It
// is not sent again.
func TestHeld_gateway_ends(t *testing.T) {
	key := sessionid.NewKey()
	c := newAskingClient(t, nil, legacyFixture("a"))
	first, url := serveHTTP(t, c, WithSessionKey(key))
	result, _ := newPeer(t, url).modernCaller()("tools/call", "a__consult", modernCall(""))
	state, keys := required(t, result)
	first.Close()
	until(t, func() bool { return len(c.CallsInFlight()) == 0 })
	requireNothingHeld(t, first.gateway)
	_, url = serveHTTP(t, c, WithSessionKey(key))
	again := newPeer(t, url).modernCaller()
	result, failure := again("tools/call", "a__consult", modernCall(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
	require.Empty(t, failure)
	require.Contains(t, result, "was interrupted. Whether it had an effect is not known")
	require.Contains(t, result, `"isError":true`)
	calls, _ := c.History().Calls(0)
	require.Len(t, calls, 1)
}

// What ends a client of 2026-07-28 while it is waited for, or while it waits, ends its call at the server: the
// end of its session, the cancellation of the next request, and the end of the next request's connection.
func TestHeld_client_is_gone(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	transport := Transport(c, WithNames(Names{}))
	canceled := 0
	requireCanceled := func(g *gateway) {
		t.Helper()
		until(t, func() bool { return len(c.CallsInFlight()) == 0 })
		requireNothingHeld(t, g)
		canceled++
		var calls []monitor.CallRecord
		until(t, func() bool { calls, _ = c.History().Calls(0); return len(calls) == canceled }) // a call is recorded when it is in flight no more
		for _, call := range calls {
			require.Equal(t, mcpvisor.ErrCanceled, call.Kind)
		}
	}
	s := openRaw(t, transport)
	_, _ = required(t, string(s.call("tools/call", modernCall("")).Result))
	require.NoError(t, s.conn.Close())
	requireCanceled(transport.(*gateway))

	s = openRaw(t, transport)
	s.send(5, "tools/call", `{"name":"a__hang",`+modernMeta+`}`)
	until(t, func() bool { return len(c.CallsInFlight()) == 1 })
	s.notify("notifications/cancelled", `{"requestId":5}`)
	requireCanceled(transport.(*gateway))

	h, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.header = http.Header{versionHeader: {"2026-07-28"}, methodHeader: {"tools/call"}, nameHeader: {"a__hang"}}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		if body, err := p.stream(ctx, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__hang",`+modernMeta+`}}`); err == nil {
			_ = body.Close()
		}
	}()
	until(t, func() bool { return len(c.CallsInFlight()) == 1 })
	leave()
	requireCanceled(h.gateway)
}

// An owner has at most MaxHeld held calls, and their questions MaxHeldBytes. The question of another call is
// refused, and no client is asked.
func TestHeld_limits(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"), legacyFixture("b"))
	s, url := serveHTTP(t, c, WithLimits(Limits{MaxHeld: 1, MaxHeldBytes: 20 << 10}))
	ann := newPeer(t, url).modernCaller()
	result, _ := ann("tools/call", "a__consult", modernCall(""))
	state, keys := required(t, result)
	require.Equal(t, 1, s.Status().Held)
	other := strings.Replace(modernCall(""), "a__", "b__", 1)
	result, _ = ann("tools/call", "b__consult", other)
	require.Contains(t, result, "too many calls of the client wait for answers")
	large := strings.Replace(modernCall(""), `"?"`, `"`+strings.Repeat("x", 20<<10)+`"`, 1)
	result, _ = ann("tools/call", "a__consult", modernCall(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
	require.Contains(t, result, "decline")
	result, _ = ann("tools/call", "a__consult", large)
	require.Contains(t, result, "their questions are too large")
	requireNothingHeld(t, s.gateway)
	result, _ = ann("tools/call", "b__consult", other)
	_, _ = required(t, result)
}

// The server ends the call while the client answers: the client gets what became of it.
func TestHeld_server_ends_the_call(t *testing.T) {
	for name, test := range map[string]struct {
		n    int
		want string
	}{
		"with a result":         {10, `"text":"xxxxxxxxxx"`},
		"with too large result": {1 << 20, "its result is lost"},
		"by its death":          {0, "crashed during the call. Whether it had an effect is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := fixture("a", mcptest.Script{})
			spec.InMemory, spec.Era = eagerServer(test.n), mcpvisor.EraLegacy
			c := newAskingClient(t, nil, spec)
			s, url := serveHTTP(t, c, WithLimits(Limits{MaxHeldBytes: 64 << 10}))
			ann := newPeer(t, url).modernCaller()
			call := strings.Replace(modernCall(""), "a__consult", "a__x", 1)
			result, failure := ann("tools/call", "a__x", call)
			if !strings.Contains(result, "input_required") { // the result was faster than the question
				require.Contains(t, result+failure, map[bool]string{true: "xxxxxxxxxx", false: test.want}[test.n > 0])
				return
			}
			state, _ := required(t, result)
			until(t, func() bool { return heldAre(s.gateway, 1, 1) })
			result, failure = ann("tools/call", "a__x", strings.Replace(modernCall(roundOf(state, `{}`)), "a__consult", "a__x", 1))
			require.Contains(t, result+failure, test.want)
			requireNothingHeld(t, s.gateway)
		})
	}
}

// Two calls of one session at a server on a pipe, which names neither: both are answered. Of two clients over
// HTTP, nothing says whose the question is: it is refused.
func TestHeld_of_several_calls(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	transport := Transport(c, WithNames(Names{}))
	s := openRaw(t, transport)
	ann := s.modernCaller()
	sample := strings.NewReplacer("elicitation/create", "sampling/createMessage", wantsText, wantsSample).Replace(modernCall(""))
	first, _ := ann("tools/call", "", modernCall(""))
	second, _ := ann("tools/call", "", sample)
	state1, keys1 := required(t, first)
	state2, keys2 := required(t, second)
	result, _ := ann("tools/call", "", strings.Replace(sample, modernMeta, modernMeta+roundOf(state2, `{"`+keys2[0]+`":{"model":"m","role":"assistant","content":{"type":"text","text":"hi"}}}`), 1))
	require.Contains(t, result, "assistant")
	result, _ = ann("tools/call", "", modernCall(roundOf(state1, `{"`+keys1[0]+`":{"action":"decline"}}`)))
	require.Contains(t, result, "decline")
	requireNothingHeld(t, transport.(*gateway))

	_, url := serveHTTP(t, c)
	bob, eve := newPeer(t, url).modernCaller(), newPeer(t, url).modernCaller()
	first, _ = bob("tools/call", "a__consult", modernCall(""))
	state1, keys1 = required(t, first)
	result, _ = eve("tools/call", "a__consult", modernCall(""))
	require.Contains(t, result, "several calls are in flight")
	result, _ = bob("tools/call", "a__consult", modernCall(roundOf(state1, `{"`+keys1[0]+`":{"action":"decline"}}`)))
	require.Contains(t, result, "decline")
}

// heldAre reports whether so many calls are held, and so many of them have ended at their servers.
func heldAre(g *gateway, calls, done int) bool {
	held, ended := g.holds.Count()
	return held == calls && ended == done
}

// Prompts and resources are held as calls of tools are.
func TestHeld_of_every_method(t *testing.T) {
	spec := fixture("a", mcptest.Script{})
	spec.InMemory, spec.Era = waitingServer(nil), mcpvisor.EraLegacy
	onTransportAndHTTP(t, func(t *testing.T, _ *facade.Client, g *gateway, ann caller) {
		for method, target := range map[string][2]string{"tools/call": {"name", "a__x"}, "prompts/get": {"name", "a__x"}, "resources/read": {"uri", "x:y"}} {
			params := func(more string) string { return `{"` + target[0] + `":"` + target[1] + `",` + modernMeta + more + `}` }
			result, failure := ann(method, target[1], params(""))
			require.Empty(t, failure, method)
			state, keys := required(t, result)
			result, failure = ann(method, target[1], params(roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
			require.Empty(t, failure, method)
			require.Contains(t, result, `{\"action\":\"decline\"}`, method)
			requireNothingHeld(t, g)
		}
	}, spec)
}

// The progress of a held call goes to the request that waits for it, with the token of that, and to no client while
// none does.
func TestHeld_progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		spec := fixture("a", mcptest.Script{})
		spec.InMemory, spec.Era = steppingServer(next), mcpvisor.EraLegacy
		s := openRaw(t, Transport(newAskingClient(t, nil, spec), WithNames(Names{})))
		params := func(token, more string) string {
			return `{"name":"a__x",` + strings.Replace(modernMeta, `{`, `{"progressToken":"`+token+`",`, 1) + more + `}`
		}
		progress := func(token, message string) {
			t.Helper()
			m := s.read().(*jsonrpc.Request)
			require.JSONEq(t, `{"progressToken":"`+token+`","progress":1,"message":"`+message+`"}`, string(m.Params))
		}
		s.send(1, "tools/call", params("t1", ""))
		progress("t1", "before")
		next <- struct{}{} // it asks
		state, keys := required(t, string(s.read().(*jsonrpc.Response).Result))
		next <- struct{}{} // it reports while no request waits
		synctest.Wait()
		s.send(2, "tools/call", params("t2", roundOf(state, `{"`+keys[0]+`":{"action":"decline"}}`)))
		progress("t2", "after")
		answer := s.read().(*jsonrpc.Response)
		require.Equal(t, int64(2), answer.ID.Raw())
		require.Contains(t, string(answer.Result), "done")
	})
}

// steppingServer is a server before 2026-07-28 whose calls of x report progress, ask after a value of next,
// report after another one, and report and end when they have an answer.
func steppingServer(next <-chan struct{}) *mcpvisor.InMemory {
	var call *rawtest.Message
	report := func(message string) {
		var params struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		_ = json.Unmarshal(call.Params, &params)
		call.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, params.Meta.ProgressToken, message)
	}
	return serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "tools/call":
			call = m
			report("before")
			<-next
			m.Send(`%s`, asksForm("q"))
			<-next
			report("while it is held")
			return rawtest.None
		case "":
			report("after")
			call.Reply(rawtest.Text("done"))
		}
		return ""
	}, nil)
}

// Input that a server requires, and the answers of the client, pass byte for byte, for each kind of
// request; the client's capabilities are declared, and the handlers of the host are not asked. The client
// gets the requestState sealed, and the server gets it back byte for byte.
func TestRounds_byte_for_byte(t *testing.T) {
	const required = `{"resultType":"input_required","x":1.0,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"\u0041"}}},"requestState":"\u0041<&>é"}`
	const capabilities = `{"elicitation":{"form":{}},"x":1.0}`
	var mu sync.Mutex
	var last string
	answer := func(m *rawtest.Message) string {
		switch m.Method {
		case "prompts/list":
			return `"result":{"resultType":"complete","prompts":[{"name":"x"}],"ttlMs":0,"cacheScope":"private"}`
		case "resources/list":
			return `"result":{"resultType":"complete","resources":[{"uri":"x:y","name":"x"}],"ttlMs":0,"cacheScope":"private"}`
		case "resources/templates/list":
			return `"result":{"resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private"}`
		case "tools/call", "prompts/get", "resources/read":
			mu.Lock()
			defer mu.Unlock()
			if last = string(m.Text); strings.Contains(last, "inputResponses") {
				return `"result":{"resultType":"complete","content":[],"contents":[],"messages":[]}`
			}
			return `"result":` + required
		}
		return ""
	}
	web := httptest.NewServer(&rawtest.Server{Modern: true, Capabilities: `{"tools":{},"resources":{},"prompts":{}}`, Answer: answer})
	t.Cleanup(web.Close)
	host := facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "decline"}, nil
	})
	c := newAskingClient(t, []facade.Option{host}, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraModern, HTTP: &mcpvisor.HTTP{URL: web.URL}})
	s := openRaw(t, Transport(c))
	for method, target := range map[string]string{"tools/call": `"name":"a/x"`, "prompts/get": `"name":"a/x"`, "resources/read": `"uri":"x:y"`} {
		params := func(capabilities, more string) string {
			return `{` + target + more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}`
		}
		answer := s.call(method, params(capabilities, ""))
		require.NoError(t, answer.Error, method)
		state := memberOf(t, answer.Result, "requestState")
		require.Equal(t, strings.Replace(required, `"\u0041<&>é"`, state, 1), string(answer.Result), method)
		require.NotContains(t, state, "<&>", method)
		require.Contains(t, last, `"io.modelcontextprotocol/clientCapabilities":`+capabilities, method)
		const round = `,"inputResponses":{"k":{"action":"accept","content":{"n":1.0}}},"requestState":`
		answer = s.call(method, params(capabilities, round+state))
		require.NoError(t, answer.Error, method)
		require.Contains(t, string(answer.Result), `"resultType":"complete"`, method)
		require.Contains(t, last, round+`"\u0041<&>é"`, method)

		answer = s.call(method, params(`{}`, "")) // the host answers
		require.NoError(t, answer.Error, method)
		require.Contains(t, string(answer.Result), `"resultType":"complete"`, method)
		require.Contains(t, last, `"decline"`, method)

		require.ErrorContains(t, s.call(method, params(capabilities, `,"inputResponses":[]`)).Error, "not an object", method)
	}
}
