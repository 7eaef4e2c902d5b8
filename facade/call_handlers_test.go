package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// everythingDeclared is for clients whose calls bring handlers of every kind.
var everythingDeclared = facade.WithDeclared(facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true})

// answersAs are the handlers of one user.
func answersAs(name string) *facade.CallHandlers {
	return &facade.CallHandlers{
		Elicitation: func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
		URLElicitation: func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		Sampling: func(context.Context, facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Model: name, Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
		},
		Roots: func(context.Context, string) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///" + name}}, nil },
	}
}

// consult has the server "s" ask the client for something, and returns the answer.
func consult(ctx context.Context, c *facade.Client, method, params string, opts ...facade.CallOption) (string, error) {
	res, err := c.CallTool(ctx, "s/consult", map[string]any{"method": method, "params": json.RawMessage(params)}, opts...)
	if err != nil {
		return "", err
	}
	return res.Content[0].(*mcp.TextContent).Text, nil
}

// onEveryTransportAndSSE is onEveryTransport, with HTTP+SSE.
func onEveryTransportAndSSE(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	onEveryTransport(t, f)
	t.Run("HTTP+SSE", func(t *testing.T) {
		web := mcptest.NewHTTP(mcptest.Script{Versions: []string{"2024-11-05", "2025-11-25"}}, mcptest.WithSSE())
		t.Cleanup(web.Close)
		f(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL, SSE: true}})
	})
}

// What a server asks for because of a call is answered by the handlers of that call, on every
// transport.
func TestCallHandlers_on_every_transport(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec, everythingDeclared)
		for _, user := range []string{"ann", "bob"} {
			as := facade.WithCallHandlers(answersAs(user))
			text, err := consult(t.Context(), c, "elicitation/create", wantsText, as)
			require.NoError(t, err)
			require.Contains(t, text, `"name":"`+user+`"`)
			require.Contains(t, text, `"level":3`, "the default of the form")
			text, err = consult(t.Context(), c, "elicitation/create", wantsURL, as)
			require.NoError(t, err)
			require.Contains(t, text, `"decline"`)
			text, err = consult(t.Context(), c, "sampling/createMessage", wantsSample, as)
			require.NoError(t, err)
			require.Contains(t, text, `"model":"`+user+`"`)
			text, err = consult(t.Context(), c, "roots/list", `{}`, as)
			require.NoError(t, err)
			require.Contains(t, text, "file:///"+user)
		}
		text, err := consult(t.Context(), c, "elicitation/create", wantsText)
		if err == nil {
			require.NotContains(t, text, "accept", "a call without handlers has no answer")
		}
	})
}

// Many calls at once: where the protocol names the call, each user is asked for its own calls
// only. Elsewhere no caller is asked for another's: the request is refused.
func TestCallHandlers_many_calls_at_once(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec, everythingDeclared)
		named := spec.HTTP != nil && !spec.HTTP.SSE || strings.Contains(t.Name(), "2026")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				user := fmt.Sprintf("user%d", i)
				handlers := answersAs(user)
				for range 25 {
					text, err := consult(t.Context(), c, "elicitation/create", wantsText, facade.WithCallHandlers(handlers))
					switch {
					case err != nil && named:
						t.Errorf("%s: %v", user, err)
					case err != nil:
						if !strings.Contains(err.Error(), "several calls") {
							t.Errorf("%s: %v", user, err)
						}
					case strings.Contains(text, "several calls") && !named:
					case !strings.Contains(text, `"name":"`+user+`"`):
						t.Errorf("%s got %s", user, text)
					}
				}
			})
		}
		wg.Wait()
	})
}

// On a pipe a request belongs to the calls in flight if all have the same answerer.
func TestCallHandlers_on_a_pipe(t *testing.T) {
	ann, bob := answersAs("ann"), answersAs("bob")
	for name, tc := range map[string]struct {
		other, own []facade.CallOption
		want       string
	}{
		"the same handlers":          {[]facade.CallOption{facade.WithCallHandlers(ann)}, []facade.CallOption{facade.WithCallHandlers(ann)}, `"name":"ann"`},
		"other handlers":             {[]facade.CallOption{facade.WithCallHandlers(bob)}, []facade.CallOption{facade.WithCallHandlers(ann)}, "several calls"},
		"a call without handlers":    {nil, []facade.CallOption{facade.WithCallHandlers(ann)}, "several calls"},
		"beside one that has":        {[]facade.CallOption{facade.WithCallHandlers(bob)}, nil, "several calls"},
		"none has handlers":          {nil, nil, `"name":"the host"`},
		"handlers without functions": {[]facade.CallOption{facade.WithCallHandlers(&facade.CallHandlers{})}, []facade.CallOption{facade.WithCallHandlers(&facade.CallHandlers{})}, "several calls"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAskingServer()
			c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server.inMemory()}, facade.WithElicitationHandler(answersAs("the host").Elicitation))
			held := make(chan error, 1)
			go func() {
				_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"hold":true}`), tc.other...)
				held <- err
			}()
			<-server.holds
			got, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"method":"elicitation/create","params":`+wantsText+`}`), tc.own...)
			require.NoError(t, err)
			require.Contains(t, string(got), tc.want)
			_, err = c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"release":true}`), tc.own...)
			require.NoError(t, err)
			require.NoError(t, <-held)
		})
	}
}

// A call that was given up counts until the server answers it: the server may still ask for it.
func TestCallHandlers_after_a_call_was_given_up(t *testing.T) {
	server := newAskingServer()
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server.inMemory()}, everythingDeclared)
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() {
		_, err := c.CallToolRaw(ctx, "s/x", json.RawMessage(`{"hold":true}`), facade.WithCallHandlers(answersAs("ann")))
		held <- err
	}()
	<-server.holds
	cancel()
	require.ErrorIs(t, <-held, mcpvisor.ErrCanceled)
	asks := json.RawMessage(`{"method":"elicitation/create","params":` + wantsText + `}`)
	bob := facade.WithCallHandlers(answersAs("bob"))
	got, err := c.CallToolRaw(t.Context(), "s/x", asks, bob)
	require.NoError(t, err)
	require.Contains(t, string(got), "several calls")
	_, err = c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"release":true}`), bob) // the late answer comes first
	require.NoError(t, err)
	got, err = c.CallToolRaw(t.Context(), "s/x", asks, bob)
	require.NoError(t, err)
	require.Contains(t, string(got), `"name":"bob"`)
}

// The end of the call ends its handlers, if it is known that they work for it.
func TestCallHandlers_end_with_the_call(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec, everythingDeclared)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		h := &facade.CallHandlers{Elicitation: func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			cancel()
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}}
		_, err := consult(ctx, c, "elicitation/create", wantsText, facade.WithCallHandlers(h))
		require.Error(t, err)
		<-ended
	})
}

// Declared once for the session is what a legacy server may ask for.
func TestCallHandlers_not_declared(t *testing.T) {
	c := newClient(t, facade.WithDeclared(facade.Declared{Elicitation: true, Sampling: true}))
	server := newAskingServer()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server.inMemory()}))
	require.Contains(t, server.initialize(), `"elicitation":{"form":{}}`)
	require.Contains(t, server.initialize(), `"sampling":{}`)
	require.NotContains(t, server.initialize(), `"roots":{`)
	h := answersAs("ann")
	h.SamplingTools = true
	ask := func(method, params string) string {
		got, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"method":"`+method+`","params":`+params+`}`), facade.WithCallHandlers(h))
		require.NoError(t, err)
		return string(got)
	}
	require.Contains(t, ask("elicitation/create", wantsText), `"name":"ann"`)
	require.Contains(t, ask("elicitation/create", wantsURL), "does not declare that mode")
	require.Contains(t, ask("roots/list", `{}`), "-32601")
	require.Contains(t, ask("sampling/createMessage", wantsTools), "declares no tools")
	require.Contains(t, ask("no/such", `{}`), "-32601")
	require.Contains(t, ask("ping", `{}`), `"got":{}`)
}

// What other functions answer is checked as for the handlers of the client.
func TestCallHandlers_invalid_answers(t *testing.T) {
	secret := errors.New("a secret")
	raw := func(text string, err error) *relay.Handlers {
		return &relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) {
			return json.RawMessage(text), err
		}}
	}
	for name, tc := range map[string]struct {
		by   *relay.Handlers
		want string
	}{
		"raw, a list":         {raw(`[]`, nil), "-32603"},
		"raw, two":            {raw(`{}{}`, nil), "-32603"},
		"raw, nothing":        {raw(``, nil), "-32603"},
		"raw, an error":       {raw(``, secret), "the client has no answer"},
		"raw, a JSON-RPC one": {raw(``, &sdkrpc.Error{Code: -7, Message: "not today", Data: json.RawMessage(`1.0`)}), `"data":1.0`},
		"raw, a panic":        {&relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) { panic("a secret") }}, "-32603"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, everythingDeclared)
			server := newAskingServer()
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server.inMemory()}))
			got, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"method":"elicitation/create","params":`+wantsText+`}`), relay.WithHandlers(tc.by))
			require.NoError(t, err)
			require.Contains(t, string(got), tc.want)
			require.NotContains(t, string(got), "a secret")
		})
	}
}

// A raw handler gets the params of the server byte for byte, and its result reaches the server so,
// in both eras.
func TestCallHandlers_raw_byte_for_byte(t *testing.T) {
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			server := newAskingServer()
			c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: era, InMemory: server.inMemory()}, everythingDeclared)
			rapid.Check(t, func(rt *rapid.T) {
				params, result := "{"+drawMembers(rt, "params")+"}", "{"+drawMembers(rt, "result")+"}"
				method := rapid.SampledFrom([]string{"elicitation/create", "sampling/createMessage", "roots/list"}).Draw(rt, "method")
				var seen relay.ServerRequest
				h := &relay.Handlers{Raw: func(_ context.Context, r relay.ServerRequest) (json.RawMessage, error) {
					r.Params = append(json.RawMessage(nil), r.Params...)
					seen = r
					return json.RawMessage(result), nil
				}}
				got, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"method":"`+method+`","params":`+params+`}`), relay.WithHandlers(h))
				require.NoError(rt, err)
				require.Equal(rt, relay.ServerRequest{Server: "s", Method: method, Params: json.RawMessage(params)}, seen)
				require.Equal(rt, `{"content":[],"got":`+result+`}`, string(got))
			})
		})
	}
}

// Since 2026-07-28 each request declares what its own call answers.
func TestCallHandlers_declared_with_each_request(t *testing.T) {
	var mu sync.Mutex
	var last string
	onEveryRawServer(t, func(method, line string) string {
		mu.Lock()
		defer mu.Unlock()
		if method == "tools/call" {
			last = line
			return `{"content":[],"resultType":"complete"}`
		}
		return ""
	}, func(t *testing.T, spec mcpvisor.ServerSpec) {
		if spec.Era == mcpvisor.EraLegacy {
			t.Skip("declared once")
		}
		c := newClient(t, facade.WithSamplingHandler(func(context.Context, facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return nil, nil
		}))
		require.NoError(t, c.Register(t.Context(), spec))
		declared := func(opts ...facade.CallOption) string {
			_, err := c.CallToolRaw(t.Context(), "s/x", nil, opts...)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			var m struct {
				Params struct {
					Meta map[string]json.RawMessage `json:"_meta"`
				} `json:"params"`
			}
			require.NoError(t, json.Unmarshal([]byte(last), &m))
			require.Len(t, m.Params.Meta, 4, last)
			return string(m.Params.Meta[mcp.MetaKeyClientCapabilities])
		}
		require.JSONEq(t, `{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, declared())
		h := &facade.CallHandlers{Elicitation: answersAs("ann").Elicitation, Roots: answersAs("ann").Roots}
		require.JSONEq(t, `{"elicitation":{"form":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, declared(facade.WithCallHandlers(h)))
		require.JSONEq(t, `{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, declared())
	})
}

// askingServer is a server in memory, of both eras, that gives back bytes as they are. Of a call
// with the arguments {"method":M,"params":P} it asks the client, and the result holds what the
// client has answered. One with {"hold":true} is answered when {"release":true} comes, before that.
type askingServer struct {
	holds chan struct{} // gets a value when a call is held
	mu    sync.Mutex
	hello string // the last initialize
}

func newAskingServer() *askingServer { return &askingServer{holds: make(chan struct{}, 100)} }

func (s *askingServer) initialize() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}

func (s *askingServer) inMemory() *mcpvisor.InMemory {
	waiting := map[string]json.RawMessage{} // calls by the id of the request of the server
	var held []json.RawMessage
	return inMemory(&raw.Server{Answer: func(m *raw.Message) string {
		var p struct {
			Arguments struct {
				Method        string
				Params        json.RawMessage
				Hold, Release bool
			}
			InputResponses map[string]json.RawMessage
		}
		_ = json.Unmarshal(m.Params, &p)
		a := p.Arguments
		answer := func(id json.RawMessage, result string) { m.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result) }
		switch {
		case m.ID == nil:
			return ""
		case m.Method == "":
			got := m.Result
			if got == nil {
				got = m.Error
			}
			answer(waiting[string(m.ID)], `{"content":[],"got":`+string(got)+`}`)
			return raw.None
		case m.Method == "initialize":
			s.mu.Lock()
			defer s.mu.Unlock()
			s.hello = string(m.Text)
			return rawMembers(m)
		case m.Method == "server/discover":
			return `"result":` + rawDiscover
		case m.Method != "tools/call":
			return rawMembers(m)
		case p.InputResponses != nil:
			return `"result":{"content":[],"got":` + string(p.InputResponses["k"]) + `}`
		case a.Hold:
			held = append(held, m.ID)
			s.holds <- struct{}{}
			return raw.None
		case a.Release:
			for _, id := range held {
				answer(id, `{"content":[]}`)
			}
			held = nil
			return `"result":{"content":[]}`
		case strings.Contains(string(m.Text), mcp.MetaKeyProtocolVersion):
			return fmt.Sprintf(`"result":{"resultType":"input_required","inputRequests":{"k":{"method":%q,"params":%s}},"requestState":"s"}`, a.Method, a.Params)
		}
		id := fmt.Sprintf(`"q%d"`, len(waiting))
		waiting[id] = m.ID
		m.Send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, a.Method, a.Params)
		return raw.None
	}})
}

// What a task waits for is asked of the handlers of the call that it was made of.
func TestCallHandlers_of_a_task(t *testing.T) {
	c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		t.Error("the handler of the client was asked")
		return nil, errors.New("not for the client")
	}))
	input := json.RawMessage(`{"a":{"method":"elicitation/create","params":` + wantsText + `}}`)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{"2026-07-28"},
		Tools: []mcptest.ToolDef{{Name: "job", As: "echo", Task: &mcptest.TaskDef{Poll: time.Millisecond, Input: input}}}})}))
	asked := make(chan string, 10)
	h := &relay.Handlers{Raw: func(_ context.Context, r relay.ServerRequest) (json.RawMessage, error) {
		asked <- r.Method
		return json.RawMessage(`{"action":"accept","content":{"name":"ann","level":1}}`), nil
	}}
	args := json.RawMessage(`{"text":"done"}`)
	result, err := c.CallTool(t.Context(), "s/job", args, relay.WithHandlers(h))
	require.NoError(t, err)
	require.Equal(t, "done", result.Content[0].(*mcp.TextContent).Text)
	task, err := c.StartTask(t.Context(), "s/job", args, relay.WithHandlers(h))
	require.NoError(t, err)
	_, err = task.Wait(t.Context())
	require.NoError(t, err)
	require.Len(t, asked, 2)
}

// What Raw does not answer is answered by the handlers of the client, and declared as theirs.
func TestCallHandlers_raw_answers_some(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec, everythingDeclared, facade.WithElicitationHandler(answersAs("the host").Elicitation))
		as := relay.WithHandlers(&relay.Handlers{RawAnswers: facade.Declared{Roots: true}, Raw: func(_ context.Context, r relay.ServerRequest) (json.RawMessage, error) {
			require.Equal(t, "roots/list", r.Method)
			return json.RawMessage(`{"roots":[{"uri":"file:///ann"}]}`), nil
		}})
		text, err := consult(t.Context(), c, "elicitation/create", wantsText, as)
		require.NoError(t, err)
		require.Contains(t, text, "the host")
		text, err = consult(t.Context(), c, "roots/list", `{}`, as)
		require.NoError(t, err)
		require.Contains(t, text, "file:///ann")
		text, err = consult(t.Context(), c, "sampling/createMessage", wantsSample, as)
		require.True(t, err != nil || !strings.Contains(text, "model"), "no handler answers: %s", text)
	})
}
