package gateway

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// subscribed opens a session that is subscribed to a resource.
func subscribed(t *testing.T, transport mcp.Transport, version, uri string) raw {
	t.Helper()
	s := openRaw(t, transport)
	if version == "2025-11-25" {
		require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
		return s
	}
	s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`"},"notifications":{"resourceSubscriptions":["`+uri+`"]}}`)
	ack := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/subscriptions/acknowledged", ack.Method)
	require.Contains(t, string(ack.Params), uri)
	return s
}

// requireUpdate reads an update of the resource, which must be the next message.
func (r raw) requireUpdate(uri string) {
	r.t.Helper()
	update, ok := r.read().(*jsonrpc.Request)
	require.True(r.t, ok)
	require.Equal(r.t, "notifications/resources/updated", update.Method)
	require.Contains(r.t, string(update.Params), `"uri":"`+uri+`"`)
}

// When the host replaces a server, each session that is subscribed gets one update, and then
// the updates of the new server, also after a restart.
func TestSubscribe_server_is_replaced(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t, fixture("a", mcptest.Script{}))
		transport, uri := Transport(c), c.Resources()[0].URI
		both := []raw{subscribed(t, transport, version, uri), subscribed(t, transport, version, uri)}
		touch := func() {
			r, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
			text(t, r, err)
			for _, s := range both {
				s.requireUpdate(uri)
				require.Nil(t, s.conn.(*connection).exchange.out.notify.Next())
			}
		}
		touch()
		for _, replace := range []func() error{
			func() error {
				require.NoError(t, c.Unregister(ctx, "a"))
				return c.Register(ctx, fixture("a", mcptest.Script{}))
			},
			func() error { return c.Restart(ctx, "a") },
		} {
			require.NoError(t, replace())
			for _, s := range both {
				s.requireUpdate(uri) // what changed in the meantime is not known
			}
			touch()
		}
	})
}

// A repeated subscription reaches the client, whose own may have ended.
func TestSubscribe_again(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, fixture("a", mcptest.Script{}))
	uri := c.Resources()[0].URI
	transport := Transport(c)
	s := subscribed(t, transport, "2025-11-25", uri)
	require.NoError(t, c.Unsubscribe(ctx, "a", uri))
	require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
	_, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
	require.NoError(t, err)
	s.requireUpdate(uri)
	require.NoError(t, s.call("resources/unsubscribe", `{"uri":"`+uri+`"}`).Error)
	until(t, nothingHeld(transport))
}

func nothingHeld(transport mcp.Transport) func() bool {
	g := transport.(*gateway)
	return func() bool { return !g.subscriptions.AreHeld() && g.heldBytes() == 0 }
}

// heldBytes is what all principals make the gateway hold, as it counts.
func (g *gateway) heldBytes() (n int64) {
	h := &g.opts.settings.holdings
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total.Used()
}

// After events were missed, among them perhaps the one of a new server, every subscription
// is made again and reported as updated.
func TestSubscribe_events_were_missed(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t, fixture("a", mcptest.Script{}))
		uri := c.Resources()[0].URI
		s := subscribed(t, Transport(c), version, uri)
		conn := s.conn.(*connection)
		if version == "2025-11-25" { // later, another Subscribe waits for the server's confirmation
			require.NoError(t, c.Unsubscribe(ctx, "a", uri)) // as the end of a registration does
		}
		conn.session.gateway.subscriptions.Forget("a", math.MaxUint64)
		conn.session.gateway.hub.renewAll()
		s.requireUpdate(uri)
		r, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
		text(t, r, err)
		s.requireUpdate(uri)
	})
}

// Requests that change one subscription take effect in the order in which they were written.
func TestSubscribe_in_order(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}}))
	transport := Transport(c)
	uri := `{"uri":"` + c.Resources()[0].URI + `"}`
	for range 100 {
		s := openRaw(t, transport)
		s.send(1, "resources/subscribe", uri)
		s.send(2, "resources/unsubscribe", uri)
		s.read()
		s.read()
		conn := s.conn.(*connection)
		require.Zero(t, conn.session.notify.Count().Subscriptions)
		conn.session.requests.mu.Lock()
		require.Empty(t, conn.session.requests.turns)
		conn.session.requests.mu.Unlock()
		require.NoError(t, s.conn.Close())
	}
}

// Behind Limits.MaxInFlight clients have their turn one after the other: one with many calls delays another one by one
// of them, not by all. That holds for sessions of one principal, too.
func TestTurn_of_clients(t *testing.T) {
	next, order := make(chan struct{}), make(chan string, 10)
	c := newClient(t, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, Limits: mcpvisor.Limits{MaxInFlight: 1}, InMemory: serveRaw(func(m *rawtest.Message) string {
		if m.Method == "tools/call" {
			order <- string(m.Params)
			<-next
		}
		return ""
	}, nil)})
	transport := Transport(c)
	ann, bob := openRaw(t, transport), openRaw(t, transport)
	queued := func(n int64) {
		until(t, func() bool {
			s, ok := c.ServerStatus("a")
			return ok && s.Calls.InFlight == 1 && s.Calls.Queued == n
		})
	}
	for i := range 5 {
		ann.send(float64(i+1), "tools/call", `{"name":"a/x","arguments":{"of":"ann"}}`)
		queued(int64(i))
	}
	bob.send(1, "tools/call", `{"name":"a/x","arguments":{"of":"bob"}}`)
	queued(5)
	close(next)
	var turns []bool // is it bob's?
	for range 6 {
		turns = append(turns, strings.Contains(receive(t, order), `"bob"`))
	}
	require.Equal(t, []bool{false, false, true, false, false, false}, turns)
}

// silentServer lists the resource mem://silent, and never answers who subscribes to it.
func silentServer() *mcpvisor.InMemory {
	return serveRaw(nil, map[string]string{
		"initialize":               legacyHandshake(`{"resources":{"subscribe":true}}`),
		"resources/list":           `"result":{"resources":[{"uri":"mem://silent","name":"silent"},{"uri":"mem://mute","name":"mute"}]}`,
		"resources/templates/list": `"result":{"resourceTemplates":[]}`,
		"resources/subscribe":      rawtest.None,
	})
}

// A server that does not answer does not keep a session from the changes of the others.
func TestListen_with_a_silent_server(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what is asked of a server ends after 2 s of its clock
		c := newClient(t, fixture("a", mcptest.Script{}), mcpvisor.ServerSpec{Name: "silent", InMemory: silentServer()})
		transport := Transport(c)
		transport.(*gateway).subscriptions.Bound = 2 * time.Second
		s := openRaw(t, transport)
		uri := c.Resources()[0].URI
		s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},
			"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mem://silent","mem://mute","`+uri+`"]}}`)
		ack := s.read().(*jsonrpc.Request)
		require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`"]}}`, string(ack.Params))
		_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
		require.NoError(t, err)
		require.Equal(t, "notifications/tools/list_changed", s.read().(*jsonrpc.Request).Method)
	})
}

// A stream in whose place another one has come takes nothing of what the session is told: its connection may be dead.
func TestStream_whose_place_is_taken_reads_nothing(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	x := &httpExchange{server: s, gateway: s.gateway, principal: s.enter(""), r: r}
	defer s.leave(x.principal)
	r.Header.Set(sessionHeader, p.session)
	hs := x.openSession(jsonrpc.ID{})
	require.NotNil(t, hs)
	defer s.closeSession(hs)
	woken := 0
	first := s.takeStream(hs, func() { woken++ })
	second := s.takeStream(hs, func() {})
	require.Equal(t, 1, woken)
	hs.session.notify.StartSession()
	hs.session.notify.ReportLists(listing.ToolList)
	require.Nil(t, hs.session.notify.NextOf(first))
	require.NotNil(t, hs.session.notify.NextOf(second))
	require.Equal(t, 1, woken)
}
