package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
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
					return relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:y", o...)
				},
				"prompt": func(o ...facade.CallOption) (json.RawMessage, error) {
					return relay.Of(c).GetPromptRaw(t.Context(), "s/p", nil, o...)
				},
			} {
				mu.Lock()
				answer = required
				mu.Unlock()
				got, err := send(relay.WithRelay(relay.Continuation{}))
				require.NoError(rt, err, name)
				require.Equal(rt, required, string(got), name)
				require.NotContains(rt, last, "inputResponses", name)
				wants, ok := relay.ReadInputRequired(got)
				require.True(rt, ok, name)
				require.Equal(rt, requests, string(wants.InputRequests), name)
				require.Equal(rt, state, string(wants.RequestState), name)

				done := `{"resultType":"complete","n":9223372036854775808,"content":[],"contents":[],"messages":[]}`
				mu.Lock()
				answer = done
				mu.Unlock()
				got, err = send(relay.WithRelay(relay.Continuation{InputResponses: json.RawMessage(responses), RequestState: wants.RequestState}))
				require.NoError(rt, err, name)
				require.Equal(rt, done, string(got), name)
				_, ok = relay.ReadInputRequired(got)
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
		c := registered(t, spec)
		rapid.Check(t, func(rt *rapid.T) {
			text := `{"_meta":{` + drawMembers(rt, "meta") + `},"resultType":"complete",` + drawMembers(rt, "members") + `}`
			want := text
			mu.Lock()
			answer = text
			mu.Unlock()
			for name, send := range map[string]func() (json.RawMessage, error){
				"call":   func() (json.RawMessage, error) { return c.CallToolRaw(t.Context(), "s/x", nil) },
				"read":   func() (json.RawMessage, error) { return relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:y") },
				"prompt": func() (json.RawMessage, error) { return relay.Of(c).GetPromptRaw(t.Context(), "s/p", nil) },
				"complete": func() (json.RawMessage, error) {
					return relay.Of(c).CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"})
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
		c := registered(t, spec, everythingDeclared)
		modern := strings.Contains(t.Name(), "2026")
		most := 1 // of which the bridge of the go-sdk makes requests
		if modern {
			most = 3
		}
		args := json.RawMessage(fmt.Sprintf(`{"method":"elicitation/create","rounds":%d,"params":%s}`, most, wantsText))
		next := relay.Continuation{}
		opts := []facade.CallOption{
			facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`)),
			facade.WithCallHandlers(answersAs("the handler")),
		}
		rounds := 0
		for {
			got, err := c.CallToolRaw(t.Context(), "s/consult", args, append(opts, relay.WithRelay(next))...)
			require.NoError(t, err)
			required, ok := relay.ReadInputRequired(got)
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
			next = relay.Continuation{RequestState: required.RequestState, InputResponses: json.RawMessage(`{"consult":{"action":"accept","content":{"name":"the relay","level":1}}}`)}
		}
		if modern {
			require.Equal(t, 3, rounds)
			return
		}
		require.Zero(t, rounds)
		_, err := c.CallToolRaw(t.Context(), "s/consult", args, relay.WithRelay(relay.Continuation{RequestState: json.RawMessage(`"s"`)}))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "must begin again")
	})
}

// The capabilities of another client are declared for a call that it answers, and for no
// other.
func TestWithRelay_declares_the_capabilities_of_the_caller(t *testing.T) {
	var last string
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		switch method {
		case "server/discover":
			return rawDiscover
		case "tools/call":
			last = line
			return `{"content":[],"resultType":"complete"}`
		}
		return ""
	})})
	theirs := `{"extensions":{"io.modelcontextprotocol/ui":{"v":1.0}},"sampling":{}}`
	meta := facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":` + theirs + `}`))
	raw := &relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) { return nil, nil }}
	for name, tc := range map[string]struct {
		opts []facade.CallOption
		want bool
	}{
		"relay":          {[]facade.CallOption{meta, relay.WithRelay(relay.Continuation{})}, true},
		"raw handlers":   {[]facade.CallOption{relay.WithHandlers(raw), meta}, true},
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
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})})
	state := relay.Continuation{RequestState: json.RawMessage(`"s"`)}
	for i, next := range []relay.Continuation{{InputResponses: json.RawMessage(`[]`)}, {InputResponses: json.RawMessage(`{`)}, {RequestState: json.RawMessage(`"a`)}, {RequestState: json.RawMessage(`"a","b":1`)}} {
		_, err := c.CallToolRaw(t.Context(), "s/echo", nil, relay.WithRelay(next))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, fmt.Sprint(i))
		_, err = relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:y", relay.WithRelay(next))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, fmt.Sprint(i))
	}
	_, err := c.StartTask(t.Context(), "s/echo", nil, relay.WithRelay(relay.Continuation{}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = relay.Of(c).CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"}, relay.WithRelay(state))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

func TestReadInputRequired(t *testing.T) {
	for text, want := range map[string]*relay.InputRequired{
		`{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}`: {InputRequests: json.RawMessage(`{"a":{}}`), RequestState: json.RawMessage(`"s"`)},
		`{"resultType":"input_required","inputRequests":null,"requestState":null}`:    {},
		`{"resultType":"complete","text":"input_required"}`:                           nil,
		`{"text":"\"input_required\"","resultType":"complete"}`:                       nil,
		`{"resultType":"input_required"`:                                              nil,
		`["input_required"]`:                                                          nil,
		``:                                                                            nil,
	} {
		got, ok := relay.ReadInputRequired(json.RawMessage(text))
		require.Equal(t, want != nil, ok, text)
		if want != nil {
			require.Equal(t, *want, got, text)
		}
	}
}

// onEveryRawServer runs f with a server whose results are the texts that answer returns, as
// rawServer, over each transport and in each era. It gives answers byte for byte.
func onEveryRawServer(t *testing.T, answer func(method, line string) string, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	modern := func(method, line string) string {
		text := answer(method, line)
		if text == "" && method == "server/discover" {
			return rawDiscover
		}
		return text
	}
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory legacy": {Era: mcpvisor.EraLegacy, InMemory: rawServer(answer)},
		"memory modern": {Era: mcpvisor.EraModern, InMemory: rawServer(modern)},
		"custom legacy": {Era: mcpvisor.EraLegacy, Transport: overTransport(rawServer(answer))},
		"custom modern": {Era: mcpvisor.EraModern, Transport: overTransport(rawServer(modern))},
		"HTTP legacy":   {Era: mcpvisor.EraLegacy, HTTP: overHTTP(t, rawOf(answer))},
		"HTTP modern":   {Era: mcpvisor.EraModern, HTTP: overHTTP(t, rawOf(modern))},
	} {
		spec.Name = "s"
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}

// textsOfJSON are values of which a client that decodes and encodes them makes other bytes.
var textsOfJSON = rapid.SampledFrom([]string{"1.0", "9223372036854775808", "-0", "1e400", "0.10", "1E+2", `"<&>"`, `"\u0041\/"`, `"é"`, `"\ud83d\ude00"`,

	"null", "true", `{"b":1,"a":2}`, `{"a":1,"a":2}`, `[ 1 ,2.50 ]`, `{}`, `""`, `{"io.modelcontextprotocol/ui":{"resourceUri":"ui://x"}}`})

// drawMembers draws the text of members of a JSON object, without braces.
func drawMembers(t *rapid.T, label string) string {
	names := rapid.SampledFrom([]string{"a", "com.example/x", "traceparent", `\u0061b`, "annotations", "é", "x y"})
	space := rapid.SampledFrom([]string{"", " ", "\t"})
	text := ""
	for i := range rapid.IntRange(1, 6).Draw(t, label) {
		if i > 0 {
			text += "," + space.Draw(t, "space")
		}
		text += `"` + names.Draw(t, "name") + fmt.Sprint(i) + `"` + space.Draw(t, "space") + ":" + textsOfJSON.Draw(t, "value")
	}
	return text
}

// passed returns what becomes of params on the way to the server: a transport of the go-sdk encodes
// them itself, without white space between values. Elsewhere they stay, and results always do.
func passed(spec mcpvisor.ServerSpec, text string) string {
	var compact bytes.Buffer
	if spec.Transport == nil || json.Compact(&compact, []byte(text)) != nil {
		return text
	}
	return compact.String()
}

func TestWithMeta_invalid(t *testing.T) {
	c := newClient(t)
	calls := 0
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: rawServer(func(method, _ string) string {
		if method == "tools/call" || strings.HasSuffix(method, "/read") {
			calls++
		}
		return ""
	})}))
	deep := strings.Repeat(`{"a":`, 9001) + "1" + strings.Repeat("}", 9001)
	for name, meta := range map[string]string{"a list": `[1]`, "cut off": `{"a":1`, "two": `{}{}`, "too long": `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, "too deep": deep} {
		_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(meta)))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, name)
		_, err = relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:y", facade.WithMeta(json.RawMessage(meta)))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, name)
		requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	}
	require.Zero(t, calls)
	_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(nil), facade.WithMeta(json.RawMessage(" {} ")))
	require.NoError(t, err)
}

// Members of _meta reach the server byte for byte, with each kind of request.
func TestWithMeta_byte_for_byte(t *testing.T) {
	var mu sync.Mutex
	var last string
	answer := func(method, line string) string {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case "resources/read":
			last = line
			return `{"contents":[],"resultType":"complete"}`
		case "prompts/get":
			last = line
			return `{"messages":[],"resultType":"complete"}`
		case "completion/complete":
			last = line
			return `{"completion":{"values":[]},"resultType":"complete"}`
		case "tools/call":
			last = line
			return `{"content":[],"resultType":"complete"}`
		}
		return ""
	}
	onEveryRawServer(t, answer, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		rapid.Check(t, func(rt *rapid.T) {
			kept, more := drawMembers(rt, "members"), drawMembers(rt, "more")
			own := rapid.SampledFrom([]string{"", `,"progressToken":7`, `,"\u0070rogressToken": {"a":1}`, `,"io.modelcontextprotocol/clientInfo":{}`}).Draw(rt, "own")
			meta := facade.WithMeta(json.RawMessage("{" + kept + own + "," + more + "}"))
			for name, call := range map[string]func() error{
				"call": func() error {
					_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"z":1}`), meta)
					return err
				},
				"read":   func() error { _, err := relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:y", meta); return err },
				"prompt": func() error { _, err := relay.Of(c).GetPromptRaw(t.Context(), "s/p", nil, meta); return err },
				"complete": func() error {
					_, err := c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"}, meta)
					return err
				},
			} {
				require.NoError(rt, call(), name)
				mu.Lock()
				line := last
				mu.Unlock()
				want := strings.Trim(passed(spec, "{"+kept+","+more+"}"), "{}") // nothing more: some values end with a brace
				if own != "" {                                                  // white space goes with a member that is left out
					between := strings.NewReplacer(", ", ",", ",\t", ",")
					line, want = between.Replace(line), between.Replace(want)
				}
				require.Contains(rt, line, want, name)
				require.Equal(rt, 1, strings.Count(line, "rogressToken"), "%s: one token in %s", name, line)
			}
		})
	})
}

// The observer's members win over those of the caller, and a tracestate goes with its traceparent.
func TestWithMeta_beside_an_observer(t *testing.T) {
	var last string
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: rawServer(func(method, line string) string {
		if method == "tools/call" {
			last = line
		}
		return ""
	})}, facade.WithObserver(metaObserver{[]byte(`{"traceparent":"ours","com.example/ours":1}`)}))
	_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(`{"traceparent":"theirs","tracestate":"theirs","baggage":"theirs"}`)))
	require.NoError(t, err)
	require.Contains(t, last, `"traceparent":"ours","com.example/ours":1,"baggage":"theirs"`)
	require.Equal(t, 1, strings.Count(last, "theirs"))
	_, err = c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(`{"traceparent":"theirs"}`)))
	require.NoError(t, err)
	require.Contains(t, last, `"traceparent":"ours","com.example/ours":1}`)
}

// metaObserver has members of _meta travel with each request.
type metaObserver struct{ meta []byte }

func (o metaObserver) RequestStarted(ctx context.Context, _ monitor.RequestStart) (context.Context, []byte) {
	return ctx, o.meta
}
func (metaObserver) RequestEnded(context.Context, monitor.RequestEnd) {}

// onlyCatalog returns what the one server of a client offers.
func onlyCatalog(t require.TestingT, c *facade.Client) relay.Catalog {
	all := slices.Collect(relay.Of(c).Catalogs())
	require.Len(t, all, 1)
	return all[0]
}

// Entries are kept as the server sent them, after each reading of the lists.
func TestCatalogs_are_as_sent(t *testing.T) {
	var mu sync.Mutex
	lists := map[string]string{}
	onEveryRawServer(t, func(method, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		return lists[method]
	}, func(t *testing.T, spec mcpvisor.ServerSpec) {
		mu.Lock()
		clear(lists)
		mu.Unlock()
		c := registered(t, spec)
		version := onlyCatalog(t, c).Version
		readings := 0 // entries that say the same would stay as they are
		rapid.Check(t, func(rt *rapid.T) {
			readings++
			entry := func(identity string) string {
				text := "{" + identity + fmt.Sprintf(`,"reading":%d`, readings) + `,"inputSchema":{"type":"object","default":1.0},"x":` + textsOfJSON.Draw(rt, "value")
				return text + "," + drawMembers(rt, "members") + "}"
			}
			tools := []string{entry(`"name":"a"`), entry(`"name" : "b"`)}
			resource, template, prompt := entry(`"uri":"x:a","name":"n"`), entry(`"uriTemplate":"x:{a}","name":"n"`), entry(`"name":"p"`)
			mu.Lock()
			lists["tools/list"] = fmt.Sprintf(`{"resultType":"complete","tools":[%s , %s]}`, tools[1], tools[0])
			lists["resources/list"] = `{"resultType":"complete","resources":[` + resource + `]}`
			lists["resources/templates/list"] = `{"resultType":"complete","resourceTemplates":[` + template + `]}`
			lists["prompts/list"] = `{"resultType":"complete","prompts":[` + prompt + `]}`
			mu.Unlock()
			require.NoError(rt, c.Refresh(t.Context(), "s"))
			got := onlyCatalog(rt, c)
			require.Len(rt, got.Tools, 2)
			require.Equal(rt, tools[0], string(got.Tools[0].Raw))
			require.Equal(rt, tools[1], string(got.Tools[1].Raw))
			require.Equal(rt, resource, string(got.Resources[0].Raw))
			require.Equal(rt, template, string(got.Templates[0].Raw))
			require.Equal(rt, prompt, string(got.Prompts[0].Raw))
			require.NotEqual(rt, version, got.Version)
			require.Equal(rt, got.Version, onlyCatalog(rt, c).Version)
			version = got.Version
			tool, ok := c.Tool("s/a")
			require.True(rt, ok)
			require.Equal(rt, tools[0], string(tool.Raw))
		})
	})
}

// A member that only the raw entry has is a change, too, and a server that is down keeps its
// entries.
func TestCatalogs_change_of_a_member(t *testing.T) {
	var mu sync.Mutex
	const first = `{"name":"a","inputSchema":{},"later":1.0}`
	text := first
	server := rawServer(func(method, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		if method == "tools/list" {
			return `{"tools":[` + text + `]}`
		}
		return ""
	})
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server, Policy: mcpvisor.NoRetry()})
	events := watch(t, c, mcpvisor.EventChanged)
	set := func(next string) {
		mu.Lock()
		text = next
		mu.Unlock()
		require.NoError(t, c.Refresh(t.Context(), "s"))
	}
	set(`{"name":"a","inputSchema":{},"later":1}`)
	set(`{"name":"a","inputSchema":{},"later":1,"title":"t"}`)
	require.Equal(t, []string{"s/a"}, next(t, events).Change.Tools.Changed)
	require.Equal(t, []string{"s/a"}, next(t, events).Change.Tools.Changed)
	require.Empty(t, events)
	restart(t, c)
	require.True(t, json.Valid(onlyCatalog(t, c).Tools[0].Raw))
}
