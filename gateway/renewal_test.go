package gateway

import (
	"math"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
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
				require.Nil(t, s.conn.(*connection).out.notify.Next())
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
		conn.subscriptions.Forget("a", math.MaxUint64)
		conn.hub.renewAll()
		s.requireUpdate(uri)
		r, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
		text(t, r, err)
		s.requireUpdate(uri)
	})
}
