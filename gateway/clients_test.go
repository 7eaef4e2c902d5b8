package gateway

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Clients of both eras and of every transport are counted, with what they say of themselves, and the
// records of their calls name them.
func TestClients(t *testing.T) {
	c := newClient(t, fixture("s", mcptest.Script{}))
	registry := clients.New()
	server, url := serveHTTP(t, c, WithClients(registry))
	inBothEras(t, func(t *testing.T, version string) {
		for _, transport := range []string{"http", "memory"} {
			var s *mcp.ClientSession
			if transport == "http" {
				s = overHTTP(t, url, version, nil)
			} else {
				s = connect(t, Transport(c, WithClients(registry)), version, nil)
			}
			_, err := s.ListTools(t.Context(), nil)
			require.NoError(t, err)
			name := "s__echo"
			if transport == "memory" {
				name = "mcp__s__echo"
			}
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": "x"}})
			require.Equal(t, "x", text(t, r, err))
			calls, _ := c.History().Calls(0)
			require.Equal(t, "host 1", calls[len(calls)-1].Client)
			until(t, func() bool {
				for _, one := range registry.Status().Sessions {
					if one.Transport == transport && one.Protocol == version && one.Name == "host" && one.Version == "1" && one.Calls == 1 && one.InFlight == 0 && one.Requests >= 2 {
						return true
					}
				}
				return false
			})
		}
	})
	status := server.Status().Clients
	require.GreaterOrEqual(t, status.Requests[clients.OutcomeAnswered], int64(8))
	require.Equal(t, []clients.Offer{{Servers: []string{"s"}, Tools: len(mcptest.DefaultTools()), Prompts: status.Offers[0].Prompts, Resources: status.Offers[0].Resources, Templates: status.Offers[0].Templates}}, status.Offers)
}

// How requests end, and why others are refused.
func TestClients_outcomes(t *testing.T) {
	var named atomic.Int64
	c := newClientWith(t, []facade.Option{facade.WithEndedCalls(func(e monitor.EndedCall) {
		if e.Principal == "ci" && e.Client == "peer 1" {
			named.Add(1)
		}
	}, false)}, fixture("s", mcptest.Script{}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "gone", InMemory: mcptest.InMemory(mcptest.Script{})}))
	token := NewToken()
	server, url := serveHTTP(t, c, WithMaxWait(-1), WithTokens(Token{Principal: "ci", SHA256: HashToken(token)}))
	p := newPeer(t, url)
	p.post(initializeRequest("2025-11-25")) // without a token
	p.header.Set("Authorization", "Bearer "+token)
	p.initialize("2025-11-25")
	p.post(toolCallOf(1, "s__echo", `{"text":"x"}`))
	p.post(toolCallOf(2, "s__crash", `{"code":1}`))
	p.post(toolCallOf(3, "s__nothing", `{}`))
	p.post(`{`)
	p.post(toolCallOf(4, "s__echo", `{"text":"x"}`), sessionHeader, "forged")
	until(t, func() bool { return server.Status().Clients.InFlight == 0 })
	status := server.Status().Clients
	require.Equal(t, map[clients.Outcome]int64{clients.OutcomeAnswered: 2, clients.OutcomeFailed: 1, clients.OutcomeError: 1, clients.OutcomeCanceled: 0}, status.Requests)
	require.Equal(t, map[clients.Refusal]int64{clients.RefusedToken: 1, clients.RefusedMalformed: 1, clients.RefusedSession: 1, clients.RefusedLimit: 0, clients.RefusedHost: 0}, status.Refused)
	require.Equal(t, int64(2), named.Load(), "each ended call names its principal")
	require.Len(t, status.Sessions, 1)
	one := status.Sessions[0]
	require.Equal(t, clients.Info{Name: "peer", Version: "1", Protocol: "2025-11-25", Principal: "ci", Transport: "http"}, one.Info)
	require.EqualValues(t, 4, one.Requests)
	require.EqualValues(t, 3, one.Calls)
	require.EqualValues(t, 2, one.Failed)
	require.Nil(t, one.Ended)
	require.Equal(t, http.StatusNoContent, p.do(t.Context(), http.MethodDelete, "").StatusCode)
	require.NotNil(t, server.Status().Clients.Sessions[0].Ended)
}

// A stream, and a session that continues after the gateway was started again.
func TestClients_streams_and_sessions_of_before(t *testing.T) {
	c := newClient(t, fixture("s", mcptest.Script{}))
	key := make([]byte, 32)
	_, url := serveHTTP(t, c, WithSessionKey(key))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	server, url := serveHTTP(t, c, WithSessionKey(key))
	p.url = url
	p.listen()
	until(t, func() bool { return server.Status().Clients.Streams == 1 })
	one := server.Status().Clients.Sessions[0]
	require.Equal(t, 1, one.Streams)
	require.Equal(t, "2025-11-25", one.Protocol)
	require.Equal(t, "peer 1", one.Name+" "+one.Version, "the id of the session has it")
}

// What a client of a profile can see is that of the profile.
func TestClients_profiles(t *testing.T) {
	c := newClient(t, fixture("s", mcptest.Script{}), fixture("other", mcptest.Script{}))
	reader := NewToken()
	settings := newSettings(t, Settings{Profiles: map[string]Profile{"read": {Servers: Filter{Allow: []string{"s"}}, Tools: Filter{Allow: []string{"echo"}}}}})
	server, url := serveHTTP(t, c, WithSettings(settings), WithTokens(Token{Principal: "reader", Profile: "read", SHA256: HashToken(reader)}, Token{Principal: "ghost", Profile: "gone", SHA256: HashToken("ghost")}))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer "+reader)
	p.initialize("2025-11-25")
	status := server.Status().Clients
	require.Equal(t, "read", status.Sessions[0].Profile)
	require.Len(t, status.Offers, 2)
	require.Equal(t, []string{"other", "s"}, status.Offers[0].Servers)
	require.Equal(t, "read", status.Offers[1].Profile)
	require.Equal(t, []string{"s"}, status.Offers[1].Servers)
	require.Equal(t, 1, status.Offers[1].Tools)
	p.header.Set("Authorization", "Bearer ghost")
	p.session = ""
	code, _ := p.post(initializeRequest("2025-11-25"))
	require.Equal(t, http.StatusForbidden, code)
	require.EqualValues(t, 1, server.Status().Clients.Refused[clients.RefusedToken])
}

// The tasks of a client are counted, with server, tool and state, and without their ids.
func TestClients_tasks(t *testing.T) {
	c := newClient(t, jobServer("2025-11-25", mcptest.TaskDef{Takes: time.Hour}))
	registry := clients.New()
	_, url := serveHTTP(t, c, WithClients(registry))
	p := follower(t, url, true)
	tasks := func() (n int, open []clients.TaskStatus) {
		for _, s := range registry.Status().Sessions {
			n += s.Tasks
			open = append(open, s.OpenTasks...)
		}
		return n, open
	}
	ids := []string{p.begin("one"), p.begin("two")}
	n, open := tasks()
	require.Equal(t, 2, n)
	for _, one := range open {
		require.Equal(t, clients.TaskStatus{Server: "s", Tool: "job", State: "working", Since: one.Since}, one)
	}
	shown, err := json.Marshal(registry.Status())
	require.NoError(t, err)
	for _, id := range ids {
		require.NotContains(t, string(shown), id)
	}
	require.Nil(t, p.ask("tasks/cancel", about(ids[0])).Error)
	p.get(ids[0])
	n, _ = tasks()
	require.Equal(t, 1, n)
	require.NoError(t, c.Unregister(t.Context(), "s"))
	require.NotNil(t, p.ask("tasks/get", about(ids[1])).Error)
	n, open = tasks()
	require.Zero(t, n)
	require.Empty(t, open)
}
