package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// urlServer answers a call of x by what its argument "do" says: "ask" asks for an interaction with the id of "text" and
// waits for the answer, "require" fails with -32042, and "end" says that it has ended.
func urlServer() *mcpvisor.InMemory {
	var asked *rawtest.Message
	return serveRaw(func(m *rawtest.Message) string {
		if m.Method == "" {
			asked.Reply(`"result":{"content":[]}`)
		}
		if m.Method != "tools/call" {
			return ""
		}
		var call struct{ Arguments struct{ Do, Text string } }
		_ = json.Unmarshal(m.Params, &call)
		id := call.Arguments.Text
		interaction := fmt.Sprintf(`{"mode":"url","message":"?","url":"https://example.org","elicitationId":%q}`, id)
		switch call.Arguments.Do {
		case "ask":
			asked = m
			m.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, interaction)
			return rawtest.None
		case "require":
			return `"error":{"code":-32042,"message":"visit","data":{"elicitations":[` + interaction + `]}}`
		}
		m.Send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q}}`, id)
		return `"result":{"content":[]}`
	}, nil)
}

func newURLClient(t *testing.T) *facade.Client {
	t.Helper()
	var specs []mcpvisor.ServerSpec
	for _, name := range []string{"a", "b"} {
		specs = append(specs, mcpvisor.ServerSpec{Name: name, Era: mcpvisor.EraLegacy, InMemory: urlServer()})
	}
	return newAskingClient(t, nil, specs...)
}

// urlSession opens a session that visits URLs.
func urlSession(t *testing.T, g *gateway) raw {
	t.Helper()
	s := openRaw(t, g)
	s.initializeWith(`{"elicitation":{"url":{}}}`)
	return s
}

func doURL(server, do, id string) string {
	return fmt.Sprintf(`{"name":"%s/x","arguments":{"do":%q,"text":%q}}`, server, do, id)
}

// ask lets a server ask for an interaction, and returns the id that the client gets.
func (r raw) ask(server, id string) (shown string) {
	r.t.Helper()
	r.send(1, "tools/call", doURL(server, "ask", id))
	asked := r.read().(*jsonrpc.Request)
	require.NoError(r.t, json.Unmarshal([]byte(memberOf(r.t, asked.Params, "elicitationId")), &shown))
	require.NoError(r.t, r.conn.Write(r.t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"accept"}`)}))
	require.NoError(r.t, r.read().(*jsonrpc.Response).Error)
	return shown
}

// requireElicited requires that the next message says that an interaction has ended.
func (r raw) requireElicited(id string) {
	r.t.Helper()
	told := r.read().(*jsonrpc.Request)
	require.Equal(r.t, "notifications/elicitation/complete", told.Method)
	require.JSONEq(r.t, fmt.Sprintf(`{"elicitationId":%q}`, id), string(told.Params))
}

// end lets a server say that an interaction has ended.
func end(t *testing.T, c *facade.Client, server, id string) {
	t.Helper()
	_, err := c.CallTool(t.Context(), server+"/x", map[string]any{"do": "end", "text": id})
	require.NoError(t, err)
}

// requireWaitedFor requires that the end of so many interactions is waited for.
func requireWaitedFor(t *testing.T, s *elicited.Store, n int) {
	t.Helper()
	open, _ := s.Len()
	require.Equal(t, n, open)
}

// requireIdle requires that nothing waits for a session.
func (r raw) requireIdle() {
	r.t.Helper()
	require.NoError(r.t, r.callWith(9, "ping", "").Error)
}

// The end of an interaction is told the client that was asked for it, once, and no other one.
func TestElicitations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newURLClient(t)
		g := Transport(c).(*gateway)
		ann, eve := urlSession(t, g), urlSession(t, g)
		require.Equal(t, "e1", ann.ask("a", "e1"))
		end(t, c, "b", "e1") // of another server
		end(t, c, "a", "e2") // never asked
		synctest.Wait()
		ann.requireIdle()
		end(t, c, "a", "e1")
		synctest.Wait()
		ann.requireElicited("e1")
		eve.requireIdle()
		end(t, c, "a", "e1")
		synctest.Wait()
		ann.requireIdle()

		require.Equal(t, int64(-32042), ann.call("tools/call", doURL("a", "require", "e3")).Error.(*jsonrpc.Error).Code)
		end(t, c, "a", "e3")
		synctest.Wait()
		ann.requireElicited("e3")
		eve.requireIdle()
		requireWaitedFor(t, g.elicitations, 0)
		_, followed := g.elicitations.Len()
		require.Zero(t, followed)
	})
}

// Two servers may use one id: the client gets different ones.
func TestElicitations_of_two_servers_with_one_id(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newURLClient(t)
		s := urlSession(t, Transport(c).(*gateway))
		require.Equal(t, "e1", s.ask("a", "e1"))
		other := s.ask("b", "e1")
		require.NotEqual(t, "e1", other)
		require.Equal(t, other, s.ask("b", "e1"), "the same interaction")
		end(t, c, "b", "e1")
		synctest.Wait()
		s.requireElicited(other)
		end(t, c, "a", "e1")
		synctest.Wait()
		s.requireElicited("e1")
	})
}

// The ids of a copy are its own: another client learns nothing of them, and may have the same.
func TestElicitations_of_copies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := newSettings(t, Settings{ShareOf: map[string]Share{"a": ShareClient}})
		c := newURLClient(t)
		g := Transport(c, WithSettings(settings)).(*gateway)
		ann, bob := urlSession(t, g), urlSession(t, g)
		require.Equal(t, "e1", ann.ask("a", "e1"))
		require.NoError(t, bob.call("tools/call", doURL("a", "end", "e1")).Error)
		end(t, c, "a", "e1") // of the server that is registered
		synctest.Wait()
		ann.requireIdle()
		bob.requireIdle()
		require.Equal(t, "e1", bob.ask("a", "e1"))
		for _, s := range []raw{ann, bob} {
			copied, err := s.conn.(*connection).session.tenancy.clientOf("a")
			require.NoError(t, err)
			end(t, copied, "a", "e1")
			synctest.Wait()
			s.requireElicited("e1")
		}
		ann.requireIdle()
		bob.requireIdle()
		requireWaitedFor(t, g.elicitations, 0)
	})
}

// Gateways with the same settings know the ids of each other. The end of one leaves those of the others.
func TestElicitations_of_two_gateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
		c := newURLClient(t)
		h := Handler(c, WithSettings(settings))
		ofProfile, status, _ := h.gatewayFor("p", "")
		require.Zero(t, status)
		ann, eve := urlSession(t, Transport(c, WithSettings(settings)).(*gateway)), urlSession(t, ofProfile)
		ann.ask("a", "e1")
		eve.ask("a", "e1")
		end(t, c, "a", "e1")
		synctest.Wait()
		ann.requireIdle()
		eve.requireIdle()

		ann.ask("a", "e2")
		eve.ask("a", "e3")
		h.Close()
		requireWaitedFor(t, &settings.elicitations, 1)
		end(t, c, "a", "e2")
		synctest.Wait()
		ann.requireElicited("e2")
	})
}

func beginURL(s raw, id string) {
	c := s.conn.(*connection)
	c.session.gateway.elicitations.Begin(c.session.elicitedSession(), "a", json.RawMessage(`{"mode":"url","elicitationId":"`+id+`"}`), nil)
}

// What is waited for is bounded in number, length and time, and by the session.
func TestElicitations_bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newURLClient(t)
		g := Transport(c).(*gateway)
		s := urlSession(t, g)
		for i := range elicited.MaxOfSession + 1 {
			beginURL(s, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		requireWaitedFor(t, g.elicitations, elicited.MaxOfSession)
		end(t, c, "a", "0") // the oldest
		synctest.Wait()
		s.requireIdle()
		end(t, c, "a", "1")
		synctest.Wait()
		s.requireElicited("1")
		time.Sleep(elicited.WaitTime)
		end(t, c, "a", "2")
		synctest.Wait()
		s.requireIdle()
		beginURL(s, fmt.Sprintf("%0*d", elicited.MaxIDBytes+1, 1))
		beginURL(s, "new")
		requireWaitedFor(t, g.elicitations, 1)
		require.NoError(t, s.conn.Close())
		synctest.Wait()
		requireWaitedFor(t, g.elicitations, 0)
		_, followed := g.elicitations.Len()
		require.Zero(t, followed)
	})
}

// Whatever others have, a session has a place; it takes that of one that has the most.
func TestElicitations_bound_is_shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newURLClient(t)
		g := Transport(c).(*gateway)
		ann := urlSession(t, g)
		ann.ask("a", "first")
		var first raw
		for n := 1; n < elicited.MaxOpen; {
			eve := urlSession(t, g)
			if first.conn == nil {
				first = eve
			}
			for i := 0; i < elicited.MaxOfSession && n < elicited.MaxOpen; i++ {
				time.Sleep(time.Millisecond)
				beginURL(eve, fmt.Sprint(n))
				n++
			}
		}
		requireWaitedFor(t, g.elicitations, elicited.MaxOpen)
		ann.ask("a", "last")
		requireWaitedFor(t, g.elicitations, elicited.MaxOpen)
		for _, id := range []string{"first", "last"} {
			end(t, c, "a", id)
			synctest.Wait()
			ann.requireElicited(id)
		}
		end(t, c, "a", "1")
		synctest.Wait()
		first.requireIdle()
	})
}

// What a session could not be asked takes no place.
func TestElicitations_not_asked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Transport(newURLClient(t)).(*gateway)
		s := urlSession(t, g)
		conn := s.conn.(*connection)
		other := relay.ServerRequest{Server: "a", Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","elicitationId":"e2"}`)}
		_, err := conn.session.questions.ask(t.Context(), other)
		require.ErrorIs(t, err, message.ErrNotAsked)
		requireWaitedFor(t, g.elicitations, 0)
		s.send(1, "tools/call", doURL("a", "ask", "e1"))
		s.read() // the question; the call is in flight
		conn.exchange.out.close()
		_, err = conn.session.questions.ask(t.Context(), other)
		require.ErrorIs(t, err, errNotRead)
		requireWaitedFor(t, g.elicitations, 1)
	})
}

// Over HTTP it comes on the stream of the session, also if that has begun after the call, and in no other session.
func TestElicitations_over_HTTP(t *testing.T) {
	c := newURLClient(t)
	s, url := serveHTTP(t, c)
	ann, eve := newPeer(t, url), newPeer(t, url)
	for _, p := range []*peer{ann, eve} {
		p.initializeWith("2025-11-25", `{"elicitation":{"url":{}}}`)
	}
	status, answer := ann.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + doURL("a", "require", "e1") + `}`)
	require.Equal(t, 200, status, answer)
	until(t, func() bool { return s.Status().Sessions == 0 })
	streams := []events{ann.listen(), eve.listen()}
	for _, stream := range streams { // which follow when they have begun
		_, _, ok := stream.next()
		require.True(t, ok)
	}
	end(t, c, "a", "e1")
	_, data, ok := streams[0].next()
	require.True(t, ok)
	require.Contains(t, data, `{"elicitationId":"e1"}`)
	s.Close()
	for {
		_, data, ok := streams[1].next()
		if !ok {
			return
		}
		require.NotContains(t, data, "e1")
	}
}

// A session over HTTP keeps its places without a connection, until DELETE.
func TestElicitations_end_with_DELETE(t *testing.T) {
	c := newURLClient(t)
	s, url := serveHTTP(t, c)
	ann, eve := newPeer(t, url), newPeer(t, url)
	for i, p := range []*peer{ann, eve} {
		p.initializeWith("2025-11-25", `{"elicitation":{"url":{}}}`)
		status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + doURL("a", "require", fmt.Sprint(i)) + `}`)
		require.Equal(t, 200, status, answer)
	}
	until(t, func() bool { return s.Status().Sessions == 0 })
	requireWaitedFor(t, s.gateway.elicitations, 2)
	require.Equal(t, http.StatusNoContent, ann.do(t.Context(), http.MethodDelete, "").StatusCode)
	requireWaitedFor(t, s.gateway.elicitations, 1)
}
