package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What a server requires, and what the caller gives it, pass byte for byte, for each kind of
// request, and the handlers of the client are not asked.
func TestWithRelay_byte_for_byte(t *testing.T) {
	var mu sync.Mutex
	var last, answer string
	onEveryRawServer(t, func(method, line string) string {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case "tools/call", "resources/read", "prompts/get":
			last = line
			return answer
		}
		return ""
	}, func(t *testing.T, spec mcpvisor.ServerSpec) {
		if spec.Era == mcpvisor.EraLegacy {
			t.Skip("has no rounds")
		}
		c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			t.Error("the handler of the client was asked")
			return nil, nil
		}))
		require.NoError(t, c.Register(t.Context(), spec))
		rapid.Check(t, func(rt *rapid.T) {
			requests, state := "{"+drawMembers(rt, "requests")+"}", `"`+rapid.SampledFrom([]string{"", "s", `\u0041<&>é`, `\"`}).Draw(rt, "state")+`"`
			responses := "{" + drawMembers(rt, "responses") + "}"
			required := `{"resultType":"input_required","x":1.0,"inputRequests":` + requests + `,"requestState":` + state + `}`
			for name, send := range map[string]func(o ...facade.CallOption) (json.RawMessage, error){
				"call": func(o ...facade.CallOption) (json.RawMessage, error) {
					return c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"a":1.0}`), o...)
				},
				"read": func(o ...facade.CallOption) (json.RawMessage, error) {
					return c.ReadResourceRaw(t.Context(), "s", "x:y", o...)
				},
				"prompt": func(o ...facade.CallOption) (json.RawMessage, error) {
					return c.GetPromptRaw(t.Context(), "s/p", nil, o...)
				},
			} {
				mu.Lock()
				answer = required
				mu.Unlock()
				got, err := send(facade.WithRelay(facade.Continuation{}))
				require.NoError(rt, err, name)
				require.Equal(rt, required, string(got), name)
				require.NotContains(rt, last, "inputResponses", name)
				wants, ok := facade.ReadInputRequired(got)
				require.True(rt, ok, name)
				require.Equal(rt, requests, string(wants.InputRequests), name)
				require.Equal(rt, state, string(wants.RequestState), name)

				done := `{"resultType":"complete","n":9223372036854775808,"content":[],"contents":[],"messages":[]}`
				mu.Lock()
				answer = done
				mu.Unlock()
				got, err = send(facade.WithRelay(facade.Continuation{InputResponses: json.RawMessage(responses), RequestState: wants.RequestState}))
				require.NoError(rt, err, name)
				require.Equal(rt, done, string(got), name)
				_, ok = facade.ReadInputRequired(got)
				require.False(rt, ok, name)
				require.Contains(rt, last, `,"inputResponses":`+passed(spec, responses)+`,"requestState":`+state+`}`, name)
			}
		})
	})
}

// Results pass byte for byte, whatever they hold.
func TestCallToolRaw_byte_for_byte(t *testing.T) {
	var mu sync.Mutex
	var answer string
	onEveryRawServer(t, func(method, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case "tools/call", "resources/read", "prompts/get", "completion/complete":
			return answer
		}
		return ""
	}, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		rapid.Check(t, func(rt *rapid.T) {
			text := `{"_meta":{` + drawMembers(rt, "meta") + `},"resultType":"complete",` + drawMembers(rt, "members") + `}`
			want := text
			mu.Lock()
			answer = text
			mu.Unlock()
			for name, send := range map[string]func() (json.RawMessage, error){
				"call":   func() (json.RawMessage, error) { return c.CallToolRaw(t.Context(), "s/x", nil) },
				"read":   func() (json.RawMessage, error) { return c.ReadResourceRaw(t.Context(), "s", "x:y") },
				"prompt": func() (json.RawMessage, error) { return c.GetPromptRaw(t.Context(), "s/p", nil) },
				"complete": func() (json.RawMessage, error) {
					return c.CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"})
				},
			} {
				got, err := send()
				require.NoError(rt, err, name)
				require.Equal(rt, want, string(got), name)
			}
		})
	})
}

// Rounds that the caller makes reach the end, on every transport. Legacy servers ask handlers.
func TestWithRelay_on_every_transport(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t, everythingDeclared)
		require.NoError(t, c.Register(t.Context(), spec))
		modern := strings.Contains(t.Name(), "2026")
		most := 1 // of which the bridge of the go-sdk makes requests
		if modern {
			most = 3
		}
		args := json.RawMessage(fmt.Sprintf(`{"method":"elicitation/create","rounds":%d,"params":%s}`, most, wantsText))
		next := facade.Continuation{}
		opts := []facade.CallOption{
			facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`)),
			facade.WithCallHandlers(answersAs("the handler")),
		}
		rounds := 0
		for {
			got, err := c.CallToolRaw(t.Context(), "s/consult", args, append(opts, facade.WithRelay(next))...)
			require.NoError(t, err)
			required, ok := facade.ReadInputRequired(got)
			if !ok {
				want := "the relay"
				if !modern {
					want = "the handler"
				}
				require.Contains(t, string(got), want)
				break
			}
			rounds++
			require.Contains(t, string(required.InputRequests), `"requestedSchema"`)
			next = facade.Continuation{RequestState: required.RequestState, InputResponses: json.RawMessage(`{"consult":{"action":"accept","content":{"name":"the relay","level":1}}}`)}
		}
		if modern {
			require.Equal(t, 3, rounds)
			return
		}
		require.Zero(t, rounds)
		_, err := c.CallToolRaw(t.Context(), "s/consult", args, facade.WithRelay(facade.Continuation{RequestState: json.RawMessage(`"s"`)}))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "must begin again")
	})
}

// The capabilities of another client are declared for a call that it answers, and for no
// other.
func TestWithRelay_declares_the_capabilities_of_the_caller(t *testing.T) {
	var last string
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		switch method {
		case "server/discover":
			return rawDiscover
		case "tools/call":
			last = line
			return `{"content":[],"resultType":"complete"}`
		}
		return ""
	})}))
	theirs := `{"extensions":{"io.modelcontextprotocol/ui":{"v":1.0}},"sampling":{}}`
	meta := facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":` + theirs + `}`))
	raw := &facade.CallHandlers{Raw: func(context.Context, facade.ServerRequest) (json.RawMessage, error) { return nil, nil }}
	for name, tc := range map[string]struct {
		opts []facade.CallOption
		want bool
	}{
		"relay":          {[]facade.CallOption{meta, facade.WithRelay(facade.Continuation{})}, true},
		"raw handlers":   {[]facade.CallOption{facade.WithCallHandlers(raw), meta}, true},
		"no option":      {[]facade.CallOption{meta}, false},
		"typed handlers": {[]facade.CallOption{meta, facade.WithCallHandlers(answersAs("ann"))}, false},
	} {
		_, err := c.CallToolRaw(t.Context(), "s/x", nil, tc.opts...)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, strings.Contains(last, `"io.modelcontextprotocol/clientCapabilities":`+theirs), name)
		require.Equal(t, 1, strings.Count(last, "clientCapabilities"), name)
	}
	_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":[]}`)))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

func TestWithRelay_invalid(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	state := facade.Continuation{RequestState: json.RawMessage(`"s"`)}
	for i, next := range []facade.Continuation{{InputResponses: json.RawMessage(`[]`)}, {InputResponses: json.RawMessage(`{`)}, {RequestState: json.RawMessage(`"a`)}, {RequestState: json.RawMessage(`"a","b":1`)}} {
		_, err := c.CallToolRaw(t.Context(), "s/echo", nil, facade.WithRelay(next))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, fmt.Sprint(i))
		_, err = c.ReadResourceRaw(t.Context(), "s", "x:y", facade.WithRelay(next))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, fmt.Sprint(i))
	}
	_, err := c.StartTask(t.Context(), "s/echo", nil, facade.WithRelay(facade.Continuation{}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = c.CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"}, facade.WithRelay(state))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

func TestReadInputRequired(t *testing.T) {
	for text, want := range map[string]*facade.InputRequired{
		`{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}`: {InputRequests: json.RawMessage(`{"a":{}}`), RequestState: json.RawMessage(`"s"`)},
		`{"resultType":"input_required","inputRequests":null,"requestState":null}`:    {},
		`{"resultType":"complete","text":"input_required"}`:                           nil,
		`{"text":"\"input_required\"","resultType":"complete"}`:                       nil,
		`{"resultType":"input_required"`:                                              nil,
		`["input_required"]`:                                                          nil,
		``:                                                                            nil,
	} {
		got, ok := facade.ReadInputRequired(json.RawMessage(text))
		require.Equal(t, want != nil, ok, text)
		if want != nil {
			require.Equal(t, *want, got, text)
		}
	}
}
