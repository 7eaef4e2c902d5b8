package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
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

// The subscription of a host moves to the second process of a server when that appears, and back when it ends: it
// counts as updated then, is counted once, and hears of its own process only, once for each change.
func TestLegacy_subscriptions_move(t *testing.T) {
	const uri = "mcptest://text"
	spec := mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{}), Era: mcpvisor.EraModern, Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
	c := newClient(t, spec)
	var settings SettingsVar
	in := Transport(c, WithNames(Names{}), WithSettings(&settings), WithMaxWait(patience))
	s, other := openRaw(t, in), openRaw(t, in)
	s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}`)
	s.notify("notifications/initialized", `{}`)
	require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
	other.send(7, "subscriptions/listen", withModernMeta(`{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`))
	require.Contains(t, string(other.read().(*jsonrpc.Request).Params), uri)
	conn, first := s.conn.(*connection), resource.Name{Server: "a", URI: uri}
	id := 100.0
	// touch changes the resource of the process that a session uses, and waits until the session hears of it.
	touch := func(by raw) {
		id++
		params := `{"name":"a__touch","arguments":{"uri":"` + uri + `"}}`
		if by == other {
			params = withModernMeta(params)
		}
		by.send(id, "tools/call", params)
		by.requireUpdated(uri)
	}
	// updates takes all that a session can read now, and returns how many updates that are.
	updates := func(of raw) (n int) {
		for {
			m, err := of.conn.(*connection).poll()
			if require.NoError(t, err); m == nil {
				return n
			}
			if m, ok := m.(*jsonrpc.Request); ok && m.Method == "notifications/resources/updated" {
				n++
			}
		}
	}
	touch(s)
	for range 2 {
		for _, era := range []mcpvisor.Era{mcpvisor.EraAuto, mcpvisor.EraModern} {
			spec.Era = era
			require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
			s.requireUpdated(uri)
			apart := era == mcpvisor.EraAuto
			until(t, func() bool { return conn.legacyTenant.Load() != nil })
			own := conn.legacyTenant.Load()
			seat := own.seatOf("a").subscriptions
			until(t, func() bool { return seat.AreHeld() == apart && (len(own.names()) == 1) == apart })
			until(t, func() bool { return conn.subscriptions.Sessions(first) == 1+map[bool]int{false: 1}[apart] })
			require.EqualValues(t, 2, conn.subscriptionCount.Load()+other.conn.(*connection).subscriptionCount.Load())
			touch(s)
			until(t, func() bool { // of the move and of touch s may hear later
				updates(s)
				updates(other)
				touch(other)
				conn.hub.mu.Lock() // it has told all sessions
				defer conn.hub.mu.Unlock()
				return updates(s) == map[bool]int{false: 1}[apart]
			})
		}
	}
}
