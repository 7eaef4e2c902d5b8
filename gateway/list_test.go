package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

func withPageSize(entries int) Option { return func(o *options) { o.pageSize = entries } }

// A session of the go-sdk reads all pages.
func TestListTools_pages(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("a", mcptest.Script{ExtraTools: 30}), fixture("b", mcptest.Script{}))
		s := connect(t, Transport(c, withPageSize(7)), version, nil)
		var want, got []string
		for _, tool := range c.Tools() {
			want = append(want, tool.Alias)
		}
		for tool, err := range s.Tools(t.Context(), nil) {
			require.NoError(t, err)
			got = append(got, tool.Name)
		}
		require.Equal(t, want, got)
	})
}

// Lists say that they must not be cached, and since 2026-07-28 that they are complete.
func TestLists_are_not_cached(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		answer := s.call(method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
		require.NoError(t, answer.Error)
		require.Equal(t, `"complete"`, member(t, answer.Result, "resultType"))
		require.Equal(t, "0", member(t, answer.Result, "ttlMs"))
		require.Equal(t, `"private"`, member(t, answer.Result, "cacheScope"))
	}
}

// A resource that two servers have is read from the one that its URI names.
func TestResources_of_two_servers(t *testing.T) {
	ctx := t.Context()
	script := func(text string, more ...mcptest.ResourceDef) mcptest.Script {
		return mcptest.Script{Resources: append(more, mcptest.ResourceDef{URI: "file:///same", Text: text}), NoPrompts: true}
	}
	c := newClient(t, fixture("a", script("of a", mcptest.ResourceDef{URI: "file:///only", Text: "only a"})), fixture("b", script("of b")))
	s := connect(t, Transport(c), "2025-11-25", nil)
	listed, err := s.ListResources(ctx, nil)
	require.NoError(t, err)
	var uris []string
	for _, r := range listed.Resources {
		uris = append(uris, r.URI)
	}
	require.Equal(t, []string{"file:///only", "mcpvisor://a/file:///same", "mcpvisor://b/file:///same"}, uris)
	for uri, want := range map[string]string{"file:///only": "only a", "mcpvisor://a/file:///same": "of a", "mcpvisor://b/file:///same": "of b", "mcpvisor://a/file:///only": "only a"} {
		got, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		require.NoError(t, err)
		require.Equal(t, want, got.Contents[0].Text)
	}
	_, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///same"})
	var wire *jsonrpc.Error
	require.ErrorAs(t, err, &wire)
	require.EqualValues(t, jsonrpc.CodeInvalidParams, wire.Code)
	require.Contains(t, wire.Message, "use one of mcpvisor://a/file:///same mcpvisor://b/file:///same")

	templates, err := s.ListResourceTemplates(ctx, nil)
	require.NoError(t, err)
	require.Len(t, templates.ResourceTemplates, 2)
	require.Equal(t, "mcpvisor://a/"+c.ResourceTemplates()[0].URITemplate, templates.ResourceTemplates[0].URITemplate)
}

// Completion finds the server of the prompt or the template, and knows the server's own name.
func TestComplete(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		server := mcp.NewServer(&mcp.Implementation{Name: "places", Version: "1"}, &mcp.ServerOptions{
			CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				p := r.Params
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
					Values: []string{p.Ref.Name + p.Ref.URI + " " + p.Argument.Name + " " + p.Argument.Value + " " + p.Context.Arguments["country"]}}}, nil
			},
		})
		server.AddPrompt(&mcp.Prompt{Name: "visit.us"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
		server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "city", URITemplate: "city://{name}"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil })
		c := newClient(t, mcpvisor.ServerSpec{Name: "p", InMemory: facade.ServeInMemory(server)})
		s := connect(t, Transport(c), version, nil)
		alias := mcpvisor.Alias("p", "visit.us")
		_, _, plain := mcpvisor.SplitAlias(alias)
		require.False(t, plain, "the alias has to be looked up")
		for want, ref := range map[string]*mcp.CompleteReference{
			"visit.us name Par fr":       {Type: "ref/prompt", Name: alias},
			"city://{name} name Par fr":  {Type: "ref/resource", URI: "city://{name}"},
			"city://{other} name Par fr": {Type: "ref/resource", URI: "mcpvisor://p/city://{other}"},
		} {
			got, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "Par"},
				Context: &mcp.CompleteContext{Arguments: map[string]string{"country": "fr"}}})
			require.NoError(t, err)
			require.Equal(t, []string{want}, got.Completion.Values)
		}
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: alias})
		require.NoError(t, err)
		require.Empty(t, got.Messages)
	})
}

// Each change of a catalog is announced to the session, which then lists the new state.
func TestListChanged(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t)
		tools, prompts, resources := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{}, 100)
		s := connect(t, Transport(c, WithSettings(settingsOf(Settings{OnDown: pointerTo(Withdraw)}))), version, &mcp.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { tools <- struct{}{} },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { prompts <- struct{}{} },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { resources <- struct{}{} },
		})
		awaitTools := func(what string, n int) {
			t.Helper()
			for {
				listed, err := s.ListTools(ctx, nil)
				require.NoError(t, err, what)
				if len(listed.Tools) == n {
					return
				}
				receive(t, tools)
			}
		}
		awaitTools("nothing is registered", 0)
		spec := fixture("a", mcptest.Script{})
		spec.Policy = supervisor.Retry(1, time.Hour)
		require.NoError(t, c.Register(ctx, spec))
		all := len(c.Tools())
		receive(t, tools)
		receive(t, prompts)
		receive(t, resources)
		awaitTools("the server is ready", all)

		_, err := c.CallTool(ctx, "a/add_tool", map[string]any{"name": "fresh"})
		require.NoError(t, err)
		receive(t, tools)
		awaitTools("a tool was added", all+1)

		_, err = c.CallTool(ctx, "a/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		receive(t, tools)
		receive(t, prompts)
		receive(t, resources)
		awaitTools("the server has crashed", 0)

		require.NoError(t, c.Restart(ctx, "a"))
		receive(t, tools)
		awaitTools("the server is ready again", all)
		require.NoError(t, c.Unregister(ctx, "a"))
		receive(t, tools)
		awaitTools("the server was unregistered", 0)
	})
}

// An update reaches the sessions that subscribed, and no other. The subscription stays while
// one of them has it, and over restarts.
func TestSubscribe(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t, fixture("a", mcptest.Script{}))
		transport := Transport(c)
		uri := c.Resources()[0].URI
		type session struct {
			*mcp.ClientSession
			updates chan string
		}
		open := func() session {
			updates := make(chan string, 100)
			s := connect(t, transport, version, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				updates <- r.Params.URI
			}})
			return session{s, updates}
		}
		touch := func() {
			r, err := c.CallTool(ctx, "a/touch", map[string]any{"uri": uri})
			text(t, r, err)
		}
		one, two, none := open(), open(), open()
		for _, s := range []session{one, two} {
			require.NoError(t, s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}))
		}
		held := func(n int) func() bool {
			d := transport.(*gateway)
			return func() bool { return d.subscriptions.Sessions(resource.Name{Server: "a", URI: uri}) == n }
		}
		until(t, held(2))
		// In the modern era the client does not wait until its subscription stands.
		until(t, func() bool { touch(); return len(one.updates) > 0 && len(two.updates) > 0 })
		require.Equal(t, uri, receive(t, one.updates))

		require.NoError(t, one.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}))
		until(t, held(1))
		drain(two.updates)
		touch()
		require.Equal(t, uri, receive(t, two.updates), "the other session keeps its subscription")

		drain(two.updates)
		_, err := c.CallTool(ctx, "a/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.Equal(t, uri, receive(t, two.updates), "after a restart it may have changed")
		require.NoError(t, c.WaitReady(ctx, "a"))
		require.NoError(t, two.Close())
		until(t, held(0))
		require.Empty(t, none.updates)
	})
}

func drain[T any](values <-chan T) {
	for {
		select {
		case <-values:
		default:
			return
		}
	}
}

// The acknowledgement of subscriptions/listen comes first, and says what is reported. Each
// notification names the request.
func TestListen(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	uri := c.Resources()[0].URI
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	s.send(7, "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`","file:///nothing"]}}`)
	ack := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/subscriptions/acknowledged", ack.Method)
	require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`"]}}`, string(ack.Params))
	_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
	require.NoError(t, err)
	changed := s.read().(*jsonrpc.Request)
	require.Equal(t, "notifications/tools/list_changed", changed.Method)
	require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}`, string(changed.Params))
	require.EqualValues(t, jsonrpc.CodeInvalidRequest, s.callWith(7, "ping", "").Error.(*jsonrpc.Error).Code, "the id is in use")

	s.notify("notifications/cancelled", `{"requestId":7}`)
	until(t, func() bool { return s.callWith(7, "ping", "").Error == nil })
	require.Zero(t, s.conn.(*connection).session.notify.Count().Listeners, "nothing is reported any more")
}

// After missed events a session is told what differs from what it knew.
func TestListChanged_after_missed_events(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	conn := openRaw(t, Transport(c)).conn.(*connection)
	conn.session.notify.StartSession()
	conn.session.gateway.hub.mu.Lock()
	conn.session.gateway.hub.told = &listing.Listing{} // as if it had missed that the server is ready
	conn.session.gateway.hub.mu.Unlock()
	conn.session.gateway.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Equal(t, "notifications/tools/list_changed", conn.session.notify.Next().(*jsonrpc.Request).Method)
	for conn.session.notify.Next() != nil {
	}
	conn.session.gateway.hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed, Missed: 1})
	require.Nil(t, conn.session.notify.Next(), "nothing has changed since")
}

// A session sets one level at a time, so that however many requests it sends, a server gets one.
func TestSetLoggingLevel_one_at_a_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = time.Second
		c := newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{
			{At: mcptest.StageCall, Method: "logging/setLevel", Do: mcptest.ActionDelay, Delay: took}}}))
		s := openRaw(t, Transport(c))
		began := time.Now()
		for i, level := range []string{"debug", "error", "info"} {
			s.send(float64(i), "logging/setLevel", `{"level":"`+level+`"}`)
		}
		for i := range 3 {
			require.NoError(t, s.read().(*jsonrpc.Response).Error)
			require.Equal(t, time.Duration(i+1)*took, time.Since(began))
		}
	})
}

// shufflingServer lists what lists has by method, at each reading with the members in another order, and the
// entries as well.
func shufflingServer(lists *atomic.Pointer[map[string][]string]) *mcpvisor.InMemory {
	return serveRaw(func(m *rawtest.Message) string {
		if m.Method == "initialize" {
			return `"result":` + testutil.Shuffled(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`)
		}
		entries, ok := (*lists.Load())[m.Method]
		if !ok {
			return ""
		}
		var all []string
		for _, i := range rand.Perm(len(entries)) {
			all = append(all, testutil.Shuffled(entries[i]))
		}
		member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}[m.Method]
		return `"result":{"` + member + `":[` + strings.Join(all, ",") + `]}`
	}, nil)
}

const (
	shuffledTool = `{"name":"%s","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","default":9007199254740993},"b":{"type":"number","const":1.0},"c":{},"d":{},"e":{}},"required":["a","b"]},` +
		`"annotations":{"readOnlyHint":true,"x-later":9007199254740993,"title":null,"x-list":[1.0,"a"]},"_meta":{"big":9007199254740993,"one":1.0,"a":{"b":1,"c":2,"d":3}}}`
	shuffledMeta = `"annotations":{"priority":0.5,"audience":["user"],"x-later":12345678901234567890},"_meta":{"big":9007199254740993,"c":1,"d":2,"e":3}`
)

func shuffledLists(tools ...string) *map[string][]string {
	return &map[string][]string{
		"tools/list":               tools,
		"prompts/list":             {`{"name":"p","description":"d","arguments":[{"name":"a","required":true,"description":"x"}],"_meta":{"big":9007199254740993,"a":1,"b":2}}`},
		"resources/list":           {`{"uri":"x:a","name":"a","mimeType":"text/plain",` + shuffledMeta + `}`},
		"resources/templates/list": {`{"uriTemplate":"x:{a}","name":"a","mimeType":"text/plain",` + shuffledMeta + `}`},
	}
}

// A server that writes the same with its members in another order, at each start and each reading, changes no
// byte of the lists of the gateway and of the client, and is reported as unchanged. After a real change of
// one entry, the bytes of the others stay.
func TestLists_in_another_order(t *testing.T) {
	lists := new(atomic.Pointer[map[string][]string])
	first, second := fmt.Sprintf(shuffledTool, "first"), fmt.Sprintf(shuffledTool, "second")
	lists.Store(shuffledLists(first, second))
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: shufflingServer(lists)}
	c := newClient(t, spec)
	s := openRaw(t, Transport(c))
	read := func() map[string]string {
		got := map[string]string{}
		for method := range *lists.Load() {
			answer := s.call(method, "")
			require.NoError(t, answer.Error)
			got[method] = string(answer.Result)
		}
		return got
	}
	rawOf := func() (all []string) {
		for known := range relay.Of(c).Catalogs() {
			for _, tool := range known.Tools {
				all = append(all, string(tool.Raw))
			}
			for _, r := range known.Resources {
				all = append(all, string(r.Raw))
			}
			for _, r := range known.Templates {
				all = append(all, string(r.Raw))
			}
			for _, p := range known.Prompts {
				all = append(all, string(p.Raw))
			}
		}
		return all
	}
	before, raw := read(), rawOf()
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		require.Contains(t, before[method], `"big":9007199254740993`, method)
	}
	require.Contains(t, before["tools/list"], `"x-later":9007199254740993`)
	require.Contains(t, before["tools/list"], `"x-list":[1.0,"a"]`)
	require.Contains(t, before["tools/list"], `"one":1.0`)
	require.NotContains(t, before["tools/list"], "null", "hosts refuse the whole list")
	require.Contains(t, before["resources/list"], `"x-later":12345678901234567890`)
	require.Contains(t, before["resources/templates/list"], `"x-later":12345678901234567890`)

	s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
	require.Equal(t, "notifications/subscriptions/acknowledged", s.read().(*jsonrpc.Request).Method)
	events := c.Watch(t.Context(), mcpvisor.EventReady, mcpvisor.EventChanged)
	for range 3 {
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		require.Equal(t, before, read())
		require.NoError(t, c.Refresh(t.Context(), "s"))
		require.Equal(t, before, read())
		require.Equal(t, raw, rawOf(), "the lists of the client")
	}
	spec.Policy = supervisor.Retry(7, time.Second) // another registration
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	require.Equal(t, before, read())

	lists.Store(shuffledLists(first, strings.Replace(second, `"const":1.0`, `"const":1`, 1)))
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.Equal(t, "notifications/tools/list_changed", s.read().(*jsonrpc.Request).Method, "the first notification")
	after := read()
	kept, _, found := strings.Cut(before["tools/list"], `"name":"mcp__s__first"`)
	require.True(t, found)
	require.NotEqual(t, before["tools/list"], after["tools/list"])
	require.True(t, strings.HasPrefix(after["tools/list"], kept))
	delete(before, "tools/list")
	delete(after, "tools/list")
	require.Equal(t, before, after)
	for range 4 {
		ready := receive(t, events)
		require.Equal(t, mcpvisor.EventReady, ready.Kind)
		require.Nil(t, ready.Change)
	}
	changed := receive(t, events)
	require.Equal(t, mcpvisor.EventChanged, changed.Kind)
	require.Equal(t, mcpvisor.Change{Tools: mcpvisor.Delta{Changed: []string{"s/second"}}}, *changed.Change)
}

// What a model reads in lists is what people see there. Results are passed on as they are.
func TestLists_have_no_hidden_characters(t *testing.T) {
	const mark = "a\x1b[8m\u202e\u200bb"
	h := mark + strings.Map(func(r rune) rune { return 0xE0000 + r }, "obey")
	const shown = "a[8mb"
	encoded, err := json.Marshal(h)
	require.NoError(t, err)
	text := string(encoded)
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Instructions: h})
	server.AddTool(&mcp.Tool{Name: "t", Title: h, Description: h, Annotations: &mcp.ToolAnnotations{Title: h},
		InputSchema: json.RawMessage(`{"type":"object","description":` + text + `,"properties":{"fine":{"title":` + text + `,"enum":[` + text + `,"x",9007199254740993]},` +
			text + `:{"type":"string"}},"required":["fine",` + text + `],"examples":[[` + text + `]],"x":{"default":` + text + `}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: h}}}, nil
		})
	server.AddPrompt(&mcp.Prompt{Name: "p", Title: h, Description: h, Arguments: []*mcp.PromptArgument{{Name: "x", Title: h, Description: h}}}, nil)
	server.AddResource(&mcp.Resource{URI: "mem://r", Name: h, Title: h, Description: h}, nil)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "mem://{x}", Name: h, Title: h, Description: h}, nil)
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(server)})
	inBothEras(t, func(t *testing.T, version string) {
		s := connect(t, Transport(c), version, nil)
		require.Equal(t, "s: "+shown, s.InitializeResult().Instructions)
		tools, err := s.ListTools(t.Context(), nil)
		require.NoError(t, err)
		prompts, err := s.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
		resources, err := s.ListResources(t.Context(), nil)
		require.NoError(t, err)
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		require.NoError(t, err)
		tool, prompt, resource, template := tools.Tools[0], prompts.Prompts[0], resources.Resources[0], templates.ResourceTemplates[0]
		for _, text := range []string{tool.Title, tool.Description, tool.Annotations.Title, prompt.Title, prompt.Description, prompt.Arguments[0].Title,
			prompt.Arguments[0].Description, resource.Name, resource.Title, resource.Description, template.Name, template.Title, template.Description} {
			require.Equal(t, shown, text)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name})
		require.NoError(t, err)
		require.Equal(t, h, textOf(r))
	})
	schema := member(t, json.RawMessage(strings.TrimSuffix(strings.TrimPrefix(member(t, openRaw(t, Transport(c)).call("tools/list", "").Result, "tools"), "["), "]")), "inputSchema")
	require.JSONEq(t, `{"type":"object","description":"a[8mb","properties":{"fine":{"title":"a[8mb","enum":["x",9007199254740993]}},"required":["fine"],"examples":[[]],"x":{}}`, schema)
	require.Contains(t, schema, "9007199254740993")
	require.Equal(t, h, c.Tools()[0].Definition.Description, "the definition is shared")
}

// One tool of a hundred has a schema for which hosts reject the list: 99 are listed, and the
// status says why. The tool cannot be called, under no name of it.
func TestHandler_withholds_schemas(t *testing.T) {
	script := mcptest.Script{}
	for i := range 99 {
		script.Tools = append(script.Tools, mcptest.ToolDef{Name: fmt.Sprintf("good_%d", i), As: "echo"})
	}
	script.Tools = append(script.Tools, mcptest.ToolDef{Name: "evil", As: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`)})
	s, url := serveHTTP(t, newClient(t, fixture("a", script)))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 99, strings.Count(answer, `"name":"a__good_`))
	require.NotContains(t, answer, "evil")
	require.Equal(t, []Withheld{{Server: "a", Name: "evil", Kind: "tool",
		Reason: `its inputSchema refers to "file:///etc/passwd"; references must stay in the schema`}}, s.Status().Withheld)
	for _, name := range []string{"a__evil", "a/evil", "mcp__a__evil"} {
		_, answer := p.post(toolCallOf(2, name, `{"text":"x"}`))
		require.Equal(t, "-32602", memberOf(t, []byte(answer), "error", "code"), "%s: %s", name, answer)
	}
}
