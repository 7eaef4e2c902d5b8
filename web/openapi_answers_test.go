package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// openAPI is openapi.json as the tests read it.
type openAPI struct {
	Paths map[string]map[string]struct {
		Responses map[string]apiResponse
	}
	Components struct {
		Schemas   json.RawMessage
		Responses map[string]apiResponse
	}
}

type apiResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		}
	}
}

func readOpenAPI(t *testing.T) (file openAPI) {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &file))
	return file
}

// check requires that the file has this status for the operation, and that the body is of its
// schema. pattern is "GET /api/status".
func (file *openAPI) check(t *testing.T, pattern string, status int, contentType, body string) {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	operation, described := file.Paths[path][strings.ToLower(method)]
	require.True(t, described, pattern)
	response, described := operation.Responses[strconv.Itoa(status)]
	if !described && status >= 400 {
		response, described = operation.Responses["default"]
	}
	require.True(t, described, "%s has no answer %d: %s", pattern, status, body)
	if name, shared := strings.CutPrefix(response.Ref, "#/components/responses/"); shared {
		response = file.Components.Responses[name]
	}
	kind, _, _ := strings.Cut(contentType, ";")
	content, described := response.Content[kind]
	require.True(t, described, "%s %d has the type %s", pattern, status, kind)
	if content.Schema.Ref == "" {
		return
	}
	var whole jsonschema.Schema
	schemas := strings.ReplaceAll(string(file.Components.Schemas), "#/components/schemas/", "#/$defs/")
	ref := strings.ReplaceAll(content.Schema.Ref, "#/components/schemas/", "#/$defs/")
	require.NoError(t, json.Unmarshal([]byte(`{"$ref": "`+ref+`", "$defs": `+schemas+`}`), &whole))
	resolved, err := whole.Resolve(nil)
	require.NoError(t, err)
	var value any
	require.NoError(t, json.Unmarshal([]byte(body), &value), body)
	require.NoError(t, resolved.Validate(value), "%s %d: %s", pattern, status, body)
}

// The answers to real requests are what openapi.json says of them.
func TestOpenAPI_answers(t *testing.T) {
	file := readOpenAPI(t)
	j := newJournal()
	j.entries["interrupted"] = mcpvisor.JournalEntry{Key: "interrupted", Server: "fs", Tool: "echo", State: mcpvisor.JournalSent}
	c := newClient(t, facade.WithJournal(j, ""))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs", Stdio: mcptest.Stdio(mcptest.Script{})}))
	registerBroken(t, c, "broken")
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
			file.check(t, row.pattern, response.StatusCode, response.Header.Get("Content-Type"), body)
			require.Equal(t, row.status == 429, strings.Contains(body, `"retryable":true`), "only what was not sent, and can pass, may be repeated")
		})
	}
}

// Each curl command of the page is answered with success.
func TestHTTPAPIPage_commands(t *testing.T) {
	text, err := os.ReadFile("../docs/http-api.md")
	require.NoError(t, err)
	c := newClient(t, facade.WithJournal(newJournal(), ""))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs", Stdio: mcptest.Stdio(mcptest.Script{})}))
	s := serve(t, c, web.WithControls(), web.WithToken("secret"))
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	commands := regexp.MustCompile(`(?m)^curl .*$`).FindAllString(joined, -1)
	require.Greater(t, len(commands), 6)
	for _, command := range commands {
		method, body, path, header := http.MethodGet, "", "", http.Header{}
		words := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(command, -1)[1:]
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
		require.NoError(t, c.WaitReady(t.Context()), "one of the commands restarts it")
		response, answer := s.do(method, path, body, func(r *http.Request) {
			r.Header.Del("Content-Type")
			for name := range header {
				r.Header.Set(name, header.Get(name))
			}
		})
		require.Less(t, response.StatusCode, 300, "%s: %s", command, answer)
	}
}
