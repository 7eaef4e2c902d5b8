package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// What goes wrong with a server is failure to the model; mistakes are JSON-RPC errors.
func TestCallTool_errors(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		fragile := fixture("a", mcptest.Script{})
		fragile.Policy = supervisor.Retry(1, time.Hour)
		c := newClient(t, fragile, mcpvisor.ServerSpec{Name: "raw", InMemory: rawServer(`"error":{"code":-32042,"message":"visit the URL","data":{"a":1}}`)})
		s := connect(t, Transport(c, WithMaxWait(-1)), version, nil)
		wire := func(name string, args any) *jsonrpc.Error {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
			var e *jsonrpc.Error
			require.ErrorAs(t, err, &e)
			return e
		}
		e := wire("mcp__a__ecko", nil)
		require.EqualValues(t, jsonrpc.CodeInvalidParams, e.Code)
		require.Contains(t, e.Message, "did you mean mcp__a__echo")
		require.JSONEq(t, `"unknown_tool"`, member(t, e.Data, "code"))
		require.EqualValues(t, jsonrpc.CodeInvalidParams, wire("z/x", nil).Code)
		e = wire("a/echo", []int{1})
		require.EqualValues(t, jsonrpc.CodeInvalidParams, e.Code)
		require.Contains(t, e.Message, "are not an object")
		e = wire("raw/x", nil)
		require.EqualValues(t, -32042, e.Code)
		require.Equal(t, "visit the URL", e.Message)
		require.JSONEq(t, `{"a":1}`, string(e.Data))

		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "a/crash"})
		failure := modelError(t, r, err)
		require.Equal(t, "crashed", failure.Code)
		require.False(t, failure.Retryable)
		require.Contains(t, failure.Message, "Whether it had an effect is not known; check before you repeat it.")
		r, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "a/echo"})
		failure = modelError(t, r, err)
		require.Equal(t, "unavailable", failure.Code)
		require.True(t, failure.Retryable)
		require.Contains(t, failure.Message, "nothing was done. Try again")

		_, err = s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "mcp__a__greet"})
		var down *jsonrpc.Error
		require.ErrorAs(t, err, &down)
		require.EqualValues(t, jsonrpc.CodeInternalError, down.Code)
		require.Contains(t, down.Message, "nothing was done. Try again")
	})
}

func member(t *testing.T, object json.RawMessage, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &members))
	return string(members[name])
}

// A call that an operator cancels has an answer, which says so.
func TestCallTool_canceled_by_an_operator(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("a", mcptest.Script{}))
		s := connect(t, Transport(c), version, nil)
		var r *mcp.CallToolResult
		ended := make(chan error, 1)
		go func() {
			var err error
			r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/hang"})
			ended <- err
		}()
		until(t, func() bool { return len(c.CallsInFlight()) == 1 })
		require.NoError(t, relay.Of(c).CancelCall(c.CallsInFlight()[0]))
		err := receive(t, ended)
		failure := modelError(t, r, err)
		require.Equal(t, "canceled", failure.Code)
		require.Contains(t, failure.Message, "an operator canceled the call of a/hang. Whether it had an effect is not known")
	})
}

// What the host refuses is an error of the tool, which the model can act on.
func TestCallTool_refused_by_the_host(t *testing.T) {
	c := newClientWith(t, []facade.Option{facade.WithValidation(), facade.WithInterceptor(
		func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			if call.Tool == "add" {
				return facade.CallResult{}, errors.New("the user has not agreed")
			}
			if call.Tool == "count" {
				return facade.CallResult{JSON: json.RawMessage(`{"content":[`)}, nil
			}
			return next(ctx, call)
		})}, fixture("a", mcptest.Script{}))
	s := connect(t, Transport(c), "2026-07-28", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/echo", Arguments: map[string]any{"text": 7}})
	failure := modelError(t, r, err)
	require.Equal(t, "invalid", failure.Code)
	require.Contains(t, failure.Message, "The arguments for a/echo cannot be used")
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/add", Arguments: map[string]any{"a": 1, "b": 2}})
	require.Contains(t, modelError(t, r, err).Message, "the user has not agreed")
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/count", Arguments: map[string]any{"key": "x"}})
	require.Equal(t, "invalid", modelError(t, r, err).Code, "a result that is not JSON cannot be passed on")
	r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/echo", Arguments: map[string]any{"text": "on"}})
	require.Equal(t, "on", text(t, r, err))
}

// Progress of a call with a token arrives before its result, in order. What is not read in
// time is replaced by what follows.
func TestCallTool_progress(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	for _, token := range []string{`"t\u0041"`, `-7.5`} {
		s.send(1, "tools/call", `{"name":"a/slow_progress","arguments":{"steps":100},"_meta":{"progressToken":`+token+`}}`)
		last := 0
		for last < 100 {
			r, ok := s.read().(*jsonrpc.Request)
			require.True(t, ok, "progress comes before the result")
			require.Equal(t, "notifications/progress", r.Method)
			require.Equal(t, token, member(t, r.Params, "progressToken"))
			n, err := strconv.Atoi(member(t, r.Params, "progress"))
			require.NoError(t, err)
			require.Greater(t, n, last)
			require.Equal(t, "100", member(t, r.Params, "total"))
			last = n
		}
		require.NoError(t, s.read().(*jsonrpc.Response).Error)
	}
	s.send(1, "tools/call", `{"name":"a/slow_progress","arguments":{"steps":3},"_meta":{"progressToken":{}}}`)
	require.NoError(t, s.read().(*jsonrpc.Response).Error, "that is not a token")
}

// Requests that cannot be served get the right error, and the session continues.
func TestMalformed(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	for name, m := range map[string]struct {
		method, params string
		code           int64
	}{
		"unknown method":           {"tools/run", `{}`, jsonrpc.CodeMethodNotFound},
		"no method":                {"", `{}`, jsonrpc.CodeMethodNotFound},
		"notification as request":  {"notifications/initialized", `{}`, jsonrpc.CodeMethodNotFound},
		"request of a server":      {"sampling/createMessage", `{}`, jsonrpc.CodeMethodNotFound},
		"call without params":      {"tools/call", ``, jsonrpc.CodeInvalidParams},
		"call, params not JSON":    {"tools/call", `{"name":`, jsonrpc.CodeInvalidParams},
		"call, params a list":      {"tools/call", `["a/echo"]`, jsonrpc.CodeInvalidParams},
		"call without a name":      {"tools/call", `{"arguments":{}}`, jsonrpc.CodeInvalidParams},
		"call, name a number":      {"tools/call", `{"name":7}`, jsonrpc.CodeInvalidParams},
		"call, arguments a list":   {"tools/call", `{"name":"a/echo","arguments":[]}`, jsonrpc.CodeInvalidParams},
		"call, arguments a text":   {"tools/call", `{"name":"a/echo","arguments":"{}"}`, jsonrpc.CodeInvalidParams},
		"call, meta a list":        {"tools/call", `{"name":"a/echo","_meta":[]}`, jsonrpc.CodeInvalidParams},
		"call, unknown version":    {"tools/call", `{"name":"a/echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`, mcp.CodeUnsupportedProtocolVersion},
		"list, unknown version":    {"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`, mcp.CodeUnsupportedProtocolVersion},
		"list, params a number":    {"tools/list", `7`, jsonrpc.CodeInvalidParams},
		"ping, params a list":      {"ping", `[1]`, jsonrpc.CodeInvalidParams},
		"list, cursor a number":    {"tools/list", `{"cursor":7}`, jsonrpc.CodeInvalidParams},
		"list, cursor made up":     {"tools/list", `{"cursor":"x!"}`, jsonrpc.CodeInvalidParams},
		"list, cursor of another":  {"tools/list", `{"cursor":"eHg"}`, jsonrpc.CodeInvalidParams},
		"prompt without a name":    {"prompts/get", `{}`, jsonrpc.CodeInvalidParams},
		"prompt, unknown":          {"prompts/get", `{"name":"nothing"}`, jsonrpc.CodeInvalidParams},
		"prompt, argument a list":  {"prompts/get", `{"name":"mcp__a__greet","arguments":{"name":[]}}`, jsonrpc.CodeInvalidParams},
		"read without a URI":       {"resources/read", `{}`, codeResourceNotFound},
		"read, unknown":            {"resources/read", `{"uri":"file:///nothing"}`, codeResourceNotFound},
		"read, unknown server":     {"resources/read", `{"uri":"mcpvisor://z/file:///nothing"}`, jsonrpc.CodeInvalidParams},
		"subscribe, unknown":       {"resources/subscribe", `{"uri":"file:///nothing"}`, codeResourceNotFound},
		"complete without ref":     {"completion/complete", `{}`, jsonrpc.CodeInvalidParams},
		"complete, unknown prompt": {"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a"}}`, jsonrpc.CodeInvalidParams},
		"complete, no argument":    {"completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp__a__greet"}}`, jsonrpc.CodeInvalidParams},
		"level, unknown":           {"logging/setLevel", `{"level":"loud"}`, jsonrpc.CodeInvalidParams},
		"listen to nothing":        {"subscriptions/listen", `{}`, jsonrpc.CodeInvalidParams},
	} {
		t.Run(name, func(t *testing.T) {
			var wire *jsonrpc.Error
			require.ErrorAs(t, s.call(m.method, m.params).Error, &wire)
			require.Equal(t, m.code, wire.Code, wire.Message)
			require.NotEmpty(t, wire.Message)
			require.NotContains(t, wire.Message, "Go ")
		})
	}
	for _, m := range []struct{ method, params string }{
		{"notifications/cancelled", `{`}, {"notifications/cancelled", ``}, {"notifications/cancelled", `{"requestId":[]}`},
		{"notifications/nonsense", `[]`}, {"tools/call", `{"name":"a/count","arguments":{"key":"x"}}`}, {"", ""},
	} {
		s.notify(m.method, m.params)
	}
	for _, m := range []jsonrpc.Message{nil, (*jsonrpc.Request)(nil), (*jsonrpc.Response)(nil), &jsonrpc.Response{}} {
		require.NoError(t, s.conn.Write(t.Context(), m))
	}
	require.NoError(t, s.call("ping", `null`).Error)
	require.Empty(t, c.CallsInFlight())
}

// FuzzWrite: whatever a peer sends, each request gets one answer.
func FuzzWrite(f *testing.F) {
	for _, seed := range []struct{ method, params string }{
		{"tools/call", `{"name":"raw/x","arguments":{},"_meta":{"progressToken":1}}`},
		{"initialize", `{"protocolVersion":"2025-06-18"}`}, {"tools/list", `{"cursor":"YS9i"}`}, {"resources/read", `{"uri":"mcpvisor://raw/x"}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x"}}`}, {"notifications/cancelled", `{"requestId":1}`},
	} {
		f.Add(seed.method, seed.params)
	}
	c, err := facade.New()
	require.NoError(f, err)
	f.Cleanup(func() { _ = c.Close(context.Background()) })
	require.NoError(f, c.Register(f.Context(), mcpvisor.ServerSpec{Name: "raw", InMemory: rawServer(`{"content":[]}`)}))
	f.Fuzz(func(t *testing.T, method, params string) {
		if method == "subscriptions/listen" {
			return // it is answered at the end
		}
		s := openRaw(t, Transport(c))
		s.notify(method, params)
		s.send(1, method, params)
		for {
			answer, ok := s.read().(*jsonrpc.Response)
			if !ok {
				continue
			}
			if answer.Error == nil {
				require.True(t, json.Valid(answer.Result))
			}
			var wire *jsonrpc.Error
			require.True(t, answer.Error == nil || errors.As(answer.Error, &wire))
			return
		}
	})
}

// A request whose goroutine ends in code of the host is answered, as is one that panics.
func TestCallTool_interceptor_ends_the_goroutine(t *testing.T) {
	for what, end := range map[string]func(){
		"tools/call panicked: no": func() { panic("no") },
		"tools/call ended its goroutine without an answer (runtime.Goexit)": runtime.Goexit,
	} {
		c := newClientWith(t, []facade.Option{facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
			if call.Tool == "crash" {
				end()
			}
			return next(ctx, call)
		})}, fixture("a", mcptest.Script{}))
		s := openRaw(t, Transport(c))
		var failed *jsonrpc.Error
		require.ErrorAs(t, s.call("tools/call", `{"name":"a/crash"}`).Error, &failed)
		require.EqualValues(t, jsonrpc.CodeInternalError, failed.Code)
		require.Equal(t, what, failed.Message)
		require.NoError(t, s.call("tools/call", `{"name":"a/echo"}`).Error, "the id is free, and the session works")
	}
}

// What was not sent because its server ended waits for the server, whether the end was a crash or asked for.
func TestDownServer(t *testing.T) {
	for kind, want := range map[mcpvisor.ErrorKind]bool{mcpvisor.ErrUnavailable: true, mcpvisor.ErrCrashed: true, mcpvisor.ErrEnded: true, mcpvisor.ErrEvicted: false} {
		for outcome, unsent := range map[mcpvisor.Outcome]bool{mcpvisor.OutcomeNotSent: true, mcpvisor.OutcomeUnknown: false} {
			_, why := notSent(&mcpvisor.Error{Server: "a", Kind: kind, Outcome: outcome})
			require.Equal(t, want && unsent, isDown(why), "%s, %s", kind, outcome)
		}
	}
}

// A client of 2026-07-28 may cancel a request in the moment in which a server asks: the answer with the question waits to
// be read. The call ends at the server then, and is not held for a client that has given it up.
func TestHeld_canceled_before_the_question_is_read(t *testing.T) {
	told := make(chan time.Time, 1)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told), Era: mcpvisor.EraLegacy})
	transport := Transport(c, WithNames(Names{}))
	s := openRaw(t, transport)
	s.send(1, "tools/call", strings.Replace(modernCall(""), "a__consult", "a__x", 1))
	out := s.conn.(*connection).exchange.out
	until(t, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.queue) == 1
	})
	s.notify("notifications/cancelled", `{"requestId":1}`)
	receive(t, told)
	requireNothingHeld(t, transport.(*gateway))
}

// The same for a client whose connection breaks before the answer is written.
func TestHeld_client_is_gone_before_the_question_is_written(t *testing.T) {
	told := make(chan time.Time, 1)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told), Era: mcpvisor.EraLegacy})
	handler := Handler(c)
	t.Cleanup(handler.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+strings.Replace(modernCall(""), "a__consult", "a__x", 1)+`}`))
	require.NoError(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", versionHeader: "2026-07-28", methodHeader: "tools/call", nameHeader: "a__x"} {
		r.Header.Set(name, value)
	}
	w := brokenWriter{http.Header{}}
	x := &httpExchange{server: handler, gateway: handler.gateway, principal: handler.enter(""), w: w, r: r, wire: httpwire.New(w, handler.limits.wire())}
	x.post()
	receive(t, told)
	requireNothingHeld(t, handler.gateway)
}

// brokenWriter is the writer of a connection that has broken.
type brokenWriter struct{ header http.Header }

func (w brokenWriter) Header() http.Header     { return w.header }
func (brokenWriter) Write([]byte) (int, error) { return 0, context.Canceled }
func (brokenWriter) WriteHeader(int)           {}

// A client before 2026-07-28 that cancels its call over HTTP is told that the question because of it has ended.
func TestQuestions_end_with_a_canceled_call(t *testing.T) {
	c := newAskingClient(t, nil, legacyFixture("a"))
	_, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	stream := p.callStream(t.Context(), consultCall(7))
	_, asked, ok := stream.next()
	require.True(t, ok)
	require.Equal(t, `"elicitation/create"`, memberOf(t, []byte(asked), "method"))
	status, _ := p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	require.Equal(t, http.StatusAccepted, status)
	_, ended, ok := stream.next()
	require.True(t, ok, "the stream has ended without a word")
	require.Equal(t, `"notifications/cancelled"`, memberOf(t, []byte(ended), "method"))
	require.Equal(t, memberOf(t, []byte(asked), "id"), memberOf(t, []byte(ended), "params", "requestId"))
}

// A request for which there is no room yet can be canceled: it is not served later.
func TestRequests_canceled_while_they_wait_for_room(t *testing.T) {
	client, read := callsForever(t)
	g := newGateway(client, newOptions([]Option{WithLimits(Limits{MaxRequestBytes: 1})}))
	s := openRaw(t, g)
	s.send(1, "tools/call", `{"name":"a/x"}`)
	require.Equal(t, "tools/call", receive(t, read))
	second, err := jsonrpc.MakeID(2.0)
	require.NoError(t, err)
	taken := make(chan error, 1)
	go func() {
		taken <- s.conn.Write(t.Context(), &jsonrpc.Request{ID: second, Method: "tools/call", Params: json.RawMessage(`{"name":"a/x"}`)})
	}()
	q := &s.conn.(*connection).session.requests
	until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.outside.Len() == 1
	})
	s.notify("notifications/cancelled", `{"requestId":2}`)
	require.NoError(t, receive(t, taken), "the session continues")
	s.notify("notifications/cancelled", `{"requestId":1}`)
	require.Equal(t, "notifications/cancelled", receive(t, read))
	require.NoError(t, s.callWith(3, "ping", `{}`).Error, "there is room")
	require.Empty(t, read, "it was not served")
}

// A question goes to a call at its server, even if a newer call is in flight at another one.
func TestQuestions_of_another_server(t *testing.T) {
	start := func(t *testing.T) (c *facade.Client, ask chan struct{}) {
		t.Helper()
		ask = make(chan struct{})
		spec := fixture("a", mcptest.Script{})
		spec.InMemory, spec.Era = waitingServer(ask), mcpvisor.EraLegacy
		return newAskingClient(t, nil, spec, legacyFixture("b")), ask
	}
	t.Run("by a request", func(t *testing.T) {
		c, ask := start(t)
		_, url := serveHTTP(t, c)
		p := newPeer(t, url)
		p.initializeWith("2025-11-25", `{"elicitation":{}}`)
		streams := make(chan string, 2)
		for i, tool := range []string{"a__x", "b__hang"} {
			go func() {
				body, err := p.stream(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, i, tool))
				if err != nil {
					return
				}
				defer body.Close()
				if _, data, ok := (events{t, bufio.NewReader(body), nil}).next(); ok {
					streams <- tool + " " + data
				}
			}()
			until(t, func() bool { return len(c.CallsInFlight()) == i+1 })
		}
		ask <- struct{}{}
		got := receive(t, streams)
		require.True(t, strings.HasPrefix(got, "a__x "), got)
		require.Contains(t, got, "elicitation/create")
	})
	t.Run("by a result", func(t *testing.T) {
		c, ask := start(t)
		s := openRaw(t, Transport(c, WithNames(Names{})))
		for i, tool := range []string{"a__x", "b__hang"} {
			s.send(float64(i), "tools/call", `{"name":"`+tool+`",`+modernMeta+`}`)
			until(t, func() bool { return len(c.CallsInFlight()) == i+1 })
		}
		ask <- struct{}{}
		answer := s.read().(*jsonrpc.Response)
		require.Equal(t, int64(0), answer.ID.Raw())
		_, _ = required(t, string(answer.Result))
	})
}

// stream sends a request of a session, and returns the body of the answer.
func (p *peer) stream(ctx context.Context, body string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = p.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set(sessionHeader, p.session)
	}
	response, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// A client is gone in mid-question: its server gets the cancellation within a second.
func TestQuestions_client_is_gone_server_is_told(t *testing.T) {
	for name, params := range map[string]string{
		"2025-11-25": `{"name":"a/x"}`,
		"2026-07-28": `{"name":"a/x",` + modernMeta + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := fixture("a", mcptest.Script{})
				told := make(chan time.Time, 1)
				asks := asksFirst(nil)
				spec.InMemory, spec.Era = serveRaw(func(m *rawtest.Message) string {
					switch m.Method {
					case "": // its question is refused: the call does not end by that
						return rawtest.None
					case "notifications/cancelled":
						told <- time.Now()
					}
					return asks(m)
				}, nil), mcpvisor.EraLegacy
				c := newAskingClient(t, nil, spec)
				s := openRaw(t, Transport(c))
				if name < modernVersion {
					s = askingSession(t, c)
				}
				s.send(1, "tools/call", params)
				switch m := s.read().(type) {
				case *jsonrpc.Request:
					require.Equal(t, "elicitation/create", m.Method)
				case *jsonrpc.Response:
					_, _ = required(t, string(m.Result))
				}
				time.Sleep(time.Minute)
				left := time.Now()
				require.NoError(t, s.conn.Close())
				require.Less(t, receive(t, told).Sub(left), time.Second)
			})
		})
	}
}

// What a server sends as a prompt or as contents is passed on as it is, with members that no version has, and large numbers.
// Only what 2026-07-28 requires is added.
func TestContents_pass_unchanged(t *testing.T) {
	const prompt = `"messages":[{"role":"user","content":{"type":"hologram","n":9007199254740993}}],"later":[1.50]`
	const contents = `"contents":[{"uri":"x:y","later":{"n":9007199254740993}}]`
	c := newClient(t, legacyRaw(nil, map[string]string{
		"initialize": legacyHandshake(`{"prompts":{},"resources":{}}`), "prompts/list": `"result":{"prompts":[{"name":"p"}]}`,
		"resources/list": `"result":{"resources":[{"uri":"x:y","name":"y"}]}`, "resources/templates/list": `"result":{"resourceTemplates":[]}`,
		"prompts/get": `"result":{` + prompt + `}`, "resources/read": `"result":{` + contents + `}`,
	}))
	for meta, complete := range map[string]string{"": "", "," + modernMeta: `"resultType":"complete",`} {
		s := openRaw(t, Transport(c))
		if meta == "" {
			s.initializeWith("{}")
		}
		require.Equal(t, "{"+complete+prompt+"}", string(s.call("prompts/get", `{"name":"a/p"`+meta+`}`).Result))
		require.Equal(t, "{"+complete+`"ttlMs":0,"cacheScope":"private",`+contents+"}", string(s.call("resources/read", `{"uri":"x:y"`+meta+`}`).Result))
	}
}

// A result that is no object is not passed on: the client learns that its server has broken the protocol.
func TestResults_are_objects(t *testing.T) {
	for _, result := range []string{"null", "[]", "7"} {
		c := newClient(t, legacyRaw(nil, map[string]string{
			"initialize": legacyHandshake(`{"tools":{},"prompts":{},"resources":{}}`), "prompts/list": `"result":{"prompts":[{"name":"p"}]}`,
			"resources/list": `"result":{"resources":[{"uri":"x:y","name":"y"}]}`, "resources/templates/list": `"result":{"resourceTemplates":[]}`,
			"prompts/get": `"result":` + result, "resources/read": `"result":` + result, "tools/call": `"result":` + result,
		}))
		for _, meta := range []string{"", "," + modernMeta} {
			s := openRaw(t, Transport(c))
			if meta == "" {
				s.initializeWith("{}")
			}
			require.ErrorContains(t, s.call("prompts/get", `{"name":"a/p"`+meta+`}`).Error, "gave no usable answer", result)
			require.ErrorContains(t, s.call("resources/read", `{"uri":"x:y"`+meta+`}`).Error, "gave no usable answer", result)
			require.Contains(t, string(s.call("tools/call", `{"name":"a/x"`+meta+`}`).Result), "gave no usable answer", result)
		}
	}
}

// Two requests subscriptions/listen of one session both keep delivering, and so they do when a third one has ended.
func TestListen_twice(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	uri := c.Resources()[0].URI
	const listen = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["%s"]}}`
	for id := range 3 {
		s.send(float64(id), "subscriptions/listen", fmt.Sprintf(listen, uri))
		require.Equal(t, "notifications/subscriptions/acknowledged", s.read().(*jsonrpc.Request).Method)
	}
	// round changes something, and returns which listens were told.
	round := func(tool, arguments, method string, want int) {
		t.Helper()
		_, err := c.CallTool(t.Context(), "a/"+tool, json.RawMessage(arguments))
		require.NoError(t, err)
		told := map[string]bool{}
		for range want {
			m := s.read().(*jsonrpc.Request)
			require.Equal(t, method, m.Method)
			told[memberOf(t, m.Params, "_meta", "io.modelcontextprotocol/subscriptionId")] = true
		}
		require.Len(t, told, want)
	}
	const changed, updated = "notifications/tools/list_changed", "notifications/resources/updated"
	touch := `{"uri":"` + uri + `"}`
	round("touch", touch, updated, 3)
	s.notify("notifications/cancelled", `{"requestId":2}`)
	q := &s.conn.(*connection).session.requests
	until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.listens == 2
	})
	for i := range 3 {
		round("touch", touch, updated, 2)
		round("add_tool", fmt.Sprintf(`{"name":"fresh%d"}`, i), changed, 2)
		require.NoError(t, s.callWith(9, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`).Error)
	}
}

// A call that may have run is not one of an unknown tool, although its server is unknown by now.
func TestIsUnknown(t *testing.T) {
	gone := &mcpvisor.Error{Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent}
	require.True(t, isUnknown(gone))
	require.True(t, isUnknown(fmt.Errorf("the call: %w", &mcpvisor.Error{Kind: mcpvisor.ErrUnknownTool})))
	require.False(t, isUnknown(&mcpvisor.Error{Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeUnknown, Cause: fmt.Errorf("the server was removed: %w", gone)}))
}
