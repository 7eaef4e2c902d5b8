package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// rootsServer asks for the roots when its session begins. What it is answered comes from answers.
func rootsServer(answers chan<- string) *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, send func(string, ...any)) (string, error) {
		switch m.Method {
		case "":
			if m.Result == nil {
				m.Result = json.RawMessage(m.Error.Message)
			}
			answers <- string(m.Result)
		case "notifications/initialized":
			send(`{"jsonrpc":"2.0","id":"first","method":"roots/list"}`)
		}
		return "", nil
	})
}

// standaloneGateway is a gateway whose server asks outside of calls.
func standaloneGateway(t *testing.T) (c *facade.Client, g *gateway, answers chan string) {
	t.Helper()
	answers = make(chan string, 8)
	var questions StandaloneQuestions
	c = newAskingClient(t, []facade.Option{questions.Option()}, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: rootsServer(answers)})
	return c, Transport(c, WithStandaloneQuestions(&questions)).(*gateway), answers
}

func (r raw) initializeWith(capabilities string) {
	r.t.Helper()
	require.NoError(r.t, r.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"x","version":"1"}}`).Error)
	r.notify("notifications/initialized", "")
}

// answerNext answers the next question.
func (r raw) answerNext(method, result string) {
	r.t.Helper()
	asked := r.read().(*jsonrpc.Request)
	require.Equal(r.t, method, asked.Method)
	require.NoError(r.t, r.conn.Write(r.t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(result)}))
}

// A question that no call has caused waits for the one client, and its answer reaches the server as it is. That also
// holds for a server that starts again.
func TestStandaloneQuestions(t *testing.T) {
	c, g, answers := standaloneGateway(t)
	s := openRaw(t, g)
	require.Empty(t, answers)
	s.initializeWith(`{"roots":{}}`)
	const roots = `{"roots":[{"uri":"file:///x"}],"x":1.0}`
	s.answerNext("roots/list", roots)
	require.Equal(t, roots, receive(t, answers))

	require.NoError(t, c.Restart(t.Context(), "a"))
	s.answerNext("roots/list", `{"roots":[]}`)
	require.Equal(t, `{"roots":[]}`, receive(t, answers))
}

func TestStandaloneQuestions_refused(t *testing.T) {
	const undeclared, modern = "has not declared that it answers roots/list", "speaks 2026-07-28"
	for name, test := range map[string]struct {
		why  string
		open func(t *testing.T, g *gateway)
	}{
		"several clients": {"several clients are connected", func(t *testing.T, g *gateway) {
			one, two := openRaw(t, g), openRaw(t, g)
			one.initializeWith(`{"roots":{}}`)
			two.initializeWith(`{"roots":{}}`)
		}},
		"a client that declares nothing": {undeclared, func(t *testing.T, g *gateway) { openRaw(t, g).initializeWith(`{}`) }},
		"a client that declares something else": {undeclared, func(t *testing.T, g *gateway) {
			openRaw(t, g).initializeWith(`{"sampling":{}}`)
		}},
		"a client of 2026-07-28 that discovers": {modern, func(t *testing.T, g *gateway) {
			require.NoError(t, openRaw(t, g).call("server/discover", `{`+modernMeta+`}`).Error)
		}},
		"a client of 2026-07-28 that calls": {modern, func(t *testing.T, g *gateway) {
			openRaw(t, g).call("tools/call", `{"name":"a/x",`+modernMeta+`}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, g, answers := standaloneGateway(t)
			test.open(t, g)
			require.Contains(t, receive(t, answers), test.why)
		})
	}
}

// A client that leaves is not asked any longer, and the next one may be.
func TestStandaloneQuestions_client_leaves(t *testing.T) {
	c, g, answers := standaloneGateway(t)
	first := openRaw(t, g)
	first.initializeWith(`{"roots":{}}`)
	require.Equal(t, "roots/list", first.read().(*jsonrpc.Request).Method)
	require.NoError(t, first.conn.Close())
	require.Contains(t, receive(t, answers), "has ended", "its question ends with it")
	require.NoError(t, c.Restart(t.Context(), "a"))
	second := openRaw(t, g)
	second.initializeWith(`{"roots":{}}`)
	second.answerNext("roots/list", `{"roots":[]}`)
	require.Equal(t, `{"roots":[]}`, receive(t, answers))
}

// Without it no client is asked outside of a call.
func TestStandaloneQuestions_not_wanted(t *testing.T) {
	answers := make(chan string, 1)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: rootsServer(answers)})
	openRaw(t, Transport(c)).initializeWith(`{"roots":{}}`)
	require.Contains(t, receive(t, answers), "no client was asked")
	require.NoError(t, c.Close(context.Background()))
}

// A server that only one client uses is told when the roots of that client have changed: behind a Transport with
// StandaloneQuestions, and each copy that was told that its client says so. Others are not told.
func TestRoots_changed(t *testing.T) {
	const tells, doesNot = `{"roots":{"listChanged":true}}`, `{"roots":{"listChanged":false}}`
	t.Run("standalone", func(t *testing.T) {
		a, questions := newAsker(), new(StandaloneQuestions)
		c, err := facade.New(questions.Option(), facade.WithDeclared(facade.Declared{Roots: true, RootsListChanged: true}))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
		require.NoError(t, c.Register(t.Context(), a.spec()))
		require.Contains(t, receive(t, a.declared), `"roots":{"listChanged":true}`)
		s := openRaw(t, Transport(c, WithStandaloneQuestions(questions)))
		s.initializeWith(tells)
		s.notify("notifications/roots/list_changed", "")
		require.Equal(t, 1, receive(t, a.changed))
	})
	t.Run("copies", func(t *testing.T) {
		a := newAsker()
		c := newAskingClient(t, nil, a.spec())
		require.NotContains(t, receive(t, a.declared), "listChanged")
		_, url := serveHTTP(t, c, WithShare(ShareClient, "a"))
		transport := Transport(c, WithNames(Names{}), WithShare(ShareClient, "a"))
		open := func(capabilities string) (raw, int) {
			s := openRaw(t, transport)
			s.initializeWith(capabilities)
			n := incarnationOf(t, s.user(false))
			require.Equal(t, capabilities == tells, strings.Contains(receive(t, a.declared), `"listChanged":true`))
			return s, n
		}
		silent, _ := open(doesNot)
		told, n := open(tells)
		silent.notify("notifications/roots/list_changed", "")
		told.notify("notifications/roots/list_changed", "")
		require.Equal(t, n, receive(t, a.changed))

		p := newPeer(t, url)
		p.initializeWith("2025-06-18", tells)
		n = incarnationOf(t, p.user(false))
		status, _ := p.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, n, receive(t, a.changed))
		require.Empty(t, a.changed)
		p.do(t.Context(), http.MethodDelete, "")
	})
}
