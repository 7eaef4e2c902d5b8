package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

func pointerTo[T any](v T) *T { return &v }

// librarian is a server with tools of all annotations, two prompts and some resources.
func librarian() mcptest.Script {
	return mcptest.Script{
		Instructions: "Read before you write.",
		Tools: []mcptest.ToolDef{
			{Name: "read_book", Text: "a book", Annotations: json.RawMessage(`{"readOnlyHint":true}`)},
			{Name: "read_diary", Text: "a diary", Annotations: json.RawMessage(`{"readOnlyHint":true}`)},
			{Name: "add_note", Text: "added", Annotations: json.RawMessage(`{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`)},
			{Name: "burn", Text: "burnt"},
			{Name: "log"},
		},
		Prompts:   []mcptest.PromptDef{{Name: "summary", Arguments: []string{"of"}, Text: "Sum up {of}."}, {Name: "secret_summary", Arguments: []string{"of"}, Text: "Sum up {of}."}},
		Resources: []mcptest.ResourceDef{{URI: "lib://open/a", Name: "a", Text: "A"}, {URI: "lib://closed/b", Name: "b", Text: "B"}},
		Templates: []mcptest.TemplateDef{{URITemplate: "lib://open/{name}", Name: "open"}, {URITemplate: "lib://closed/{name}", Name: "closed"}},
	}
}

func newSettings(t *testing.T, s Settings) *SettingsVar {
	t.Helper()
	v := new(SettingsVar)
	require.NoError(t, v.Set(s))
	return v
}

// A profile offers what its globs over servers, tools, prompts, resources and annotations match.
func TestProfile_lists(t *testing.T) {
	c := newClient(t, fixture("library", librarian()), fixture("other", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read_mail", Text: "mail"}}}))
	for name, row := range map[string]struct {
		profile                             Profile
		tools, prompts, resources, template string
	}{
		"everything":    {Profile{}, "add_note burn log read_book read_diary other:read_mail", "secret_summary summary other:greet other:hello", "closed/b open/a + 2", "lib://closed/{name} lib://open/{name} + 1"},
		"one server":    {Profile{Servers: Filter{Allow: []string{"lib*"}}}, "add_note burn log read_book read_diary", "secret_summary summary", "closed/b open/a", "lib://closed/{name} lib://open/{name}"},
		"not a server":  {Profile{Servers: Filter{Deny: []string{"other"}}}, "add_note burn log read_book read_diary", "secret_summary summary", "closed/b open/a", "lib://closed/{name} lib://open/{name}"},
		"names":         {Profile{Tools: Filter{Allow: []string{"read_*"}, Deny: []string{"*diary"}}, Prompts: Filter{Deny: []string{"secret*", "other/*"}}, Resources: Filter{Allow: []string{"lib://open/*"}}}, "read_book other:read_mail", "summary", "open/a", "lib://open/{name}"},
		"of a server":   {Profile{Tools: Filter{Allow: []string{"other/read_*", "burn"}}, Prompts: Filter{Allow: []string{"library/*"}, Deny: []string{"library/summary"}}, Resources: Filter{Deny: []string{"*"}}}, "burn other:read_mail", "secret_summary", "", ""},
		"read only":     {Profile{Servers: Filter{Allow: []string{"library"}}, Annotations: Annotations{ReadOnly: pointerTo(true)}, Prompts: Filter{Deny: []string{"*"}}, Resources: Filter{Deny: []string{"*"}}}, "read_book read_diary", "", "", ""},
		"no harm":       {Profile{Servers: Filter{Allow: []string{"library"}}, Annotations: Annotations{Destructive: pointerTo(false)}, Prompts: Filter{Deny: []string{"*"}}, Resources: Filter{Deny: []string{"*"}}}, "add_note read_book read_diary", "", "", ""},
		"closed, again": {Profile{Servers: Filter{Allow: []string{"library"}}, Annotations: Annotations{OpenWorld: pointerTo(false), Idempotent: pointerTo(true)}, Prompts: Filter{Deny: []string{"*"}}, Resources: Filter{Deny: []string{"*"}}}, "add_note", "", "", ""},
		"nothing":       {Profile{Servers: Filter{Allow: []string{"none"}}}, "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, Transport(c, WithNames(Names{}), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": row.profile}})), WithProfile("p")), "2025-11-25", nil)
			short := strings.NewReplacer("library__", "", "__", ":", "lib://", "").Replace
			var tools, prompts, resources, templates []string
			for tool, err := range s.Tools(t.Context(), nil) {
				require.NoError(t, err)
				tools = append(tools, short(tool.Name))
			}
			for prompt, err := range s.Prompts(t.Context(), nil) {
				require.NoError(t, err)
				prompts = append(prompts, short(prompt.Name))
			}
			others := 0
			for r, err := range s.Resources(t.Context(), nil) {
				require.NoError(t, err)
				if !strings.HasPrefix(r.URI, "lib") {
					others++
					continue
				}
				resources = append(resources, short(r.URI))
			}
			otherTemplates := 0
			for template, err := range s.ResourceTemplates(t.Context(), nil) {
				require.NoError(t, err)
				if !strings.HasPrefix(template.URITemplate, "lib") {
					otherTemplates++
					continue
				}
				templates = append(templates, template.URITemplate)
			}
			if others > 0 {
				resources, templates = append(resources, "+ 2"), append(templates, "+ 1")
				require.Equal(t, 2, others)
				require.Equal(t, 1, otherTemplates)
			}
			require.Equal(t, []string{row.tools, row.prompts, row.resources, row.template},
				[]string{strings.Join(tools, " "), strings.Join(prompts, " "), strings.Join(resources, " "), strings.Join(templates, " ")})
		})
	}
}

// suggestions are what depends on the name in the error of an unknown one: names that the session lists.
var suggestions = regexp.MustCompile(`; (did you mean [^?]*\?|(tools|prompts)/list has the names)`)

// What a profile hides cannot be called, completed, read or subscribed to, under any of its
// names. The error is that of a name that does not exist, but for the name and listed names like it.
func TestProfile_hidden_is_unknown(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("library", librarian()), fixture("mail", mcptest.Script{}))
		s := openRaw(t, Transport(c, WithNames(Names{}), WithProfile("p"), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": {
			Servers: Filter{Allow: []string{"library"}}, Tools: Filter{Allow: []string{"read_book", "log"}},
			Prompts: Filter{Allow: []string{"summary"}}, Resources: Filter{Allow: []string{"lib://open/*"}}}}}))))
		meta := ""
		if version >= modernVersion {
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}`
		}
		// ask returns the error of a request, with the name taken out; empty if it has none.
		ask := func(method, params, name string) string {
			answer := s.call(method, strings.ReplaceAll(params, "NAME", name)[:len(strings.ReplaceAll(params, "NAME", name))-1]+meta+"}")
			if answer.Error == nil {
				return ""
			}
			text, err := json.Marshal(answer.Error)
			require.NoError(t, err)
			return suggestions.ReplaceAllString(strings.ReplaceAll(string(text), name, "NAME"), "")
		}
		for _, row := range []struct {
			method, params, unknown string
			hidden, offered         []string
		}{
			{"tools/call", `{"name":"NAME","arguments":{}}`, "nonsense",
				[]string{"library__burn", "library/burn", "mcp__library__burn", "mail__echo", "mail/echo", "mcp__mail__echo", "library/nonsense", "library__nonsense"},
				[]string{"library__read_book", "library/read_book", "mcp__library__read_book"}},
			{"prompts/get", `{"name":"NAME","arguments":{"of":"it"}}`, "nonsense",
				[]string{"library__secret_summary", "library/secret_summary", "mcp__library__secret_summary", "mail__hello", "mail/hello", "mcp__mail__hello", "library/nonsense"},
				[]string{"library__summary", "library/summary", "mcp__library__summary"}},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"of","value":"x"}}`, "nonsense",
				[]string{"library__secret_summary", "library/secret_summary", "mail__greet"}, []string{"library__summary"}},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"NAME"},"argument":{"name":"name","value":"x"}}`, "lib://nonsense",
				[]string{"lib://closed/{name}", "mcptest://echo/{text}", "mcpvisor://mail/mcptest://echo/{text}", "mcpvisor://library/lib://closed/{name}"}, []string{"lib://open/{name}"}},
			{"resources/read", `{"uri":"NAME"}`, "lib://nonsense",
				[]string{"lib://closed/b", "mcpvisor://library/lib://closed/b", "mcptest://text", "mcpvisor://mail/mcptest://text", "mcpvisor://nobody/x://y",
					"lib://open/../closed/b", "lib://open/%2e%2e/closed/b", "lib://open/..%2fclosed/b", "lib://open/%252e%252e/closed/b", "lib://open/..%5cclosed/b", "lib://open/%zz",
					"lib://open/./a", "lib://open/%61", "lib://open/a%00", "lib://open/a%0a"},
				[]string{"lib://open/a", "mcpvisor://library/lib://open/a", "lib://open/a..b", "lib://open/a%20b"}},
			{"resources/subscribe", `{"uri":"NAME"}`, "lib://nonsense",
				[]string{"lib://closed/b", "mcpvisor://library/lib://closed/b", "mcptest://text", "mcpvisor://mail/mcptest://text"}, []string{"lib://open/a"}},
		} {
			want := ask(row.method, row.params, row.unknown)
			require.NotEmpty(t, want, row.method)
			for _, name := range row.hidden {
				require.Equal(t, want, ask(row.method, row.params, name), "%s %s", row.method, name)
			}
			for _, name := range row.offered {
				answer := ask(row.method, row.params, name)
				require.NotEqual(t, want, answer, "%s %s", row.method, name)
				require.NotContains(t, answer, "no server has", "%s %s", row.method, name)
				require.NotContains(t, answer, "unknown", "%s %s", row.method, name)
			}
		}
		for _, called := range c.ToolStats("library") {
			require.Equal(t, "library/read_book", called.Name)
		}
		require.Empty(t, c.ToolStats("mail"))
	})
}

// Over HTTP a client has a profile by its token or by the path. It does not learn of others, and a
// session of one is not known in another.
func TestProfile_over_HTTP(t *testing.T) {
	c := newClient(t, fixture("library", librarian()))
	reader, ghost, admin, both := NewToken(), NewToken(), NewToken(), NewToken()
	settings := newSettings(t, Settings{Profiles: map[string]Profile{
		"read": {Annotations: Annotations{ReadOnly: pointerTo(true)}}, "burn": {Tools: Filter{Allow: []string{"burn"}}}}})
	handler := Handler(c, WithSettings(settings), WithTokens(Token{Principal: "reader", Profile: "read", SHA256: HashToken(reader)},
		Token{Principal: "ghost", Profile: "gone", SHA256: HashToken(ghost)}, Token{Principal: "admin", SHA256: HashToken(admin)}, Token{Principal: "both", Profile: "burn,read", SHA256: HashToken(both)}))
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/mcp/{"+ProfilePath+"}", handler)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { handler.Close(); server.Close() })

	for _, row := range []struct {
		token, path string
		status      int
		tools       int
	}{
		{admin, "/mcp", http.StatusOK, 5}, {admin, "/mcp/read", http.StatusOK, 2}, {admin, "/mcp/burn", http.StatusOK, 1}, {admin, "/mcp/none", http.StatusNotFound, 0},
		{reader, "/mcp", http.StatusOK, 2}, {reader, "/mcp/read", http.StatusOK, 2}, {reader, "/mcp/burn", http.StatusForbidden, 0}, {reader, "/mcp/none", http.StatusForbidden, 0},
		{both, "/mcp", http.StatusOK, 1}, {both, "/mcp/burn", http.StatusOK, 1}, {both, "/mcp/read", http.StatusOK, 2}, {both, "/mcp/none", http.StatusForbidden, 0},
		{ghost, "/mcp", http.StatusForbidden, 0}, {ghost, "/mcp/read", http.StatusForbidden, 0}, {"", "/mcp/read", http.StatusUnauthorized, 0},
	} {
		p := newPeer(t, server.URL+row.path)
		p.header.Set("Authorization", "Bearer "+row.token)
		status, _ := p.post(initializeRequest("2025-11-25"))
		require.Equal(t, row.status, status, row)
		if row.status != http.StatusOK {
			continue
		}
		p.initialize("2025-11-25")
		_, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.Equal(t, row.tools, strings.Count(answer, `"inputSchema"`), "%v: %s", row, answer)
		for path, status := range map[string]int{"/mcp": http.StatusNotFound, "/mcp/read": http.StatusNotFound, row.path: http.StatusOK} {
			p.url = server.URL + path
			got, _ := p.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			if row.token == reader || row.token == both && row.path != "/mcp/read" && path == "/mcp" { // the same profile without a path
				status = http.StatusOK
			}
			require.Equal(t, status, got, "the session of %s at %s", row.path, path)
		}
	}
}

// A change of the settings reaches the sessions at once: they are told which lists have changed, and
// what is hidden now cannot be called any more.
func TestSettingsVar(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("library", librarian()))
		settings := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
		changed := make(chan string, 10)
		s := connect(t, Transport(c, WithNames(Names{}), WithSettings(settings), WithProfile("p")), version, &mcp.ClientOptions{
			ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { changed <- "tools" },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { changed <- "prompts" },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changed <- "resources" },
		})
		names := func() (names string) {
			for tool, err := range s.Tools(t.Context(), nil) {
				require.NoError(t, err)
				names += tool.Name + " "
			}
			return names
		}
		require.Equal(t, "library__add_note library__burn library__log library__read_book library__read_diary ", names())
		require.NoError(t, settings.Set(Settings{Profiles: map[string]Profile{"p": {Tools: Filter{Allow: []string{"read_*"}}}}}))
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "library__burn"})
		require.ErrorContains(t, err, `unknown tool "library__burn"`)
		require.Equal(t, "tools", receive(t, changed))
		require.Equal(t, "library__read_book library__read_diary ", names())

		require.NoError(t, settings.Set(Settings{Names: &Names{Prefix: PrefixNever}, Profiles: map[string]Profile{"p": {Tools: Filter{Allow: []string{"read_book"}}}}}))
		require.Equal(t, "tools", receive(t, changed))
		if version < modernVersion { // the prompts have other names, too
			require.Equal(t, "prompts", receive(t, changed))
		}
		require.Equal(t, "read_book ", names())
		require.Equal(t, "a book", text2(s.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_book"})))

		require.Error(t, settings.Set(Settings{Profiles: map[string]Profile{"p": {Tools: Filter{Allow: []string{""}}}}}))
		require.Equal(t, "read_book ", names(), "nothing has changed")

		require.NoError(t, settings.Set(Settings{}))
		require.Empty(t, names(), "a profile that is gone offers nothing")
	})
}

func text2(r *mcp.CallToolResult, err error) string {
	if err != nil {
		return err.Error()
	}
	return textOf(r)
}

// The settings say what happens to servers that are down.
func TestSettingsVar_on_down(t *testing.T) {
	require.Equal(t, Keep, newSettings(t, Settings{}).load().onDown("a"))
	now := newSettings(t, Settings{OnDown: pointerTo(Withdraw), OnDownOf: map[string]OnDown{"c": OnDown(time.Minute)}}).load()
	require.Equal(t, []OnDown{Withdraw, OnDown(time.Minute)}, []OnDown{now.onDown("a"), now.onDown("c")})
}

// Errors of profiles say what is wrong, where, and what to write.
func TestSettingsVar_Set_errors(t *testing.T) {
	err := new(SettingsVar).Set(Settings{Profiles: map[string]Profile{
		"a b": {Servers: Filter{Allow: []string{"x/y"}, Deny: []string{"[a-z]*"}}},
		"b":   {Tools: Filter{Deny: []string{""}}, Prompts: Filter{Allow: []string{"{a,b}"}}, Resources: Filter{Allow: []string{strings.Repeat("x", 1001)}}},
	}})
	require.EqualError(t, err, `gateway: the name of profile "a b" cannot be part of a path; use letters, digits, - and _
profile "a b": the pattern "x/y" of servers matches nothing, because a server has no slash in its name, and only * and ? are special in a pattern
profile "a b": the pattern "[a-z]*" of servers matches nothing, because a server has no slash in its name, and only * and ? are special in a pattern
profile "b": a pattern of tools is empty; remove it, or write "*" for all
profile "b": the pattern "{a,b}" of prompts matches nothing, because only * and ? are special in a pattern
profile "b": a pattern of resources has 1001 bytes; use at most 1000`)
}

// Instructions, log messages and updates of hidden servers do not reach the session either. The level of
// hidden servers is not changed.
func TestProfile_hears_nothing_of_others(t *testing.T) {
	mail := mcptest.Script{Instructions: "Write mails.", Tools: []mcptest.ToolDef{{Name: "log"}}}
	c := newClient(t, fixture("library", librarian()), fixture("mail", mail))
	logs := make(chan string, 10)
	s := connect(t, Transport(c, WithProfile("p"), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": {Servers: Filter{Allow: []string{"library"}}}}}))), "2025-11-25",
		&mcp.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			text, _ := json.Marshal(r.Params.Data)
			logs <- string(text)
		}})
	require.Equal(t, "library: Read before you write.", s.InitializeResult().Instructions)
	require.NoError(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
	require.NoError(t, c.SetLoggingLevel(t.Context(), "mail", "info"))
	for _, server := range []string{"mail", "library"} {
		_, err := c.CallTool(t.Context(), server+"/log", map[string]any{"level": "error", "text": "from " + server})
		require.NoError(t, err)
	}
	require.Equal(t, `"from library"`, receive(t, logs))

	require.NoError(t, c.SetLoggingLevel(t.Context(), "mail", "error"))
	events := c.Watch(t.Context(), mcpvisor.EventLog)
	require.NoError(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}))
	for _, level := range []string{"debug", "error"} {
		_, err := c.CallTool(t.Context(), "mail/log", map[string]any{"level": level, "text": level})
		require.NoError(t, err)
	}
	require.Equal(t, "error", receive(t, events).Log.Level, "the level of mail is the same")
}

// The error of a tool that has just gone suggests no tool that is hidden.
func TestProfile_suggests_nothing_hidden(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read_book", Text: "x"}, {Name: "read_books", Text: "x"}, {Name: "remove_tool"}}}))
	_, url := serveHTTP(t, c, WithProfile("p"), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": {Tools: Filter{Allow: []string{"read_book"}}}}})))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	_, answer := p.post(toolCallOf(1, "a__read_book", `{}`))
	require.Contains(t, answer, `"result"`)
	_, err := c.CallTool(t.Context(), "a/remove_tool", map[string]any{"name": "read_book"})
	require.NoError(t, err)
	until(t, func() bool { return len(c.Tools()) == 2 })
	_, answer = p.post(toolCallOf(1, "a__read_book", `{}`))
	require.Equal(t, "-32602", memberOf(t, []byte(answer), "error", "code"), answer)
	require.NotContains(t, answer, "read_books")
}

// A call of a profile waits for a server that has never been ready, as any other.
func TestProfile_waits_for_a_server(t *testing.T) {
	c := newClient(t)
	spec := fixture("library", librarian())
	spec.StartSupervised = true
	start := make(chan struct{})
	spec.InMemory = gated(spec.InMemory, start)
	require.NoError(t, c.Register(t.Context(), spec))
	s := openRaw(t, Transport(c, WithNames(Names{}), WithProfile("p"), WithMaxWait(patience), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": {Tools: Filter{Allow: []string{"read_*"}}}}}))))
	s.send(1, "tools/call", `{"name":"library__read_book","arguments":{}}`)
	s.send(2, "tools/call", `{"name":"library__burn","arguments":{}}`)
	close(start)
	answers := map[any]string{}
	for range 2 {
		answer := s.read().(*jsonrpc.Response)
		if answer.Error != nil {
			answers[answer.ID.Raw()] = answer.Error.Error()
			continue
		}
		answers[answer.ID.Raw()] = string(answer.Result)
	}
	require.Contains(t, answers[int64(1)], "a book")
	require.Contains(t, answers[int64(2)], "unknown tool")
}

// gated is a server that starts when a channel is closed.
func gated(server *mcpvisor.InMemory, start <-chan struct{}) *mcpvisor.InMemory {
	serve := server.Serve
	gated := *server
	gated.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
		select {
		case <-start:
		case <-ctx.Done():
			return ctx.Err()
		}
		return serve(ctx, in, out, stderr)
	}
	return &gated
}

// catalogServer lists the resources x:open and x:closed, and tells what is no longer subscribed to.
func catalogServer(ended chan<- string) *mcpvisor.InMemory {
	return serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"raw","version":"1"}}`
		case "resources/list":
			return `"result":{"resources":[{"name":"open","uri":"x:open"},{"name":"closed","uri":"x:closed"}]}`
		case "resources/templates/list":
			return `"result":{"resourceTemplates":[]}`
		case "resources/unsubscribe":
			var params struct{ URI string }
			_ = json.Unmarshal(m.Params, &params)
			ended <- params.URI
		}
		return ""
	}, nil)
}

// When a reload hides a resource, or its server, the subscriptions to it end, also at the server, and no event
// reports it as updated. When it is offered again, it can be subscribed to again.
func TestProfile_reload_ends_subscriptions(t *testing.T) {
	for name, hides := range map[string]Profile{
		"resource": {Resources: Filter{Deny: []string{"x:closed"}}},
		"server":   {Servers: Filter{Deny: []string{"hidden"}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBothEras(t, func(t *testing.T, version string) {
				ended := make(chan string, 10)
				c := newClient(t, mcpvisor.ServerSpec{Name: "hidden", InMemory: catalogServer(ended)}, mcpvisor.ServerSpec{Name: "other", InMemory: catalogServer(ended)})
				v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
				transport := Transport(c, WithSettings(v), WithProfile("p"))
				const closed, open = "mcpvisor://hidden/x:closed", "mcpvisor://other/x:open"
				a, b := subscribed(t, transport, version, closed), subscribed(t, transport, version, open)
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
				require.Equal(t, "x:closed", receive(t, ended))
				until(t, func() bool { return a.conn.(*connection).session.subscriber.count.Load() == 0 })

				transport.(*gateway).hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed})
				b.requireUpdate(open)
				for m := a.conn.(*connection).exchange.out.notify.Next(); m != nil; m = a.conn.(*connection).exchange.out.notify.Next() {
					require.Contains(t, m.(*jsonrpc.Request).Method, "list_changed")
				}
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				again := subscribed(t, transport, version, closed)
				transport.(*gateway).hub.report(mcpvisor.Event{Kind: mcpvisor.EventMissed})
				until(t, func() bool {
					m, ok := again.conn.(*connection).exchange.out.notify.Next().(*jsonrpc.Request)
					return ok && m.Method == "notifications/resources/updated"
				})
			})
		})
	}
}

// A subscription that a reload ends while it is being made does not stay.
func TestProfile_reload_during_a_subscription(t *testing.T) {
	ended := make(chan string, 10)
	c := newClient(t, mcpvisor.ServerSpec{Name: "hidden", InMemory: catalogServer(ended)})
	v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
	transport := Transport(c, WithSettings(v), WithProfile("p"))
	conn := openRaw(t, transport).conn.(*connection)
	found, err := conn.session.gateway.findResource(t.Context(), "x:closed")
	require.NoError(t, err)
	s, err := conn.session.subscriber.hold(conn.session.notify, found)
	require.NoError(t, err)
	require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {Resources: Filter{Deny: []string{"*"}}}}}))
	until(t, func() bool { return conn.session.subscriber.count.Load() == 0 })
	require.True(t, conn.session.notify.Subscribe(s, "x:closed"))
	require.NoError(t, conn.session.subscriber.subscribeNow(t.Context(), s))
	conn.session.subscriber.dropReleased(s)
	require.Zero(t, conn.session.notify.Count().Subscriptions)
	until(t, nothingHeld(transport))
	require.Equal(t, "x:closed", receive(t, ended))

	_, err = conn.session.subscriber.hold(conn.session.notify, found)
	require.ErrorContains(t, err, "no server has the resource")
	require.Zero(t, conn.session.subscriber.count.Load())
}

// A held call that a reload has given another name continues; one that a reload has hidden is canceled at its server,
// and the client is told that it may have had an effect.
func TestProfile_reload_during_a_held_call(t *testing.T) {
	hides := func(p Profile) Settings { return Settings{Profiles: map[string]Profile{"p": p}} }
	for name, test := range map[string]struct {
		method, target, params string
		to                     Settings
		canceled               bool
	}{
		"renamed":         {"tools/call", "a__x", `"name":"a__x"`, Settings{Names: &Names{Prefix: PrefixNever}, Profiles: map[string]Profile{"p": {}}}, false},
		"other tool":      {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Tools: Filter{Deny: []string{"y"}}}), false},
		"hidden tool":     {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Tools: Filter{Deny: []string{"x"}}}), true},
		"hidden server":   {"tools/call", "a__x", `"name":"a__x"`, hides(Profile{Servers: Filter{Deny: []string{"a"}}}), true},
		"hidden prompt":   {"prompts/get", "a__x", `"name":"a__x"`, hides(Profile{Prompts: Filter{Deny: []string{"x"}}}), true},
		"hidden resource": {"resources/read", "x:y", `"uri":"x:y"`, hides(Profile{Resources: Filter{Deny: []string{"*"}}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan time.Time, 10)
			c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: cancelableServer(told)})
			v := newSettings(t, hides(Profile{}))
			s, url := serveHTTP(t, c, WithSettings(v), WithProfile("p"))
			ann := newPeer(t, url).modernCaller()
			result, failure := ann(test.method, test.target, `{`+test.params+`,`+modernMeta+`}`)
			require.Empty(t, failure)
			state, keys := required(t, result)
			require.NoError(t, v.Set(test.to))
			result, failure = ann(test.method, test.target, `{`+test.params+`,`+modernMeta+roundOf(state, `{"`+keys[0]+`":{"action":"accept","content":{}}}`)+`}`)
			if !test.canceled {
				require.Empty(t, failure)
				require.Contains(t, result, "accept")
			} else {
				require.Contains(t, failure, "may have had an effect")
				receive(t, told)
			}
			requireNothingHeld(t, s.gateway)
		})
	}
}

// hidings are the profiles that hide the tool job of the server s.
var hidings = map[string]Profile{"tool": {Tools: Filter{Deny: []string{"job"}}}, "server": {Servers: Filter{Deny: []string{"s"}}}}

// A task of a tool that a reload has hidden does not exist for its client: as soon as it is hidden, under any method, and
// without a word of its notifications. When the tool is offered again, so is the task.
func TestProfile_reload_hides_tasks(t *testing.T) {
	for name, hides := range hidings {
		t.Run(name, func(t *testing.T) {
			v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
			overTasks(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				p := follower(t, url, modern)
				id := p.begin("k" + strings.ReplaceAll(t.Name(), "/", "-"))
				p.get(id)
				unknown := p.ask("tasks/get", about("none")).Error
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
				methods := map[string]string{"tasks/get": about(id), "tasks/cancel": about(id)}
				if modern {
					methods["tasks/update"] = `{"taskId":"` + id + `","inputResponses":{"x":{"action":"decline"}}}`
				} else {
					methods["tasks/result"] = about(id)
					require.Equal(t, "[]", member(t, p.ask("tasks/list", `{}`).Result, "tasks"))
				}
				for method, params := range methods {
					require.Equal(t, unknown, p.ask(method, params).Error, method)
				}
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				require.NotEqual(t, task.Cancelled, p.get(id).Status, "the server was not asked to cancel it")
			}, WithSettings(v), WithProfile("p"))
		})
	}
}

// The whole text of a shortened result is not read any longer when its tool is hidden.
func TestProfile_reload_hides_results(t *testing.T) {
	for name, hides := range map[string]Profile{"tool": {Tools: Filter{Deny: []string{"x"}}}, "server": {Servers: Filter{Deny: []string{"a"}}}} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(`{"content":[{"type":"text","text":"` + strings.Repeat("s", 1000) + `"}]}`)})
			v := newSettings(t, Settings{MaxResultBytes: 100, Profiles: map[string]Profile{"p": {}}})
			s := openRaw(t, Transport(c, WithSettings(v), WithProfile("p")))
			var result struct{ Content []struct{ URI string } }
			require.NoError(t, json.Unmarshal(s.call("tools/call", `{"name":"a/x","arguments":{}}`).Result, &result))
			read := `{"uri":"` + result.Content[1].URI + `"}`
			require.NoError(t, s.call("resources/read", read).Error)
			require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
			require.ErrorContains(t, s.call("resources/read", read).Error, "is kept; call the tool again")
		})
	}
}

// A stream, and a subscriptions/listen, end when the token of their client expires: who has no token any
// more hears nothing.
func TestHandler_streams_end_with_the_token(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})), WithTokenVerifier(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(200 * time.Millisecond)}, nil
	}, nil))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer x")
	p.initialize("2025-11-25")
	stream := p.listen()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ok := true; ok; {
			_, _, ok = stream.next()
		}
	}()
	other := newPeer(t, url)
	other.header.Set("Authorization", "Bearer x")
	response := other.do(t.Context(), http.MethodPost, modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), versionHeader, modernVersion, methodHeader, "subscriptions/listen")
	require.Equal(t, http.StatusOK, response.StatusCode)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	receive(t, ended)
	receive(t, listened)
}

// A principal that could be mistaken for another one with a profile is refused.
func TestHandler_principal_with_NUL(t *testing.T) {
	_, url := serveHTTP(t, newClient(t), WithTokenVerifier(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "a\x00p"}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true}))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer x")
	status, _ := p.post(initializeRequest("2025-11-25"))
	require.Equal(t, http.StatusInternalServerError, status)
	require.NotEqual(t, owner.Name("a", "p"), owner.Name("a", ""))
}
