package web_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/web"
)

// openAPI is openapi.json as the tests read it.
type openAPI struct {
	Info  struct{ Description string }
	Paths map[string]map[string]struct {
		Responses map[string]apiResponse
	}
	Components struct {
		Schemas   json.RawMessage
		Responses map[string]apiResponse
	}

	resolved map[string]*jsonschema.Resolved // by schema
}

type apiResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema apiRef
	}
	Headers map[string]struct {
		Required bool
		Schema   json.RawMessage
	}
	Events map[string]apiRef `json:"x-events"` // of a stream: the data of each event, by its name
}

type apiRef struct {
	Ref string `json:"$ref"`
}

// inEveryAnswer are headers that info.description of the file names; unspecific are those of
// HTTP itself.
var (
	inEveryAnswer = []string{"Cache-Control", "Content-Security-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}
	unspecific    = []string{"Connection", "Content-Length", "Content-Type", "Date", "Vary"}
)

func readOpenAPI(t *testing.T) (file openAPI) {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &file))
	file.resolved = map[string]*jsonschema.Resolved{}
	return file
}

// response returns what the file says of this status of an operation. pattern is "GET /api/status".
func (file *openAPI) response(t *testing.T, pattern string, status int) apiResponse {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	operation, described := file.Paths[path][strings.ToLower(method)]
	require.True(t, described, pattern)
	response, described := operation.Responses[strconv.Itoa(status)]
	if !described && status >= 400 {
		response, described = operation.Responses["default"]
	}
	require.True(t, described, "%s has no answer %d", pattern, status)
	if name, shared := strings.CutPrefix(response.Ref, "#/components/responses/"); shared {
		response = file.Components.Responses[name]
	}
	return response
}

// check requires that the file has this status for the operation, with the headers, and that the
// body is of its schema.
func (file *openAPI) check(t *testing.T, pattern string, status int, header http.Header, body string) {
	t.Helper()
	response := file.response(t, pattern, status)
	file.checkHeaders(t, response, header)
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	content, described := response.Content[kind]
	require.True(t, described, "%s %d has the type %s", pattern, status, kind)
	if content.Schema.Ref != "" {
		file.validate(t, []byte(`{"$ref": "`+content.Schema.Ref+`"}`), body)
	}
}

// checkHeaders requires that an answer has the headers that the file says it has, and no other.
func (file *openAPI) checkHeaders(t *testing.T, response apiResponse, header http.Header) {
	t.Helper()
	for _, name := range inEveryAnswer {
		require.Contains(t, file.Info.Description, name)
		require.NotEmpty(t, header.Get(name), "%s is in every answer", name)
	}
	canonical := map[string]bool{}
	for name := range response.Headers {
		canonical[http.CanonicalHeaderKey(name)] = true
	}
	for name := range header {
		described := canonical[name]
		require.True(t, described || slices.Contains(inEveryAnswer, name) || slices.Contains(unspecific, name), "%s is not described", name)
	}
	for name, h := range response.Headers {
		text := header.Get(name)
		if text == "" {
			require.False(t, h.Required, "%s is missing", name)
			continue
		}
		value, _ := json.Marshal(text)
		if strings.Contains(string(h.Schema), "integer") {
			value = []byte(text)
		}
		file.validate(t, h.Schema, string(value))
	}
}

// validate compares JSON with a schema that may refer to those of the file.
func (file *openAPI) validate(t *testing.T, schema []byte, body string) {
	t.Helper()
	toDefs := func(text []byte) string {
		return strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")
	}
	resolved := file.resolved[string(schema)]
	if resolved == nil {
		var whole jsonschema.Schema
		require.NoError(t, json.Unmarshal([]byte(`{"allOf": [`+toDefs(schema)+`], "$defs": `+toDefs(file.Components.Schemas)+`}`), &whole))
		var err error
		resolved, err = whole.Resolve(nil)
		require.NoError(t, err)
		file.resolved[string(schema)] = resolved
	}
	var value any
	require.NoError(t, json.Unmarshal([]byte(body), &value), body)
	require.NoError(t, resolved.Validate(value), "%s: %s", schema, body)
}

// Each event of a stream is what openapi.json says of it: the first, those that were missed, and
// those of the client.
func TestOpenAPI_stream(t *testing.T) {
	const pattern = "GET /api/events/stream"
	file := readOpenAPI(t)
	c, s := serveOne(t, "s")
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.Error(t, err)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	for range retention.Events/2 + 10 {
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "x", InMemory: mcptest.InMemory(mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true})}))
		require.NoError(t, c.Unregister(t.Context(), "x"))
	}
	registerBroken(t, c, "broken")
	for _, query := range []string{"", "?after=0", "?last=50"} {
		response, reading := s.openStream(query, "")
		described := file.response(t, pattern, response.StatusCode)
		file.checkHeaders(t, described, response.Header)
		require.Contains(t, described.Content, response.Header.Get("Content-Type"))
		seen := map[string]int{}
		for ended := false; !ended; {
			e := reading.next()
			require.NotEmpty(t, e.data, "the stream has ended")
			schema, known := described.Events[e.name]
			require.True(t, known, "the event %q is not described", e.name)
			file.validate(t, []byte(`{"$ref": "`+schema.Ref+`"}`), e.data)
			seen[e.name]++
			ended = strings.Contains(e.data, `"kind":"evicted"`)
		}
		require.Equal(t, 1, seen["hello"])
		require.Equal(t, query != "?last=50", seen["missed"] > 0)
		reading.close()
	}
	for status, query := range map[int]string{400: "?after=x", 401: ""} {
		site := s
		if status == 401 {
			site = serve(t, c, web.WithToken("secret"))
		}
		response, body := site.do(http.MethodGet, "/api/events/stream"+query, "", nil)
		require.Equal(t, status, response.StatusCode)
		file.check(t, pattern, status, response.Header, body)
	}
}

// The answers to real requests are what openapi.json says of them.
func TestOpenAPI_answers(t *testing.T) {
	file := readOpenAPI(t)
	j := newJournal()
	j.entries[mcpvisor.JournalKey{Key: "interrupted"}] = mcpvisor.JournalEntry{Key: "interrupted", Server: "fs", Tool: "echo", State: mcpvisor.JournalSent}
	c := newClient(t, facade.WithJournal(j, ""))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs", Stdio: mcptest.Stdio(mcptest.Script{})}))
	registerBroken(t, c, "broken")
	remote := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(remote.Close)
	guard := oauthtest.NewServer(remote.URL)
	t.Cleanup(guard.Close)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "locked", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}))
	require.ErrorIs(t, c.WaitReady(t.Context(), "locked"), mcpvisor.ErrAuthRequired)
	register(t, c, "deaf")
	busy := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionHang}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "busy", InMemory: mcptest.InMemory(busy), Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}}))
	crashing := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionExit}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "crashing", InMemory: mcptest.InMemory(crashing), Policy: mcpvisor.Retry(3, time.Hour)}))
	for _, name := range []string{"echo", "fail", "stderr"} {
		_, err := c.CallTool(t.Context(), "fs/"+name, map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, "up 1\n")
	})
	open := serve(t, c, web.WithControls(), web.WithMetrics(metrics))
	readOnly, guarded := serve(t, c, web.WithRequired("fs")), serve(t, c, web.WithToken("secret"), web.WithControls())
	plainText := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }

	held := make(chan struct{})
	go func() { // takes the one place of the server
		defer close(held)
		_, _ = c.CallTool(t.Context(), "busy/echo", map[string]any{"text": "x"})
	}()
	defer func() { _ = c.Unregister(t.Context(), "busy"); <-held }()
	require.Eventually(t, func() bool { s, _ := c.ServerStatus("busy"); return s.Calls.InFlight == 1 }, 30*time.Second, time.Millisecond)

	tool := func(name string) string { return `{"tool": "` + name + `", "arguments": {"text": "x"}}` }
	for _, row := range []struct {
		site          *site
		pattern, path string
		body          string
		change        func(*http.Request)
		status        int
	}{
		{open, "GET /api/status", "/api/status", "", nil, 200},
		{open, "GET /api/status", "/api/status?server=fs&server=broken", "", nil, 200},
		{open, "GET /api/status", "/api/status?a=%zz", "", nil, 400},
		{guarded, "GET /api/status", "/api/status", "", nil, 401},
		{guarded, "GET /api/status", "/api/status", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") }, 200},
		{open, "GET /api/status", "/api/status", "", func(r *http.Request) { r.Header.Set("Via", "1.1 proxy") }, 403},
		{open, "GET /api/servers/{name}", "/api/servers/fs", "", nil, 200},
		{open, "GET /api/servers/{name}", "/api/servers/broken", "", nil, 200},
		{open, "GET /api/servers/{name}", "/api/servers/fx", "", nil, 404},
		{open, "GET /api/servers/{name}/tools", "/api/servers/fs/tools", "", nil, 200},
		{open, "GET /api/servers/{name}/tools", "/api/servers/fx/tools", "", nil, 404},
		{open, "GET /api/servers/{name}/stderr", "/api/servers/fs/stderr?after=0", "", nil, 200},
		{open, "GET /api/servers/{name}/stderr", "/api/servers/fs/stderr?after=x", "", nil, 400},
		{open, "GET /api/tools", "/api/tools?limit=2", "", nil, 200},
		{open, "GET /api/tools", "/api/tools?limit=-2", "", nil, 400},
		{open, "GET /api/search", "/api/search?q=echo", "", nil, 200},
		{open, "GET /api/search", "/api/search", "", nil, 400},
		{open, "GET /api/calls", "/api/calls", "", nil, 200},
		{open, "GET /api/usage", "/api/usage", "", nil, 200},
		{open, "GET /api/clients", "/api/clients", "", nil, 200},
		{readOnly, "GET /api/clients", "/api/clients", "", nil, 200},
		{open, "GET /api/events/summaries", "/api/events/summaries?after=1&server=broken&kind=evicted", "", nil, 200},
		{open, "GET /api/events/summaries", "/api/events/summaries?after=x", "", nil, 400},
		{open, "GET /api/events", "/api/events?last=50&kind=ready&kind=evicted", "", nil, 200},
		{open, "GET /api/events", "/api/events?after=1&after=2", "", nil, 400},
		{open, "GET /api/openapi.json", "/api/openapi.json", "", nil, 200},
		{open, "GET /healthz", "/healthz", "", nil, 200},
		{readOnly, "GET /readyz", "/readyz", "", nil, 200},
		{open, "GET /readyz", "/readyz", "", nil, 503},
		{guarded, "GET /readyz", "/readyz?server=fs", "", nil, 401},
		{open, "GET /metrics", "/metrics", "", nil, 200},
		{readOnly, "GET /metrics", "/metrics", "", nil, 404},
		{open, "POST /api/servers/{name}/restart", "/api/servers/deaf/restart", "{}", nil, 202},
		{open, "POST /api/servers/{name}/restart", "/api/servers/fx/restart", "{}", nil, 404},
		{readOnly, "POST /api/servers/{name}/restart", "/api/servers/fs/restart", "{}", nil, 403},
		{open, "POST /api/servers/{name}/restart", "/api/servers/fs/restart", "{}", plainText, 415},
		{open, "POST /api/servers/{name}/stop", "/api/servers/deaf/stop", "{}", nil, 200},
		{open, "POST /api/servers/{name}/start", "/api/servers/deaf/start", "{}", nil, 202},
		{open, "POST /api/servers/{name}/stop", "/api/servers/fx/stop", "{}", nil, 404},
		{open, "POST /api/servers/{name}/start", "/api/servers/fx/start", "{}", nil, 404},
		{readOnly, "POST /api/servers/{name}/stop", "/api/servers/fs/stop", "{}", nil, 403},
		{readOnly, "POST /api/servers/{name}/start", "/api/servers/fs/start", "{}", nil, 403},
		{readOnly, "POST /api/call", "/api/call", tool("fs/echo"), nil, 403},
		{open, "POST /api/call", "/api/call", tool("fs/echo"), nil, 200},
		{open, "POST /api/call", "/api/call", tool("fs/fail"), nil, 200},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/echo", "unknown": 1}`, nil, 400},
		{open, "POST /api/call", "/api/call", tool("fs/ecco"), nil, 404},
		{open, "POST /api/call", "/api/call", tool("fs/echo"), foreign, 403},
		{open, "POST /api/call", "/api/call", tool("fs/echo"), plainText, 415},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/echo", "arguments": {"text": "` + strings.Repeat("x", 9<<20) + `"}}`, nil, 413},
		{open, "POST /api/call", "/api/call", tool("busy/echo"), nil, 429},
		{open, "POST /api/call", "/api/call", tool("crashing/echo"), nil, 502},
		{open, "POST /api/call", "/api/call", tool("broken/echo"), nil, 503},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/hang", "timeoutMs": 50}`, nil, 504},
		{guarded, "POST /api/call", "/api/call", tool("fs/echo"), nil, 401},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/echo", "arguments": {"text": "x"}, "key": "k"}`, nil, 200},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/echo", "arguments": {"text": "other"}, "key": "k"}`, nil, 400},
		{open, "POST /api/call", "/api/call", `{"tool": "fs/echo", "key": "interrupted"}`, nil, 502},
		{open, "GET /api/tasks", "/api/tasks", "", nil, 200},
		{open, "POST /api/tasks/wait", "/api/tasks/wait", `{"key": "k"}`, nil, 200},
		{open, "POST /api/tasks/wait", "/api/tasks/wait", `{"key": "none"}`, nil, 400},
		{open, "POST /api/tasks/wait", "/api/tasks/wait", `{"key": "interrupted"}`, nil, 502},
		{open, "GET /api/approvals", "/api/approvals", "", nil, 200},
		{open, "POST /api/approvals", "/api/approvals", `{"id": "none", "approve": true}`, nil, 404},
		{readOnly, "POST /api/approvals", "/api/approvals", `{"id": "none", "approve": true}`, nil, 403},
		{open, "POST /api/servers/{name}/authorize", "/api/servers/locked/authorize", "{}", nil, 200},
		{open, "POST /api/servers/{name}/authorize", "/api/servers/locked/authorize", `{"redirect": "http://127.0.0.1/callback?state=made-up&code=1"}`, nil, 503},
		{open, "POST /api/servers/{name}/authorize", "/api/servers/fs/authorize", "{}", nil, 400},
		{open, "POST /api/servers/{name}/authorize", "/api/servers/fx/authorize", "{}", nil, 404},
		{open, "POST /api/servers/{name}/authorize", "/api/servers/locked/authorize", "{}", plainText, 415},
		{readOnly, "POST /api/servers/{name}/authorize", "/api/servers/locked/authorize", "{}", nil, 403},
		{open, "POST /api/calls/cancel", "/api/calls/cancel", `{"server": "fs", "gen": 1, "epoch": 1, "method": "tools/call", "target": "echo", "began": "2026-11-28T19:30:00Z", "id": 1073741825}`, nil, 400},
		{open, "POST /api/calls/cancel", "/api/calls/cancel", `{}`, plainText, 415},
		{readOnly, "POST /api/calls/cancel", "/api/calls/cancel", `{}`, nil, 403},
		{open, "POST /api/tasks/cancel", "/api/tasks/cancel", `{"key": "k"}`, nil, 202},
		{open, "POST /api/tasks/cancel", "/api/tasks/cancel", `{"number": 9}`, nil, 400},
		{open, "POST /api/tasks/cancel", "/api/tasks/cancel", `{"number": "` + strings.Repeat("1", 9<<10) + `"}`, nil, 413},
		{open, "POST /api/tasks/cancel", "/api/tasks/cancel", `{"number": 9}`, plainText, 415},
		{readOnly, "POST /api/tasks/cancel", "/api/tasks/cancel", `{"number": 9}`, nil, 403},
		{open, "GET /api/status", "/api/status", "", func(r *http.Request) { r.Host = "evil.example" }, 421},
		{open, "GET /api/tools", "/api/tools?limit=" + strings.Repeat("1", 9<<10), "", nil, 414},
	} {
		t.Run(strconv.Itoa(row.status)+" "+row.path, func(t *testing.T) {
			method, _, _ := strings.Cut(row.pattern, " ")
			response, body := row.site.do(method, row.path, row.body, row.change)
			require.Equal(t, row.status, response.StatusCode, body)
			file.check(t, row.pattern, response.StatusCode, response.Header, body)
			require.Equal(t, row.status == 429, strings.Contains(body, `"retryable":true`), "only what was not sent, and can pass, may be repeated")
		})
	}
}

// A handler that is busy says when to try again.
func TestOpenAPI_busy(t *testing.T) {
	file := readOpenAPI(t)
	s := serve(t, newClient(t))
	var response *http.Response
	for response == nil || response.StatusCode == http.StatusOK { // until all places of streams are taken
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events/stream", nil)
		require.NoError(t, err)
		response, err = s.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
	}
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	body := string(text)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
	file.check(t, "GET /api/events/stream", response.StatusCode, response.Header, body)
}

// An answer to a method that a path does not have says which it has.
func TestOpenAPI_wrong_method(t *testing.T) {
	file := readOpenAPI(t)
	response, body := serve(t, newClient(t), web.WithControls()).do(http.MethodPost, "/api/status", "{}", nil)
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
	require.NotEmpty(t, response.Header.Get("Allow"))
	file.check(t, "GET /api/status", response.StatusCode, response.Header, body)
}

// Each curl command of the page is answered with success.
func TestHTTPAPIPage_commands(t *testing.T) {
	text, err := os.ReadFile("../docs/http-api.md")
	require.NoError(t, err)
	c := newClient(t, facade.WithJournal(newJournal(), ""))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "everything", Stdio: mcptest.Stdio(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}}})}))
	s := serve(t, c, web.WithControls(), web.WithToken("secret"))
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	commands := regexp.MustCompile(`(?m)^curl .*$`).FindAllString(joined, -1)
	require.Greater(t, len(commands), 6)
	for _, command := range commands {
		method, body, path, header := http.MethodGet, "", "", http.Header{}
		words := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(command, -1)[1:]
		if comment := slices.Index(words, "#"); comment >= 0 {
			words = words[:comment]
		}
		for i := 0; i < len(words); i++ {
			word := strings.Trim(words[i], `'"`)
			switch {
			case strings.Contains(word, "$URL"):
				path = strings.ReplaceAll(word, "$URL", "")
			case word == "-H":
				i++
				name, value, _ := strings.Cut(strings.ReplaceAll(strings.Trim(words[i], `'"`), "$TOKEN", "secret"), ": ")
				header.Set(name, value)
			case word == "-d", word == "--json":
				i++
				if method, body = http.MethodPost, strings.Trim(words[i], `'`); word == "--json" {
					header.Set("Content-Type", "application/json")
				}
			case word == "-N", word == "-s", word == "-sS", word == "--fail-with-body":
			default:
				t.Fatalf("say in this test what %s means: %s", word, command)
			}
		}
		if strings.Contains(command, "stream") {
			continue // TestStream reads streams
		}
		if !strings.Contains(command, "/start ") { // it starts the server that another one has stopped
			require.NoError(t, c.WaitReady(t.Context()), "one of the commands restarts it")
		}
		response, answer := s.do(method, path, body, func(r *http.Request) {
			r.Header.Del("Content-Type")
			for name := range header {
				r.Header.Set(name, header.Get(name))
			}
		})
		require.Less(t, response.StatusCode, 300, "%s: %s", command, answer)
	}
}
