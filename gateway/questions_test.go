package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

const (
	wantsText   = `{"message":"?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`
	wantsSample = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`
	wantsURL    = `{"mode":"url","message":"?","url":"https://example.org/login","elicitationId":"e1"}`
)

// answersAs are the options of a host that answers with its name.
func answersAs(name string) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: name, Role: "assistant", Content: &mcp.TextContent{Text: "hi"}}, nil
		},
	}
}

func legacyFixture(name string) mcpvisor.ServerSpec {
	spec := fixture(name, mcptest.Script{})
	spec.Era = mcpvisor.EraLegacy
	return spec
}

func consult(ctx context.Context, s *mcp.ClientSession, tool, method, params string) (*mcp.CallToolResult, error) {
	return s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"method": method, "params": json.RawMessage(params)}})
}

// onEveryAskingServer runs f with a server "a" of each transport and era.
func onEveryAskingServer(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		var opts []mcptest.HTTPOption
		if era == mcpvisor.EraModern {
			opts = append(opts, mcptest.WithStateless())
		}
		web := mcptest.NewHTTP(mcptest.Script{}, opts...)
		t.Cleanup(web.Close)
		for name, spec := range map[string]mcpvisor.ServerSpec{
			"memory": {InMemory: mcptest.InMemory(mcptest.Script{})},
			"stdio":  {Stdio: mcptest.Stdio(mcptest.Script{})},
			"HTTP":   {HTTP: &mcpvisor.HTTP{URL: web.URL}},
		} {
			spec.Name, spec.Era = "a", era
			t.Run(fmt.Sprintf("%s %s", name, era), func(t *testing.T) { f(t, spec) })
		}
	}
}

// A server's questions reach the client whose call it is, over each transport of both sides, for
// servers of both eras.
func TestQuestions(t *testing.T) {
	onEveryAskingServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newAskingClient(t, nil, spec)
		_, url := serveHTTP(t, c)
		for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			for _, name := range []string{"Transport", "Serve", "HTTP"} {
				var s *mcp.ClientSession
				tool := "mcp__a__consult"
				switch opts := answersAs(name); name {
				case "Transport":
					s = connect(t, Transport(c), version, opts)
				case "Serve":
					near, far := net.Pipe()
					go func() { _ = Serve(t.Context(), Transport(c), &mcp.IOTransport{Reader: near, Writer: near}) }()
					s = connect(t, &mcp.IOTransport{Reader: far, Writer: far}, version, opts)
				case "HTTP":
					tool = "a__consult"
					s = overHTTP(t, url, version, opts)
				}
				r, err := consult(t.Context(), s, tool, "elicitation/create", wantsText)
				require.Contains(t, text(t, r, err), `"name":"`+name+`"`, version)
				r, err = consult(t.Context(), s, tool, "sampling/createMessage", wantsSample)
				require.Contains(t, text(t, r, err), `"model":"`+name+`"`, version)
				r, err = consult(t.Context(), s, tool, "roots/list", `{}`)
				require.Contains(t, text(t, r, err), `"roots":[]`, version)
			}
		}
	})
}

// What a client has not declared is answered by the handlers of the client that is served, and what
// it has not declared in detail is refused.
func TestQuestions_not_declared(t *testing.T) {
	onEveryAskingServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		host := facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "the host"}}, nil
		})
		c := newAskingClient(t, []facade.Option{host}, spec)
		roots := connect(t, Transport(c), "2025-11-25", nil) // the go-sdk declares these
		r, err := consult(t.Context(), roots, "a/consult", "elicitation/create", wantsText)
		require.Contains(t, text(t, r, err), "the host")
		r, err = consult(t.Context(), roots, "a/consult", "roots/list", `{}`)
		require.Contains(t, text(t, r, err), `"roots":[]`)
		forms := connect(t, Transport(c), "2025-11-25", answersAs("ann"))
		r, err = consult(t.Context(), forms, "a/consult", "elicitation/create", wantsURL)
		if err == nil {
			require.NotContains(t, textOf(r), "accept")
			require.NotContains(t, textOf(r), "decline")
		}
		r, err = consult(t.Context(), forms, "a/consult", "elicitation/create", wantsText)
		require.Contains(t, text(t, r, err), "ann")
	})
}

// askingSession opens a session without the go-sdk that answers elicitations.
func askingSession(t *testing.T, c *facade.Client) raw {
	t.Helper()
	return askingSessionOf(t, Transport(c))
}

// askingSessionOf is askingSession of a transport.
func askingSessionOf(t *testing.T, transport mcp.Transport) raw {
	t.Helper()
	s := openRaw(t, transport)
	require.NoError(t, s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}`).Error)
	return s
}

const consultForText = `{"name":"a/consult","arguments":{"method":"elicitation/create","params":` + wantsText + `}}`

// A question ends with its call: when the client cancels that, and when the server dies. The client is
// told, and an answer that comes then is ignored.
func TestQuestions_end_with_the_call(t *testing.T) {
	onEveryAskingServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newAskingClient(t, nil, spec)
		s := askingSession(t, c)
		s.send(7, "tools/call", consultForText)
		asked := s.read().(*jsonrpc.Request)
		require.Equal(t, "elicitation/create", asked.Method)
		require.Contains(t, string(asked.Params), `"message":"?"`)
		s.notify("notifications/cancelled", `{"requestId":7}`)
		told := s.read().(*jsonrpc.Request)
		require.Equal(t, "notifications/cancelled", told.Method)
		require.JSONEq(t, fmt.Sprintf(`{"requestId":%d}`, asked.ID.Raw()), string(told.Params))
		until(t, func() bool { return len(c.CallsInFlight()) == 0 })
		require.NoError(t, s.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"decline"}`)}))

		s.send(8, "tools/call", consultForText)
		again := s.read().(*jsonrpc.Request)
		require.NotEqual(t, asked.ID, again.ID)
		require.NoError(t, c.Unregister(t.Context(), "a"))
		told = s.read().(*jsonrpc.Request)
		require.Equal(t, "notifications/cancelled", told.Method)
		require.JSONEq(t, fmt.Sprintf(`{"requestId":%d}`, again.ID.Raw()), string(told.Params))
		for {
			if answer, ok := s.read().(*jsonrpc.Response); ok {
				require.Equal(t, int64(8), answer.ID.Raw())
				require.Contains(t, string(answer.Result), `"isError":true`)
				return
			}
		}
	})
}

// A server cancels its question while the call continues: the client is told, and an answer that comes then is ignored.
func TestQuestions_canceled_by_the_server(t *testing.T) {
	var first json.RawMessage // the id of the call that asks
	calls := 0
	spec := mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "":
			if m.Result != nil {
				t.Errorf("the question that it has canceled is answered: %s", m.Result)
			}
		case "tools/call":
			switch calls++; calls {
			case 1:
				first = m.ID
				m.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, wantsText)
			case 2:
				m.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
			case 3:
				m.Send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, first)
			}
			return rawtest.None
		}
		return ""
	}, nil)}
	c := newAskingClient(t, nil, spec)
	s := askingSession(t, c)
	s.send(1, "tools/call", `{"name":"a/x"}`)
	asked := s.read().(*jsonrpc.Request)
	require.Equal(t, "elicitation/create", asked.Method)
	s.send(2, "tools/call", `{"name":"a/x"}`)
	told := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/cancelled", told.Method)
	require.JSONEq(t, fmt.Sprintf(`{"requestId":%d}`, asked.ID.Raw()), string(told.Params))
	require.Empty(t, s.conn.(*connection).session.questions.open)
	require.NoError(t, s.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"accept"}`)}))
	s.send(3, "tools/call", `{"name":"a/x"}`)
	answer := s.read().(*jsonrpc.Response)
	require.Equal(t, int64(1), answer.ID.Raw())
	require.Contains(t, string(answer.Result), "done")
}

func consultCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, strings.Replace(consultForText, "a/consult", "a__consult", 1))
}

// initializeWith is initialize with capabilities.
func (p *peer) initializeWith(version, capabilities string) {
	p.t.Helper()
	response := p.do(p.t.Context(), http.MethodPost, strings.Replace(initializeRequest(version), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	require.Equal(p.t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, `"`+version+`"`, memberOf(p.t, text, "result", "protocolVersion"))
	p.session = response.Header.Get(sessionHeader)
	require.NotEmpty(p.t, p.session)
}

// callStream sends a request that is answered with a stream.
func (p *peer) callStream(ctx context.Context, body string) events {
	p.t.Helper()
	response := p.do(ctx, http.MethodPost, body)
	require.Equal(p.t, "text/event-stream", response.Header.Get("Content-Type"))
	return events{p.t, bufio.NewReader(response.Body), nil}
}

// Only the client that was asked answers: the same id in another session, and of an unknown question,
// has no effect.
func TestQuestions_answer_of_another(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	_, url := serveHTTP(t, c)
	ann, eve := newPeer(t, url), newPeer(t, url)
	ann.initializeWith("2025-11-25", `{"elicitation":{}}`)
	eve.initializeWith("2025-11-25", `{"elicitation":{}}`)
	e := ann.callStream(t.Context(), consultCall(1))
	_, data, _ := e.next()
	id := memberOf(t, []byte(data), "id")
	answer := func(name string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"name":"` + name + `"}}}`
	}
	for _, body := range []string{answer("eve"), `{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":1}`} {
		status, _ := eve.post(body)
		require.Equal(t, http.StatusAccepted, status)
	}
	status, _ := ann.post(answer("ann"))
	require.Equal(t, http.StatusAccepted, status)
	_, data, _ = e.next()
	require.Contains(t, data, "ann")
	require.NotContains(t, data, "eve")
}

// An error of the client reaches the server as it is.
func TestQuestions_error_of_the_client(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	_, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	e := p.callStream(t.Context(), consultCall(1))
	_, data, _ := e.next()
	status, _ := p.post(`{"jsonrpc":"2.0","id":` + memberOf(t, []byte(data), "id") + `,"error":{"code":-1,"message":"rejected","data":{"a":1}}}`)
	require.Equal(t, http.StatusAccepted, status)
	_, data, _ = e.next()
	require.Contains(t, data, "rejected")
}

// Two calls of one client at a server on a pipe, which names neither: both are answered.
func TestQuestions_of_several_calls(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	s := askingSession(t, c)
	s.send(1, "tools/call", consultForText)
	first := s.read().(*jsonrpc.Request)
	s.send(2, "tools/call", consultForText)
	second := s.read().(*jsonrpc.Request)
	for i, asked := range []*jsonrpc.Request{second, first} {
		require.NoError(t, s.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{"name":"n%d"}}`, i))}))
		answer, ok := s.read().(*jsonrpc.Response)
		require.True(t, ok)
		require.Equal(t, int64(2-i), answer.ID.Raw())
		require.Contains(t, string(answer.Result), fmt.Sprintf("n%d", i))
	}
}

// Calls of two clients at a server on a pipe: a question that may belong to either is refused, and one
// that neither client answers is answered by the host.
func TestQuestions_of_an_unknown_call(t *testing.T) {
	host := facade.WithSamplingHandler(func(context.Context, facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Model: "the host", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	})
	c := newAskingClient(t, []facade.Option{host}, legacyFixture("a"))
	ann, bob := askingSession(t, c), askingSession(t, c)
	ann.send(1, "tools/call", consultForText)
	asked := ann.read().(*jsonrpc.Request)
	require.Contains(t, string(bob.call("tools/call", consultForText).Result), "several calls are in flight")
	sample := strings.NewReplacer("elicitation/create", "sampling/createMessage", wantsText, wantsSample).Replace(consultForText)
	require.Contains(t, string(bob.call("tools/call", sample).Result), "the host")
	require.NoError(t, ann.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"decline"}`)}))
	require.Contains(t, string(ann.read().(*jsonrpc.Response).Result), "decline")
}

// rootsServer asks for the roots when its session begins. What it is answered comes from answers.
func rootsServer(answers chan<- string) *mcpvisor.InMemory {
	return serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "":
			answers <- string(m.Result) + string(m.Error)
		case "notifications/initialized":
			m.Send(`{"jsonrpc":"2.0","id":"first","method":"roots/list"}`)
		}
		return ""
	}, nil)
}

// standaloneGateway is a gateway whose server asks outside of calls.
func standaloneGateway(t *testing.T) (c *facade.Client, g *gateway, answers chan string) {
	t.Helper()
	answers = make(chan string, 8)
	var questions StandaloneQuestions
	c = newAskingClient(t, []facade.Option{questions.Option()}, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: rootsServer(answers)})
	return c, Transport(c, WithStandaloneQuestions(&questions)).(*gateway), answers
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
	require.Equal(t, `{"roots":[]}`, receive(t, answers))
	require.NoError(t, c.Close(context.Background()))
}

// A server that only one client uses is told when the roots of that client have changed: behind a Transport with
// StandaloneQuestions, and each copy that was told that its client says so. Others are not told.
func TestRoots_changed(t *testing.T) {
	const tells, doesNot = `{"roots":{"listChanged":true}}`, `{"roots":{"listChanged":false}}`
	t.Run("standalone", func(t *testing.T) {
		a, questions := newAsker(), new(StandaloneQuestions)
		c := newClientWith(t, []facade.Option{questions.Option(), facade.WithDeclared(facade.Declared{Roots: true, RootsListChanged: true})}, a.spec())
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
		_, url := serveHTTP(t, c, withShare(ShareClient, "a"))
		transport := Transport(c, WithNames(Names{}), withShare(ShareClient, "a"))
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
