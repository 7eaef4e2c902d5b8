package gateway

import (
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// requireUpdated reads until the resource was updated; other notifications and answers come before.
func (r raw) requireUpdated(uri string) {
	r.t.Helper()
	for {
		if m, ok := r.read().(*jsonrpc.Request); ok && m.Method == "notifications/resources/updated" {
			require.Contains(r.t, string(m.Params), uri)
			return
		}
	}
}

// A subscription moves with the share of its server, there and back, and counts as updated. So does one of
// subscriptions/listen. What is left counts nowhere when the session has ended.
func TestShare_subscriptions_move(t *testing.T) {
	const uri = "mcptest://text"
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			c := newClient(t, fixture("a", mcptest.Script{}))
			var settings SettingsVar
			s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings)))
			if modern {
				s.send(7, "subscriptions/listen", withModernMeta(`{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`))
				require.Contains(t, string(s.read().(*jsonrpc.Request).Params), uri)
			} else {
				s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
				s.notify("notifications/initialized", `{}`)
				require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
			}
			id := 100.0
			touch := func() {
				id++
				params := `{"name":"a__touch","arguments":{"uri":"` + uri + `"}}`
				if modern {
					params = withModernMeta(params)
				}
				s.send(id, "tools/call", params)
				s.requireUpdated(uri)
			}
			touch()
			conn := s.conn.(*connection)
			for _, share := range []Share{ShareClient, ShareAll, ShareClient} {
				require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": share}}))
				s.requireUpdated(uri)
				touch()
				require.Equal(t, share == ShareAll, conn.subscriptions.AreHeld())
				require.Equal(t, share == ShareClient, conn.tenant.Load().seatOf("a").subscriptions.AreHeld())
				require.EqualValues(t, 1, conn.subscriptionCount.Load())
			}
			own := conn.tenant.Load()
			require.NoError(t, conn.Close())
			until(t, func() bool {
				return conn.subscriptionCount.Load() == 0 && !conn.subscriptions.AreHeld() && !own.seatOf("a").subscriptions.AreHeld()
			})
			until(t, func() bool {
				settings.mu.Lock()
				defer settings.mu.Unlock()
				return !settings.watchers[conn]
			})
		})
	}
}

// Who subscribes again after the change has one subscription, which ends where it is.
func TestShare_subscribe_again_after_a_reload(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	var settings SettingsVar
	s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings)))
	conn := s.conn.(*connection)
	s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	s.notify("notifications/initialized", `{}`)
	u := func(method string) {
		s.send(5, method, `{"uri":"mcptest://text"}`)
		for {
			if answer, ok := s.read().(*jsonrpc.Response); ok {
				require.NoError(t, answer.Error)
				return
			}
		}
	}
	u("resources/subscribe")
	require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}}))
	u("resources/subscribe")
	until(t, func() bool { return conn.subscriptionCount.Load() == 1 })
	s.send(6, "tools/call", `{"name":"a__touch","arguments":{"uri":"mcptest://text"}}`)
	s.requireUpdated("mcptest://text")
	u("resources/unsubscribe")
	until(t, func() bool { return conn.subscriptionCount.Load() == 0 })
	require.False(t, conn.subscriptions.AreHeld())
	require.False(t, conn.tenant.Load().seatOf("a").subscriptions.AreHeld())
}
