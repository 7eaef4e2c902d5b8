package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

const heldBound = 16 << 20

// subscribeTo subscribes to n resources with long URIs until one is refused, with that error; nil: none was.
func (p *peer) subscribeTo(n, bytes int) (done int, refused json.RawMessage) {
	p.t.Helper()
	for i := range n {
		uri := fmt.Sprintf("mcptest://echo/%d%s%s", i, p.session[:20], strings.Repeat("x", bytes))
		status, answer := p.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"` + uri + `"}}`)
		if e := memberOf(p.t, []byte(answer), "error"); e != "" || status != http.StatusOK {
			return i, json.RawMessage(answer)
		}
	}
	return n, nil
}

// What idle sessions keep is bounded for their principal: its sessions share one budget, and another principal finds
// room. All of it is given back with the sessions.
func TestHoldings_of_sessions(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}})), withNames("ann", "bob"), WithSettings(newSettings(t, Settings{MaxHeldByPrincipal: heldBound, MaxHeldByAll: 4 * heldBound})))
	before := heapBytes()
	var greedy []*peer
	subscribed, refusals := 0, 0
	for range 10 {
		p := openUser(t, url, "ann")
		greedy = append(greedy, p)
		n, refused := p.subscribeTo(50, 60_000)
		subscribed += n
		if refused != nil {
			refusals++
			require.Contains(t, string(refused), "end subscriptions")
		}
	}
	require.Positive(t, subscribed)
	require.Less(t, subscribed, 10*50)
	require.Equal(t, 10, refusals, "the first session leaves room for others, and none has room for all")
	require.LessOrEqual(t, s.gateway.heldBytes(), int64(heldBound))
	require.Less(t, heapBytes()-before, heldBound)

	other := openUser(t, url, "bob")
	n, refused := other.subscribeTo(5, 60_000)
	require.Equal(t, 5, n, "%s", refused)
	greedy = append(greedy, other)
	for _, p := range greedy {
		require.Equal(t, http.StatusNoContent, p.do(t.Context(), http.MethodDelete, "").StatusCode)
	}
	until(t, func() bool { return s.gateway.heldBytes() == 0 })
}

// A body, and a session, that the budget has no room for are answered with 429, and say what to do.
func TestHoldings_over_HTTP(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})), withNames("ann", "bob"), WithSettings(newSettings(t, Settings{MaxHeldByPrincipal: 64 << 10})))
	p := openUser(t, url, "ann")
	status, _ := p.post(toolCallOf(1, "a__echo", `{"text":"`+strings.Repeat("x", 80<<10)+`"}`))
	require.Equal(t, http.StatusTooManyRequests, status)
	s.gateway.opts.settings.hold("ann", 60<<10)
	status, answer := p.post(toolCallOf(1, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, answer, "end sessions")
	require.Equal(t, http.StatusTooManyRequests, p.do(t.Context(), http.MethodGet, "").StatusCode, "404 would end its session")
	status, answer = openUser(t, url, "bob").post(toolCallOf(1, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusOK, status, answer)
	s.gateway.opts.settings.hold("ann", -60<<10)
	status, answer = p.post(toolCallOf(1, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusOK, status, answer)
	until(t, func() bool { return s.gateway.heldBytes() == 0 })
}

// Without tokens the clients over HTTP and those of transports with the same settings are one principal.
func TestHoldings_are_shared(t *testing.T) {
	c, v := newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}})), newSettings(t, Settings{MaxHeldByPrincipal: 1 << 20})
	transport := Transport(c, WithSettings(v))
	_, url := serveHTTP(t, c, WithSettings(v))
	over := newPeer(t, url)
	over.initialize("2025-11-25")
	n, _ := over.subscribeTo(50, 60_000)
	require.Equal(t, 2, n)

	s := openRaw(t, transport)
	uri := func(i int) string {
		return fmt.Sprintf(`{"uri":"mcptest://echo/%d%s"}`, i, strings.Repeat("x", 60_000))
	}
	// The body of the refused request is given back after its answer.
	until(t, func() bool { return s.call("resources/subscribe", uri(1)).Error == nil })
	require.ErrorContains(t, s.call("resources/subscribe", uri(2)).Error, "keeps too much", "what others hold is not free")
	until(t, func() bool { return s.call("resources/unsubscribe", uri(1)).Error == nil })
	until(t, func() bool { return s.call("resources/subscribe", uri(3)).Error == nil })
	require.Equal(t, http.StatusNoContent, over.do(t.Context(), http.MethodDelete, "").StatusCode)
	require.NoError(t, s.conn.Close())
	until(t, nothingHeld(transport))
}

// A change of the settings changes the bounds of principals that hold something, too; a lower one takes nothing away.
func TestHoldings_resize(t *testing.T) {
	v := newSettings(t, Settings{MaxHeldByPrincipal: 100, MaxHeldByAll: 1000})
	ann := v.enter("ann")
	defer v.holdings.leave("ann")
	require.False(t, ann.Take(101))
	require.NoError(t, v.Set(Settings{MaxHeldByPrincipal: 300, MaxHeldByAll: 1000}))
	require.True(t, ann.Take(101))
	require.NoError(t, v.Set(Settings{MaxHeldByPrincipal: 300, MaxHeldByAll: 50}))
	require.False(t, ann.Take(1))
	require.False(t, v.hold("bob", 1))
	require.NoError(t, v.Set(Settings{}))
	require.True(t, ann.Take(64<<20))
	ann.Return(int(ann.Used()))
}

// Requests, large answers and log messages of a session over a transport count until they are read.
func TestHoldings_of_a_transport(t *testing.T) {
	c := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(`{"content":[{"type":"text","text":"` + strings.Repeat("s", 600<<10) + `"}]}`)})
	transport := Transport(c, WithSettings(newSettings(t, Settings{MaxHeldByPrincipal: 512 << 10})))
	s := openRaw(t, transport)
	require.ErrorContains(t, s.call("tools/call", `{"name":"a/x","arguments":{"x":"`+strings.Repeat("x", 600<<10)+`"}}`).Error, "keeps too much")
	require.ErrorContains(t, s.call("tools/call", `{"name":"a/x","arguments":{}}`).Error, "was carried out")
	other := s.conn.(*connection).session.account
	require.Equal(t, int64(0), other.Used())
	require.NoError(t, s.call("logging/setLevel", `{"level":"debug"}`).Error)
	for range 200 {
		s.conn.(*connection).session.notify.ReportLog(mcpvisor.LogMessage{Level: "error", Text: strings.Repeat("x", 10<<10)})
	}
	require.Positive(t, other.Used())
	require.LessOrEqual(t, other.Used(), int64(256<<10), "half of it is left to others")
	require.NoError(t, s.conn.Close())
	until(t, nothingHeld(transport))
}
