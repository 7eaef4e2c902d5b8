package gateway

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// catalogServer lists the resources x:open and x:closed, and tells what is no longer subscribed to.
func catalogServer(ended chan<- string) *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		switch m.Method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"raw","version":"1"}}`, nil
		case "resources/list":
			return `"result":{"resources":[{"name":"open","uri":"x:open"},{"name":"closed","uri":"x:closed"}]}`, nil
		case "resources/templates/list":
			return `"result":{"resourceTemplates":[]}`, nil
		case "resources/unsubscribe":
			var params struct{ URI string }
			_ = json.Unmarshal(m.Params, &params)
			ended <- params.URI
		}
		return "", nil
	})
}

// When a reload hides a resource, or its server, the subscriptions to it end, also at the server, and no event
// reports it as updated. When it is offered again, it can be subscribed to again.
func TestProfile_reload_ends_subscriptions(t *testing.T) {
	for name, hides := range map[string]Profile{
		"resource": {Resources: Filter{Deny: []string{"x:closed"}}},
		"server":   {Servers: Filter{Deny: []string{"hidden"}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBothEras(t, func(t *testing.T, version string) {
				ended := make(chan string, 10)
				c := newClient(t, mcpvisor.ServerSpec{Name: "hidden", InMemory: catalogServer(ended)}, mcpvisor.ServerSpec{Name: "other", InMemory: catalogServer(ended)})
				v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
				transport := Transport(c, WithSettings(v), WithProfile("p"))
				const closed, open = "mcpvisor://hidden/x:closed", "mcpvisor://other/x:open"
				a, b := subscribed(t, transport, version, closed), subscribed(t, transport, version, open)
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
				require.Equal(t, "x:closed", receive(t, ended))
				until(t, func() bool { return a.conn.(*connection).subscriptionCount.Load() == 0 })

				transport.(*gateway).hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed})
				b.requireUpdate(open)
				for m := a.conn.(*connection).out.notify.Next(); m != nil; m = a.conn.(*connection).out.notify.Next() {
					require.Contains(t, m.(*jsonrpc.Request).Method, "list_changed")
				}
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				again := subscribed(t, transport, version, closed)
				transport.(*gateway).hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed})
				until(t, func() bool {
					m, ok := again.conn.(*connection).out.notify.Next().(*jsonrpc.Request)
					return ok && m.Method == "notifications/resources/updated"
				})
			})
		})
	}
}

// A subscription that a reload ends while it is being made does not stay.
func TestProfile_reload_during_a_subscription(t *testing.T) {
	ended := make(chan string, 10)
	c := newClient(t, mcpvisor.ServerSpec{Name: "hidden", InMemory: catalogServer(ended)})
	v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
	transport := Transport(c, WithSettings(v), WithProfile("p"))
	conn := openRaw(t, transport).conn.(*connection)
	found, err := conn.findResource(t.Context(), "x:closed")
	require.NoError(t, err)
	s, err := conn.holdSubscription(conn.notify, found)
	require.NoError(t, err)
	require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {Resources: Filter{Deny: []string{"*"}}}}}))
	until(t, func() bool { return conn.subscriptionCount.Load() == 0 })
	require.True(t, conn.notify.Subscribe(s, "x:closed"))
	require.NoError(t, conn.subscribeNow(t.Context(), s))
	conn.dropReleased(s)
	require.Zero(t, conn.notify.Count().Subscriptions)
	until(t, nothingHeld(transport))
	require.Equal(t, "x:closed", receive(t, ended))

	_, err = conn.holdSubscription(conn.notify, found)
	require.ErrorContains(t, err, "no server has the resource")
	require.Zero(t, conn.subscriptionCount.Load())
}

// A held call that a reload has given another name continues; one that a reload has hidden is canceled at its server,
// and the client is told that it may have had an effect.
func TestProfile_reload_during_a_held_call(t *testing.T) {
	hides := func(p Profile) Settings { return Settings{Profiles: map[string]Profile{"p": p}} }
	for name, test := range map[string]struct {
		method, target, params string
		to                     Settings
		canceled               bool
	}{
		"renamed":         {"tools/call", "a__x", `"name":"a__x"`, Settings{Names: &Names{Prefix: PrefixNever}, Profiles: map[string]Profile{"p": {}}}, false},
		"other tool":      {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Tools: Filter{Deny: []string{"y"}}}), false},
		"hidden tool":     {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Tools: Filter{Deny: []string{"x"}}}), true},
		"hidden server":   {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Servers: Filter{Deny: []string{"a"}}}), true},
		"hidden prompt":   {"prompts/get", "a__x", `"name":"a__x"`, hides(Profile{Prompts: Filter{Deny: []string{"x"}}}), true},
		"hidden resource": {"resources/read", "x:y", `"uri":"x:y"`, hides(Profile{Resources: Filter{Deny: []string{"*"}}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan time.Time, 10)
			c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told)})
			v := newSettings(t, hides(Profile{}))
			s, url := serveHTTP(t, c, WithSettings(v), WithProfile("p"))
			ann := newPeer(t, url).modernCaller()
			result, failure := ann(test.method, test.target, `{`+test.params+`,`+modernMeta+`}`)
			require.Empty(t, failure)
			state, keys := required(t, result)
			require.NoError(t, v.Set(test.to))
			result, failure = ann(test.method, test.target, `{`+test.params+`,`+modernMeta+roundOf(state, `{"`+keys[0]+`":{"action":"accept","content":{}}}`)+`}`)
			if !test.canceled {
				require.Empty(t, failure)
				require.Contains(t, result, "accept")
			} else {
				require.Contains(t, failure, "may have had an effect")
				receive(t, told)
			}
			requireNothingHeld(t, s.gateway)
		})
	}
}
