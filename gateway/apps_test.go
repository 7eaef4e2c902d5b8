package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// appServer is a server with user interfaces at these URIs. Each URI has a tool, a resource and a prompt that refer to it in
// all ways, and can be read. Templates in braces have neither.
func appServer(name string, uris ...string) mcpvisor.ServerSpec {
	var tools, resources, prompts, templates []string
	for i, uri := range uris {
		if strings.Contains(uri, "{") {
			templates = append(templates, fmt.Sprintf(`{"name":"t%d","uriTemplate":%q}`, i, uri))
			continue
		}
		tools = append(tools, fmt.Sprintf(`{"name":"show%d","inputSchema":{"type":"object"},"_meta":{"keep":9007199254740993,"ui":{"visibility":["model"],"resourceUri":%q},"ui/resourceUri":%[2]q,"openai\/outputTemplate":%[2]q}}`, i, uri))
		resources = append(resources, fmt.Sprintf(`{"name":"r","uri":%q}`, uri))
		prompts = append(prompts, fmt.Sprintf(`{"name":"p%d"}`, i))
	}
	at := func(p string) string {
		var i int
		_, _ = fmt.Sscanf(p[1:], "%d", &i)
		return uris[i]
	}
	return mcpvisor.ServerSpec{Name: name, Era: mcpvisor.EraLegacy, InMemory: serveRaw(func(m *rawtest.Message) string {
		var p struct{ URI, Name string }
		_ = json.Unmarshal(m.Params, &p)
		switch m.Method {
		case "initialize":
			return legacyHandshake(`{"tools":{},"prompts":{},"completions":{},"resources":{"subscribe":true}}`)
		case "tools/list":
			return `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
		case "resources/list":
			return `"result":{"resources":[` + strings.Join(resources, ",") + `]}`
		case "resources/templates/list":
			return `"result":{"resourceTemplates":[` + strings.Join(templates, ",") + `]}`
		case "prompts/list":
			return `"result":{"prompts":[` + strings.Join(prompts, ",") + `]}`
		case "completion/complete":
			return fmt.Sprintf(`"result":{"completion":{"values":[%q]}}`, name)
		case "tools/call":
			uri := at(strings.TrimPrefix(p.Name, "sho"))
			return fmt.Sprintf(`"result":{"content":[{"type":"text","text":"uri"},{"type":"resource_link","uri":%[1]q,"name":"l"},{"type":"resource","resource":{"uri":%[1]q,"text":"e","_meta":{"ui/resourceUri":%[1]q}}}],"structuredContent":{"uri":%[1]q},"_meta":{"ui":{"resourceUri":%[1]q},"openai/outputTemplate":%[1]q}}`, uri)
		case "prompts/get":
			return fmt.Sprintf(`"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":%[1]q,"name":"l"}},{"role":"user","content":{"type":"resource","resource":{"uri":%[1]q,"text":"e"}}}]}`, at(p.Name))
		case "resources/read":
			return fmt.Sprintf(`"result":{"contents":[{"uri":%q,"text":%q}]}`, p.URI, name+" "+p.URI)
		case "resources/subscribe":
			m.Reply(`"result":{}`)
			m.Send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, p.URI)
			return rawtest.None
		}
		return ""
	}, nil)}
}

// requester sends a request and returns its result.
type requester func(method, params string) json.RawMessage

// requesters open sessions of all kinds at a client.
func requesters(t *testing.T, c *facade.Client, opts ...Option) map[string]requester {
	t.Helper()
	stream := openRaw(t, Transport(c, opts...))
	stream.initializeWith("{}")
	modern := openRaw(t, Transport(c, opts...))
	_, url := serveHTTP(t, c, opts...)
	all := map[string]requester{
		"stream": func(method, params string) json.RawMessage {
			a := stream.call(method, params)
			require.NoError(t, a.Error, "%s %s", method, params)
			return a.Result
		},
		"modern stream": func(method, params string) json.RawMessage {
			a := modern.call(method, withModernMeta(params))
			require.NoError(t, a.Error, "%s %s", method, params)
			return a.Result
		},
	}
	for _, version := range supportedVersions() {
		p := newPeer(t, url)
		if version != modernVersion {
			p.initialize(version)
		}
		user := p.user(version == modernVersion)
		all["HTTP "+version] = func(method, params string) json.RawMessage {
			result, failure := user(method, params)
			require.Empty(t, failure, "%s %s", method, params)
			return json.RawMessage(result)
		}
	}
	return all
}

// listedTool is an entry of tools/list with its user interface.
type listedTool struct {
	Name string
	Meta struct {
		UI struct {
			ResourceURI string
			Visibility  []string
		}
		Older   string `json:"ui/resourceUri"`
		ChatGPT string `json:"openai/outputTemplate"`
		Keep    json.Number
	} `json:"_meta"`
}

func listTools(t *testing.T, ask requester) []listedTool {
	t.Helper()
	var list struct{ Tools []listedTool }
	require.NoError(t, json.Unmarshal(ask("tools/list", "{}"), &list))
	return list.Tools
}

// urisIn returns the values of all members of a result that name a URI, those of the structured content aside.
func urisIn(t *testing.T, result json.RawMessage) (uris []string) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if text, ok := member.(string); ok && (name == "uri" || name == "resourceUri" || name == "ui/resourceUri" || name == "openai/outputTemplate") {
					uris = append(uris, text)
				} else if name != "structuredContent" {
					walk(member)
				}
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	var value any
	require.NoError(t, json.Unmarshal(result, &value))
	walk(value)
	return uris
}

// Whatever URI of a user interface a host finds, it has the scheme ui, and leads to the server of the tool that it came
// from, whichever servers there are.
func TestApps_lead_to_their_server(t *testing.T) {
	odd := []string{"ui://panel/main.html", "ui://panel?q=a&b#f", "ui://user@panel:80/x", "ui:///x", "ui://", "ui://alpha", "ui://alpha/panel/main.html", "ui://b-e_t.a/x", "ui://panel/%7Bä%20\u003c.html"}
	listed := map[string]string{} // by server and tool: it does not change when another server comes
	for what, servers := range map[string][]string{"one": {"alpha"}, "two": {"alpha", "b-e_t.a"}, "three": {"alpha", "b-e_t.a", "panel"}} {
		t.Run(what, func(t *testing.T) {
			var specs []mcpvisor.ServerSpec
			for _, name := range servers {
				specs = append(specs, appServer(name, odd...))
			}
			for kind, ask := range requesters(t, newClient(t, specs...)) {
				tools := listTools(t, ask)
				require.Len(t, tools, len(odd)*len(servers))
				for i, tool := range tools {
					server, own := servers[i/len(odd)], odd[i%len(odd)]
					require.Equal(t, tool.Meta.UI.ResourceURI, tool.Meta.Older)
					require.Equal(t, tool.Meta.UI.ResourceURI, tool.Meta.ChatGPT)
					require.Equal(t, "9007199254740993", string(tool.Meta.Keep))
					require.Equal(t, []string{"model"}, tool.Meta.UI.Visibility)
					result := ask("tools/call", `{"name":"`+tool.Name+`"}`)
					require.Contains(t, string(result), `"structuredContent":{"uri":"`+own, "it is data")
					var called struct {
						Content []struct {
							URI      string
							Resource struct{ URI string }
						}
					}
					require.NoError(t, json.Unmarshal(result, &called))
					uris := append(urisIn(t, result), urisIn(t, ask("prompts/get", `{"name":"`+mcpvisor.Alias(server, fmt.Sprint("p", i%len(odd)))+`"}`))...)
					require.Len(t, uris, 7, "%s", result)
					for _, uri := range append(uris, tool.Meta.UI.ResourceURI) {
						require.Equal(t, "ui://"+server+"/"+strings.TrimPrefix(own, "ui://"), uri, kind)
						quoted, _ := json.Marshal(uri)
						var read struct{ Contents []struct{ URI, Text string } }
						require.NoError(t, json.Unmarshal(ask("resources/read", `{"uri":`+string(quoted)+`}`), &read))
						require.Equal(t, server+" "+own, read.Contents[0].Text, "%s %s", kind, uri)
						require.Equal(t, uri, read.Contents[0].URI)
					}
					key := server + fmt.Sprint(i%len(odd))
					require.Contains(t, []string{"", tool.Meta.Older}, listed[key])
					listed[key] = tool.Meta.Older
				}
				uris := urisIn(t, ask("resources/list", "{}"))
				require.Len(t, uris, len(tools))
				for _, tool := range tools {
					require.Contains(t, uris, tool.Meta.Older)
				}
			}
		})
	}
}

// Subscriptions, templates and completions have the URIs of the lists, and hosts may escape the server or change its
// case.
func TestApps_other_requests(t *testing.T) {
	c := newClient(t, appServer("alpha", "ui://panel/main.html", "ui://panel/{id}"), appServer("beta", "ui://panel/main.html", "ui://panel/{id}"))
	s := openRaw(t, Transport(c))
	s.initializeWith("{}")
	s.send(1, "resources/subscribe", `{"uri":"ui://beta/panel/main.html"}`)
	for updated, answered := "", false; updated == "" || !answered; {
		switch m := s.read().(type) {
		case *jsonrpc.Request:
			updated = string(m.Params)
			require.JSONEq(t, `{"uri":"ui://beta/panel/main.html"}`, updated)
		case *jsonrpc.Response:
			require.NoError(t, m.Error)
			answered = true
		}
	}
	ask := func(method, params string) string {
		t.Helper()
		s.send(2, method, params)
		a := s.answer()
		require.NoError(t, a.Error)
		return string(a.Result)
	}
	require.Equal(t, 1, strings.Count(ask("resources/templates/list", "{}"), `"uriTemplate":"ui://alpha/panel/{id}"`))
	require.Contains(t, ask("completion/complete", `{"ref":{"type":"ref/resource","uri":"ui://beta/panel/{id}"},"argument":{"name":"id","value":""}}`), `["beta"]`)
	for _, uri := range []string{"ui://alpha/panel/7", "ui://%61lpha/panel/7", "ui://Alpha/panel/7", "mcpvisor://alpha/ui://panel/7"} {
		require.Contains(t, ask("resources/read", `{"uri":"`+uri+`"}`), `"text":"alpha ui://panel/7"`)
	}
	s.send(3, "resources/read", `{"uri":"ui://panel/main.html"}`)
	require.ErrorContains(t, s.answer().Error, "use one of ui://alpha/panel/main.html ui://beta/panel/main.html")
}

// A URI without a server leads to the only one that has it, but never in the place of a server that has gone.
func TestApps_of_a_server_that_is_gone(t *testing.T) {
	c := newClient(t, appServer("alpha", "ui://panel/main.html"), appServer("beta", "ui://alpha/panel/main.html", "ui://other/x", "ui://{+any}"))
	s := openRaw(t, Transport(c))
	s.initializeWith("{}")
	require.NoError(t, s.call("tools/list", "{}").Error)
	for uri, want := range map[string]string{"ui://alpha/panel/main.html": "alpha ui://panel/main.html", "ui://other/x": "beta ui://other/x"} {
		require.Contains(t, string(s.call("resources/read", `{"uri":"`+uri+`"}`).Result), want)
	}
	require.NoError(t, c.Unregister(t.Context(), "alpha"))
	s.send(9, "resources/read", `{"uri":"ui://alpha/panel/main.html"}`)
	require.ErrorContains(t, s.answer().Error, "no server has the resource")
}

// Where tools are listed without their servers, so are user interfaces, unless several servers have one.
func TestApps_without_prefixes(t *testing.T) {
	never := WithNames(Names{Prefix: PrefixNever})
	c := newClient(t, appServer("alpha", "ui://panel/main.html"))
	s := openRaw(t, Transport(c, never))
	s.initializeWith("{}")
	uri := func() string {
		t.Helper()
		ask := func(method, params string) json.RawMessage {
			s.send(1, method, params)
			a := s.answer()
			require.NoError(t, a.Error)
			return a.Result
		}
		tools, result := listTools(t, ask), ask("tools/call", `{"name":"alpha/show0"}`)
		for _, found := range urisIn(t, result) {
			if len(tools) > 0 {
				require.Equal(t, tools[0].Meta.Older, found)
			}
			require.Contains(t, string(ask("resources/read", `{"uri":"`+found+`"}`)), `{"uri":"`+found+`","text":"alpha ui://panel/main.html"}`)
		}
		return urisIn(t, result)[0]
	}
	require.Equal(t, "ui://panel/main.html", uri())
	other := appServer("beta", "ui://{x}/none", "ui://panel/main.html") // its tool has another name
	require.NoError(t, c.Register(t.Context(), other))
	require.Equal(t, "ui://alpha/panel/main.html", uri())
	require.NoError(t, c.Unregister(t.Context(), "beta"))
	require.Equal(t, "ui://panel/main.html", uri())
}

// Links of other schemes lead to the server of the tool, too. Only those change that would not, and no other byte.
func TestResults_links(t *testing.T) {
	const result = `{ "content" : [ {"type":"resource_link","uri":"conf:\/\/%s","name":"l"},{"type":"text","text":"\u00e9 uri\""}], "x":1e400 }`
	server := func(name, link string, uris ...string) mcpvisor.ServerSpec {
		spec, list := appServer(name), ""
		for _, uri := range uris {
			list += fmt.Sprintf(`,{"name":"r","uri":%q}`, uri)
		}
		spec.InMemory = serveRaw(nil, map[string]string{"initialize": legacyHandshake(`{"tools":{},"resources":{}}`),
			"tools/list": `"result":{"tools":[{"name":"show","inputSchema":{"type":"object"}}]}`, "resources/templates/list": `"result":{"resourceTemplates":[]}`,
			"resources/list": `"result":{"resources":[` + strings.TrimPrefix(list, ",") + `]}`, "tools/call": `"result":` + fmt.Sprintf(result, link)})
		return spec
	}
	for what, row := range map[string]struct{ own, other, link, want string }{
		"own":               {"conf://a", "conf://b", "a", "a"},
		"of no known one":   {"conf://a", "conf://b", "c", "c"},
		"of both":           {"conf://a", "conf://a", "a", "mcpvisor://alpha/conf://a"},
		"of another server": {"conf://a", "conf://b", "b", "mcpvisor://alpha/conf://b"},
	} {
		for kind, ask := range requesters(t, newClient(t, server("alpha", row.link, row.own), server("beta", "x", row.other))) {
			got := string(ask("tools/call", `{"name":"alpha/show"}`))
			want := fmt.Sprintf(result, row.want)
			if strings.Contains(row.want, "alpha") {
				want = strings.Replace(want, `conf:\/\/`, "", 1)
			}
			require.Contains(t, got, strings.TrimPrefix(want, "{"), "%s %s", what, kind)
		}
	}
	c := newClient(t, server("alpha", "a", "conf://a"), server("beta", "x", "conf://a"))
	g := Transport(c).(*gateway)
	many := `{"content":[` + strings.Repeat(`{"type":"resource_link","uri":"conf://z"},`, 2*maxReferences) + `{"type":"resource_link","uri":"https://a.example"}]}`
	got := string(g.withReferences("alpha", json.RawMessage(many)))
	require.Equal(t, maxReferences, strings.Count(got, `"uri":"conf://z"`), "further ones are not looked up")
	require.Equal(t, maxReferences+1, strings.Count(got, `"uri":"mcpvisor://alpha/`))
	for _, text := range []string{`{"content":[{"type":"resource_link","uri":"ui://x`, `[]`, `"uri"`, `{"content":{"uri"`, `{"_meta":7,"content":"uri"}`} {
		require.Equal(t, text, string(g.withReferences("alpha", json.RawMessage(text))))
	}
}

// Servers and hosts are told of the extensions that the program declares, in both eras, and of no other ones.
func TestExtensions(t *testing.T) {
	const name, settings = "io.modelcontextprotocol/ui", `{"mimeTypes":["text/html;profile=mcp-app"]}`
	for _, modern := range []bool{false, true} {
		told := make(chan string, 100)
		server := rawServerOf(func(m *rawtest.Message) string {
			if m.Method == "initialize" || m.Method == "tools/list" || m.Method == "tools/call" {
				told <- string(m.Params)
			}
			return ""
		}, nil)
		server.Modern = modern
		spec := mcpvisor.ServerSpec{Name: "a", InMemory: &mcpvisor.InMemory{Serve: server.Serve}}
		for _, declared := range []bool{false, true} {
			var opts []facade.Option
			if declared {
				opts = append(opts, facade.WithExtensions(map[string]json.RawMessage{name: json.RawMessage(settings)}))
			}
			c := newClientWith(t, opts, spec)
			for kind, ask := range requesters(t, c) {
				if kind == "modern stream" {
					require.Equal(t, declared, strings.Contains(string(ask("server/discover", "{}")), `"`+name+`":{}`))
				}
				if kind != "modern stream" && kind != "HTTP "+modernVersion { // whose own capabilities are declared with its calls
					ask("tools/call", `{"name":"a/x"}`)
				}
			}
			s := openRaw(t, Transport(c))
			a := s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)
			require.Equal(t, declared, strings.Contains(string(a.Result), `"extensions":{"`+name+`":{}}`), "%s", a.Result)
			for n := len(told); n > 0; n-- {
				if params := <-told; modern || strings.Contains(params, "protocolVersion") {
					require.Equal(t, declared, strings.Contains(params, `"`+name+`":`+settings), "%s", params)
				}
			}
		}
	}
	for _, wrong := range []map[string]json.RawMessage{{"ui": json.RawMessage("{}")}, {"a/b": json.RawMessage("[]")}, {"a/b": nil}, {"io.modelcontextprotocol/tasks": json.RawMessage("{}")}} {
		_, err := facade.New(facade.WithExtensions(wrong))
		require.ErrorContains(t, err, "cannot be declared")
	}
}

// The result of a task, and of a copy of a server, leads to its server as that of any call does.
func TestApps_tasks_and_copies(t *testing.T) {
	c := newClient(t, appServer("alpha", "ui://panel/main.html"), appServer("beta", "ui://panel/main.html"))
	s := openRaw(t, Transport(c, withShare(ShareClient)))
	s.initializeWith("{}")
	s.send(1, "tools/call", `{"name":"alpha/show0"}`)
	for _, uri := range urisIn(t, s.answer().Result) {
		require.Equal(t, "ui://alpha/panel/main.html", uri)
	}
	h := &taskHandle{session: s.conn.(*connection).session, name: opentasks.Name{Server: "alpha", ID: "t"}, tool: "alpha/show0", modern: true}
	result := `{"content":[{"type":"resource_link","uri":"ui://panel/main.html","name":"l"}]}`
	for _, text := range []json.RawMessage{h.text().Result(json.RawMessage(result)), h.text().Notice(json.RawMessage(`{"taskId":"t","status":"completed","result":`+result+`}`), true)} {
		require.Equal(t, []string{"ui://alpha/panel/main.html"}, urisIn(t, text))
	}
}
