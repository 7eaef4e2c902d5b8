package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestStatus(t *testing.T) {
	c := newClient(t)
	s := serve(t, c, web.WithTitle("orders"))
	empty := decoded[api.Status](s, "/api/status", 200)
	require.Equal(t, api.Schema, empty.Schema)
	require.Equal(t, "orders", empty.Title)
	require.False(t, empty.Controls)
	_, body := s.get("/api/status")
	require.Contains(t, body, `"attention":[]`)
	require.Contains(t, body, `"servers":[]`)
	register(t, c, "a")
	register(t, c, "b")
	all := decoded[api.Status](s, "/api/status", 200)
	require.Equal(t, []string{"a", "b"}, all.Names)
	require.Equal(t, supervisor.StateReady, all.Servers[1].State)
	require.Equal(t, len(mcptest.DefaultTools()), all.Servers[1].Catalog.Tools)
	require.NotZero(t, all.Stats.Events)
	require.Equal(t, empty.Instance, all.Instance)
	one := decoded[api.Status](s, "/api/status?server=b&server=none", 200)
	require.Len(t, one.Servers, 1)
	require.Equal(t, "b", one.Servers[0].Name)
	require.Equal(t, []string{"a", "b"}, one.Names)
}

func TestServer_with_its_tools_and_stderr(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{})}))
	s := serve(t, c)
	for range 3 {
		_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	_, err := c.CallTool(t.Context(), "s/fail", map[string]any{"text": "x"})
	require.NoError(t, err)
	for _, line := range []string{"one", "two"} {
		_, err = c.CallTool(t.Context(), "s/stderr", map[string]any{"text": line})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		st, _ := c.Stderr("s")
		return st.Total == 2
	}, 30*time.Second, time.Millisecond, "stderr is read beside the calls")

	server := decoded[api.Server](s, "/api/servers/s", 200)
	require.Equal(t, "s", server.Status.Name)
	require.Equal(t, []string{"one", "two"}, server.Stderr.Lines)
	byName := map[string]api.ToolStats{}
	for _, tool := range server.Tools {
		byName[tool.Name] = tool
	}
	echo := byName["s/echo"]
	require.EqualValues(t, 3, echo.Calls)
	require.Positive(t, echo.P50)
	require.LessOrEqual(t, echo.P50, echo.P95)
	require.LessOrEqual(t, echo.P95, echo.Max)
	require.EqualValues(t, 1, byName["s/fail"].ToolErrors)

	tools := decoded[api.Tools](s, "/api/servers/s/tools", 200)
	require.Len(t, tools.Tools, server.Status.Catalog.Tools)
	sum := 0
	for _, tool := range tools.Tools {
		sum += tool.Tokens
		require.Positive(t, tool.Tokens)
		require.NotNil(t, tool.Definition.InputSchema)
	}
	require.Equal(t, sum, tools.Tokens)
	require.Equal(t, server.Status.Catalog.Tokens, tools.Tokens)

	require.Equal(t, []string{"two"}, decoded[api.Stderr](s, "/api/servers/s/stderr?after=1", 200).Lines)
	require.Empty(t, decoded[api.Stderr](s, "/api/servers/s/stderr?after=99", 200).Lines)

	use := decoded[api.ToolUse](s, "/api/tools?limit=2", 200)
	require.Len(t, use.Tools, 2)
	require.Equal(t, 3, use.Total)
}

func TestCalls(t *testing.T) {
	c, s := serveOne(t, "s")
	done := make(chan error)
	go func() {
		_, err := c.CallTool(t.Context(), "s/hang", nil)
		done <- err
	}()
	require.Eventually(t, func() bool { return len(decoded[api.Calls](s, "/api/calls", 200).InFlight) == 1 }, 30*time.Second, time.Millisecond)
	calls := decoded[api.Calls](s, "/api/calls", 200)
	require.Equal(t, "hang", calls.InFlight[0].Target)
	require.Empty(t, calls.Recent)
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.ErrorIs(t, <-done, mcpvisor.ErrCrashed)
	calls = decoded[api.Calls](s, "/api/calls?after=1", 200)
	require.Len(t, calls.Recent, 1)
	require.Equal(t, mcpvisor.OutcomeUnknown, calls.Recent[0].Outcome)
	require.EqualValues(t, 2, calls.Recent[0].Seq)
	require.Len(t, calls.Unknown, 2, "they stay, however many calls follow")
	require.NotZero(t, decoded[api.Calls](s, "/api/calls", 200).Recent[0].Took)
}

func TestCall_of_a_tool(t *testing.T) {
	_, s := serveOne(t, "s", web.WithControls())
	call := func(body string) (int, api.CallAnswer, api.ErrorDetail) {
		status, text := s.post("/api/call", body)
		var answer struct {
			api.CallAnswer
			api.ErrorAnswer
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
		return status, answer.CallAnswer, answer.Error
	}
	status, answer, _ := call(`{"tool":"s/echo","arguments":{"text":"hello"}}`)
	require.Equal(t, 200, status)
	var result mcp.CallToolResult
	require.NoError(t, json.Unmarshal(answer.Result, &result))
	require.Equal(t, "hello", result.Content[0].(*mcp.TextContent).Text)
	require.Positive(t, answer.Took)

	for _, wrong := range []string{`{}`, `{"text":7}`, `{"text":"x","bogus":1}`} {
		status, _, failure := call(`{"tool":"s/echo","arguments":` + wrong + `}`)
		require.Equal(t, http.StatusBadRequest, status, wrong)
		require.Equal(t, mcpvisor.OutcomeNotSent, failure.Outcome)
		_, _, failure = call(`{"tool":"s/echo","check":false,"arguments":` + wrong + `}`)
		require.NotEqual(t, mcpvisor.OutcomeNotSent, failure.Outcome, "the caller wants the server to decide")
	}

	status, answer, _ = call(`{"tool":"mcp__s__fail","arguments":{"text":"no"}}`)
	require.Equal(t, 200, status)
	require.Contains(t, string(answer.Result), `"isError":true`)

	status, _, failure := call(`{"tool":"s/hang","timeoutMs":20}`)
	require.Equal(t, http.StatusGatewayTimeout, status)
	require.Equal(t, mcpvisor.ErrTimeout, failure.Kind)
	require.Contains(t, failure.Message, "20ms")
	require.Equal(t, mcpvisor.OutcomeUnknown, failure.Outcome)
	require.Equal(t, "s", failure.Server)

	status, _, failure = call(`{"tool":"s/crash","arguments":{"code":3}}`)
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, mcpvisor.ErrCrashed, failure.Kind)

	status, _, _ = call(`{"tool":"s/echo","arguments":{"text":"again"},"waitReady":true}`)
	require.Equal(t, 200, status)
}

func TestHealth_and_readiness(t *testing.T) {
	c := newClient(t)
	register(t, c, "good")
	registerBroken(t, c, "bad")
	all, some, none := serve(t, c), serve(t, c, web.WithRequired("good")), serve(t, c, web.WithRequired())
	for _, s := range []*site{all, some, none} {
		require.Equal(t, "ok", decoded[api.Health](s, "/healthz", 200).Status)
	}
	require.True(t, decoded[api.Readiness](some, "/readyz", 200).Ready)
	require.True(t, decoded[api.Readiness](none, "/readyz", 200).Ready)
	require.True(t, decoded[api.Readiness](all, "/readyz?server=good", 200).Ready)
	answer := decoded[api.Readiness](all, "/readyz", 503)
	require.False(t, answer.Ready)
	require.Len(t, answer.NotReady, 1)
	require.Equal(t, supervisor.StateEvicted, answer.NotReady[0].State)
	require.Contains(t, answer.NotReady[0].Reason, "exit status 7")
	answer = decoded[api.Readiness](some, "/readyz?server=bad&server=none", 503)
	require.Len(t, answer.NotReady, 2)
	require.Contains(t, answer.NotReady[1].Reason, "no server of that name")

	leaving := new(atomic.Bool)
	host := serve(t, c, web.WithRequired("good"), web.WithProgram(api.Program{Leaving: leaving.Load}))
	require.True(t, decoded[api.Readiness](host, "/readyz", 200).Ready)
	leaving.Store(true)
	require.True(t, decoded[api.Readiness](host, "/readyz", 503).Closed)

	// A kubelet has no token and uses the address of the pod: it learns the status alone.
	closed := serve(t, c, web.WithToken("secret-secret"))
	response, body := closed.do(http.MethodGet, "/readyz", "", func(r *http.Request) { r.Host = "10.1.2.3:8080" })
	require.Equal(t, 503, response.StatusCode)
	require.JSONEq(t, `{"ready":false}`, body)
	response, _ = closed.do(http.MethodGet, "/healthz", "", func(r *http.Request) { r.Host = "10.1.2.3:8080" })
	require.Equal(t, 200, response.StatusCode)
	response, body = all.do(http.MethodGet, "/readyz", "", func(r *http.Request) { r.Host = "evil.example" })
	require.Equal(t, 503, response.StatusCode)
	require.NotContains(t, body, "bad", "a foreign page learns no names")
}

// A server that is out of service as planned does not make its client unready. One that waits, or that failed with its
// group, does.
func TestReadiness_of_planned_states_and_groups(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "web", Members: []string{"api", "ui"}, Strategy: supervisor.OneForAll, Intensity: supervisor.Intensity{Window: time.Hour}}}))
	for _, name := range []string{"db", "api", "ui", "lazy"} {
		spec := mcpvisor.ServerSpec{Name: name, StartSupervised: true, Policy: supervisor.Retry(3, time.Millisecond), InMemory: mcptest.InMemory(mcptest.Script{})}
		switch name {
		case "lazy":
			spec.Start = mcpvisor.StartLazy
		case "ui":
			spec.After = []string{"db"}
		}
		require.NoError(t, c.Register(t.Context(), spec))
	}
	require.NoError(t, c.WaitReady(t.Context(), "db", "api", "ui"))
	is := func(name string, state supervisor.State) {
		t.Helper()
		require.Eventually(t, func() bool { s, _ := c.ServerStatus(name); return s.State == state }, time.Minute, time.Millisecond)
	}
	is("lazy", supervisor.StateAsleep)
	require.Eventually(t, func() bool { return c.Groups()[0].State == "ready" }, time.Minute, time.Millisecond) // its members tell it
	require.NoError(t, c.Stop(t.Context(), "db"))
	s := serve(t, c)
	require.True(t, decoded[api.Readiness](s, "/readyz", 200).Ready)
	require.Len(t, decoded[api.Readiness](s, "/readyz?server=db&server=lazy", 503).NotReady, 2)
	status := decoded[api.Status](s, "/api/status?server=db", 200)
	require.Empty(t, status.Attention)
	require.Equal(t, []string{"api", "ui"}, status.Groups[0].Members)
	require.Equal(t, "ready", status.Groups[0].State)

	require.NoError(t, c.Restart(t.Context(), "ui"))
	is("ui", supervisor.StateWaiting)
	require.Equal(t, []api.NotReady{{Server: "ui", State: supervisor.StateWaiting, Reason: "the server waits for db"}}, decoded[api.Readiness](s, "/readyz", 503).NotReady)

	_, err := c.CallTool(t.Context(), "api/crash", map[string]any{"code": 7}) // one failure is more than the group allows
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.Eventually(t, func() bool { return c.Groups()[0].State == "given up" }, time.Minute, time.Millisecond)
	is("ui", supervisor.StateEvicted)
	require.Len(t, decoded[api.Readiness](s, "/readyz", 503).NotReady, 2)
	status = decoded[api.Status](s, "/api/status", 200)
	require.Equal(t, api.AttentionGroup, status.Attention[0].Kind)
	require.Equal(t, "web", status.Attention[0].Group)
	require.Len(t, status.Attention, 2, "one entry for all its servers")
	require.Equal(t, api.AttentionUnknownOutcome, status.Attention[1].Kind)
	require.Equal(t, []string{"api", "ui"}, status.Attention[0].Servers)
	require.Regexp(t, `group "web" is evicted: "api" .*; .*7`, status.Attention[0].Text)
	require.Contains(t, status.Groups[0].Cause.Message, `group "web" is evicted`)
}

// A client without servers is ready, unless servers are required. Once its Close has begun it
// is not, whatever is required.
func TestReadiness_without_servers_and_after_Close(t *testing.T) {
	c := newClient(t)
	sites := map[string]*site{"default": serve(t, c), "none required": serve(t, c, web.WithRequired())}
	for what, s := range sites {
		require.True(t, decoded[api.Readiness](s, "/readyz", 200).Ready, what)
	}
	require.False(t, decoded[api.Readiness](serve(t, c, web.WithRequired("later")), "/readyz", 503).Closed)
	began, ended := make(chan struct{}), make(chan struct{})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "slow", InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
			err := mcptest.InMemory(mcptest.Script{}).Serve(ctx, in, out, stderr)
			close(began)
			<-ended
			return err
		}}}))
	closed := make(chan error, 1)
	go func() { closed <- c.Close(context.Background()) }()
	<-began // the server is told to end, and takes its time
	for what, s := range sites {
		answer := decoded[api.Readiness](s, "/readyz", 503)
		require.True(t, answer.Closed, what)
		require.False(t, answer.Ready, what)
		require.Equal(t, "ok", decoded[api.Health](s, "/healthz", 200).Status)
	}
	close(ended)
	require.NoError(t, <-closed)
	for what, s := range sites {
		require.True(t, decoded[api.Readiness](s, "/readyz", 503).Closed, what)
	}
	response, body := serve(t, c, web.WithToken("secret-secret")).do(http.MethodGet, "/readyz", "", func(r *http.Request) { r.Host = "10.1.2.3:8080" })
	require.Equal(t, 503, response.StatusCode)
	require.JSONEq(t, `{"ready":false}`, body)
}

// Who may not see the page can ask for the required servers alone, and so finds out no
// names.
func TestReadiness_for_strangers(t *testing.T) {
	c := newClient(t)
	register(t, c, "required")
	register(t, c, "other")
	s := serve(t, c, web.WithToken("secret-secret"), web.WithRequired("required"))
	for name, want := range map[string]int{"required": 200, "other": 401, "not-there": 401} {
		status, body := s.get("/readyz?server=" + name)
		require.Equal(t, want, status, name)
		require.NotContains(t, body, name+`"`)
	}
	response, _ := s.do(http.MethodGet, "/readyz?server=other", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret-secret") })
	require.Equal(t, 200, response.StatusCode)
}

// The page works under any prefix: the prefix without its slash is redirected by a relative
// address, which is right behind a proxy, too.
func TestPrefix(t *testing.T) {
	h, err := web.New(newClient(t))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/mcp", http.StripPrefix("/ops/mcp", h))
	mux.Handle("/ops/mcp/", http.StripPrefix("/ops/mcp", h))
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	response, err := server.Client().Get(server.URL + "/ops/mcp?x=1")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, "/ops/mcp/?x=1", response.Request.URL.RequestURI())
	require.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	for _, path := range []string{"app.js", "style.css", "icon.svg", "api/status", "healthz"} {
		response, err := server.Client().Get(server.URL + "/ops/mcp/" + path)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, 200, response.StatusCode, path)
	}
}

// The clients are those of the gateway that the host names; without one the list is empty.
func TestClients(t *testing.T) {
	c := newClient(t)
	none := decoded[api.Clients](serve(t, c), "/api/clients", 200)
	require.False(t, none.Gateway)
	require.NotNil(t, none.Sessions)
	hosts := clients.New()
	hosts.Open("a", clients.Info{Name: "host", Version: "1", Transport: "stdio"}).Begin(true)
	hosts.Refuse(clients.RefusedToken)
	some := decoded[api.Clients](serve(t, c, web.WithGateway(hosts.Status)), "/api/clients", 200)
	require.True(t, some.Gateway)
	require.NotEqual(t, none.Instance, some.Instance)
	require.Equal(t, 1, some.Total)
	require.Equal(t, "host 1", some.Sessions[0].Label())
	require.Equal(t, 1, some.Sessions[0].InFlight)
	require.EqualValues(t, 1, some.Refused[clients.RefusedToken])
}

// The nodes are those that the host names; without a fleet there are none, and the lists are lists.
func TestNodes(t *testing.T) {
	c := newClient(t)
	none := decoded[api.Nodes](serve(t, c), "/api/nodes", 200)
	require.False(t, none.Fleet)
	require.NotNil(t, none.Nodes)
	require.NotNil(t, none.Placements)
	since := time.Now().Round(0).UTC()
	status := api.FleetStatus{Node: "a", Generation: 7, CutOffSince: &since, Nodes: []api.Node{{ID: "a", Weight: 1, Servers: 1}},
		Placements: []api.Placement{{Server: "files", Node: "a", Epoch: 3, Exclusive: true}, {Server: "gpu", Reason: "no node has the labels gpu=yes"}}}
	some := decoded[api.Nodes](serve(t, c, web.WithProgram(api.Program{Fleet: func() api.FleetStatus { return status }})), "/api/nodes", 200)
	require.True(t, some.Fleet)
	require.NotEmpty(t, some.Instance)
	require.Equal(t, status, some.FleetStatus)
}

// Tools of all servers are found by words of their names and descriptions. Their number and their
// texts are bounded.
func TestSearch(t *testing.T) {
	c := newClient(t)
	long := strings.Repeat("x ", 2000) + "unseen"
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "files", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "Read", Description: "Reads a file\nas text."}, {Name: "write", Description: long}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "many", InMemory: mcptest.InMemory(mcptest.Script{ExtraTools: 120})}))
	s := serve(t, c)
	search := func(words string) api.Search {
		t.Helper()
		return decoded[api.Search](s, "/api/search?q="+url.QueryEscape(words), http.StatusOK)
	}
	require.Equal(t, []api.FoundTool{{Server: "files", Name: "files/Read", OriginalName: "Read", Description: "Reads a file as text.", Tokens: 14}}, search("TEXT read").Tools)
	require.Len(t, search("files/").Tools, 2)
	require.Empty(t, search("unseen").Tools, "only the beginning of a description is searched")
	require.LessOrEqual(t, len(search("files/write").Tools[0].Description), 220)
	many := search("tool_")
	require.Len(t, many.Tools, 50)
	require.Equal(t, 70, many.More)
	all := decoded[api.Search](s, "/api/search?limit=100&kind=tools&kind=resources&kind=prompts", http.StatusOK)
	require.Len(t, all.Tools, 100)
	require.Equal(t, len(c.Tools())+len(c.Resources())+len(c.ResourceTemplates())+len(c.Prompts())-100, all.More)
	all = decoded[api.Search](s, "/api/search?limit=1000000&kind=resources&kind=prompts", http.StatusOK)
	require.Empty(t, all.Tools)
	require.Len(t, all.Resources, len(c.Resources())+len(c.ResourceTemplates()))
	require.Len(t, all.Prompts, len(c.Prompts()))
	require.NotEmpty(t, all.Prompts)
	require.Equal(t, c.Resources()[0].URI, all.Resources[0].OriginalName)
	response, body := s.do(http.MethodGet, "/api/search?q=x&kind=files", "", nil)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Contains(t, body, "tools, resources and prompts")
	for _, query := range []string{"", "?q=", "?q=+", "?limit=1&q=" + strings.Repeat("x", 201)} {
		response, body := s.do(http.MethodGet, "/api/search"+query, "", nil)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.Contains(t, body, "at most 200 bytes")
	}
}

// What a mask hides is neither shown nor found.
func TestSearch_masked(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "t", Description: "Uses canary.", InputSchema: json.RawMessage(`{"type":"object","properties":{"key":{"enum":["canary"]}}}`)}}})}))
	s := serve(t, c, web.WithProgram(api.Program{Mask: func(server, text string) string {
		require.Equal(t, "s", server)
		return strings.ReplaceAll(text, "canary", "***")
	}}))
	for _, path := range []string{"/api/search?q=uses", "/api/servers/s/tools"} {
		_, body := s.get(path)
		require.Contains(t, body, "Uses ***.")
		require.NotContains(t, body, "canary")
	}
	require.Empty(t, decoded[api.Search](s, "/api/search?q=canary", http.StatusOK).Tools)
}

// A crash loop is one summary; what else has changed is found by its kind and by its server.
func TestSummaries(t *testing.T) {
	c := newClient(t)
	s := serve(t, c)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "loop", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond, supervisor.WithMaxDelay(time.Millisecond))}))
	registerBroken(t, c, "broken")
	const crashes = 400
	for i := range crashes {
		_, err := c.CallTool(t.Context(), "loop/crash", map[string]any{"code": 1})
		require.ErrorIs(t, err, mcpvisor.ErrCrashed, i)
		require.NoError(t, c.WaitReady(t.Context(), "loop"))
	}
	events := decoded[api.Events](s, "/api/events?kind=registered", 200)
	require.Empty(t, events.Events, "the loop has displaced them")
	all := decoded[api.EventSummaries](s, "/api/events/summaries", 200)
	var texts []string
	for _, one := range all.Summaries {
		texts = append(texts, fmt.Sprintf("%s %s %d", one.Last.Server, one.Last.Group, one.Count))
	}
	require.Equal(t, []string{"loop configuration 1", "broken configuration 1", "broken ends 1", "broken given_up 1", fmt.Sprint("loop ends ", crashes)}, texts)
	require.Zero(t, all.Dropped)
	require.Contains(t, all.Summaries[4].Text, "loop ended 400 times; last: ")
	require.Equal(t, mcpvisor.SeverityWarning, all.Summaries[4].Last.Severity)

	one := decoded[api.EventSummaries](s, "/api/events/summaries?server=broken&kind=evicted&kind=parked", 200)
	require.Len(t, one.Summaries, 1)
	require.Equal(t, mcpvisor.EventEvicted, one.Summaries[0].Last.Kind)
	require.Empty(t, decoded[api.EventSummaries](s, fmt.Sprint("/api/events/summaries?after=", all.Seq), 200).Summaries)
	require.NotEmpty(t, decoded[api.Events](s, "/api/events?server=loop", 200).Events)
	require.Empty(t, decoded[api.Events](s, "/api/events?server=broken", 200).Events)
	status, _ := s.get("/api/events/summaries?after=x")
	require.Equal(t, 400, status)
}

func TestUsage_of_a_process_and_of_a_server_in_memory(t *testing.T) {
	c := newClient(t)
	register(t, c, "memory")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "process", Stdio: mcptest.Stdio(mcptest.Script{})}))
	s := serve(t, c)
	answer := decoded[api.Usage](s, "/api/usage", http.StatusOK)
	require.EqualValues(t, 1, answer.Seq)
	require.NotEmpty(t, answer.Instance)
	require.Len(t, answer.Servers, 2)
	memory, process := answer.Servers[0], answer.Servers[1]
	require.Equal(t, "memory", memory.Server)
	require.Nil(t, memory.MemoryBytes, "a server in memory has no process of its own")
	require.Nil(t, process.CPU, "one sample says nothing about time")
	require.Nil(t, process.CallsPerMinute)
	require.Nil(t, process.ErrorShare)
	require.Len(t, process.Samples, 1)
	if runtime.GOOS == "linux" {
		require.Equal(t, 1, process.Processes)
		require.Greater(t, *process.MemoryBytes, int64(1<<20))
	}
	again := decoded[api.Usage](s, "/api/usage?after=1", http.StatusOK)
	require.EqualValues(t, 1, again.Seq, "readers share a sample")
	require.Len(t, again.Servers, 2)
	require.Empty(t, again.Servers[1].Samples, "it was read")
	status, _ := s.get("/api/usage?after=x")
	require.Equal(t, http.StatusBadRequest, status)
}

func TestRestart_of_a_server(t *testing.T) {
	c := newClient(t)
	registerBroken(t, c, "s")
	s := serve(t, c, web.WithControls())
	events := c.Watch(t.Context(), mcpvisor.EventEvicted)
	status, body := s.post("/api/servers/s/restart", "")
	require.Equal(t, http.StatusAccepted, status, body)
	require.Equal(t, "s", (<-events).Server, "it was started again")
}

// Stop answers when the server has ended; it stays stopped until it is started.
func TestStop_and_start_of_a_group(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"s"}}}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	s := serve(t, c, web.WithControls())
	for _, name := range []string{"s", "g"} {
		status, body := s.post("/api/servers/"+name+"/stop?drain=true", "")
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, `{"server": "`+name+`"}`, body)
		stopped, _ := c.ServerStatus("s")
		require.Equal(t, supervisor.StateStopped, stopped.State)
		require.Equal(t, []string{"s"}, decoded[api.Status](s, "/api/status", 200).Groups[0].Members)
		status, body = s.post("/api/servers/"+name+"/start", "")
		require.Equal(t, http.StatusAccepted, status, body)
		require.NoError(t, c.WaitReady(t.Context(), "s"))
	}
}

func TestMetrics_are_those_of_the_host(t *testing.T) {
	c := newClient(t)
	status, _ := serve(t, c).get("/metrics")
	require.Equal(t, 404, status)
	s := serve(t, c, web.WithMetrics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })))
	status, body := s.get("/metrics")
	require.Equal(t, 200, status)
	require.Equal(t, "up 1\n", body)
}
