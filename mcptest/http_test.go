package mcptest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// connectHTTP opens a session on connections of its own. The test closes it at the end.
func connectHTTP(t *testing.T, h *HTTPServer) *mcp.ClientSession {
	t.Helper()
	web := &http.Transport{}
	t.Cleanup(web.CloseIdleConnections)
	return connect(t, client(nil), &mcp.StreamableClientTransport{
		Endpoint: h.URL, HTTPClient: &http.Client{Transport: web}, MaxRetries: -1,
	})
}

func serve(t *testing.T, s Script, opts ...HTTPOption) *HTTPServer {
	h := NewHTTP(s, opts...)
	t.Cleanup(h.Close)
	return h
}

func call(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	return s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
}

func TestHTTPServer_in_every_mode(t *testing.T) {
	for name, mode := range map[string]struct {
		opts    []HTTPOption
		version string
	}{
		"sessions":      {nil, version20251125},
		"sessions json": {[]HTTPOption{WithJSONResponses()}, version20251125},
		"stateless":     {[]HTTPOption{WithStateless(), WithJSONResponses()}, version20260728},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, Script{Name: "web", PageSize: 4}, mode.opts...)
			s := connectHTTP(t, h)
			require.Equal(t, mode.version, s.InitializeResult().ProtocolVersion)
			require.Equal(t, "web", s.InitializeResult().ServerInfo.Name)
			checkContent(t, s)
			sum, err := call(t, s, "add", map[string]any{"a": 2, "b": 3})
			require.NoError(t, err)
			require.Equal(t, map[string]any{"sum": 5.0}, sum.StructuredContent)
			failed, err := call(t, s, "fail", nil)
			require.NoError(t, err)
			require.True(t, failed.IsError)
			require.Positive(t, h.Requests())
		})
	}
}

func TestHTTPServer_stop_and_restart(t *testing.T) {
	h := serve(t, Script{})
	url := h.URL
	s := connectHTTP(t, h)
	inFlight := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		close(begun)
		_, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "hang"})
		inFlight <- err
	}()
	<-begun
	_, err := call(t, s, "count", map[string]any{"key": "k"})
	require.NoError(t, err)
	h.Stop()
	h.Stop()
	require.Error(t, <-inFlight, "the call fails with the connection")
	_, err = http.Get(url)
	require.Error(t, err, "the port refuses connections")

	h.Restart()
	require.Equal(t, url, h.URL)
	_, err = call(t, s, "echo", map[string]any{"text": "x"})
	require.Error(t, err, "the old session is forgotten")
	again := connectHTTP(t, h)
	who, err := call(t, again, "pid", nil)
	require.NoError(t, err)
	require.InDelta(t, 2, who.StructuredContent.(map[string]any)["start"], 0)
	counted, err := call(t, again, "count", map[string]any{"key": "k"})
	require.NoError(t, err)
	require.InDelta(t, 2, counted.StructuredContent.(map[string]any)["executions"], 0, "counts outlive an incarnation")
}

func TestHTTPServer_crash_tool(t *testing.T) {
	h := serve(t, Script{})
	s := connectHTTP(t, h)
	_, err := call(t, s, "crash", nil)
	require.Error(t, err)
	h.Stop()
	_, err = http.Get(h.URL)
	require.Error(t, err)
	h.Restart()
	_, err = call(t, connectHTTP(t, h), "pid", nil)
	require.NoError(t, err)
}

func TestHTTPServer_faults(t *testing.T) {
	h := serve(t, Script{Faults: []Fault{
		{At: StageCall, Tool: "echo", Nth: 1, Do: ActionError, Code: -32001, Text: "not today"},
		{At: StageCall, Tool: "add", Do: ActionDelay, Delay: 30 * time.Millisecond},
		{At: StageCall, Tool: "env", Do: ActionHang},
		{At: StageCall, Tool: "big", Do: ActionExit},
	}})
	s := connectHTTP(t, h)
	_, err := call(t, s, "echo", map[string]any{"text": "x"})
	var rpc *jsonrpc.Error
	require.ErrorAs(t, err, &rpc)
	require.EqualValues(t, -32001, rpc.Code)
	echoed, err := call(t, s, "echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.Equal(t, "x", textOf(t, echoed))
	asked := time.Now()
	_, err = call(t, s, "add", map[string]any{"a": 1, "b": 2})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(asked), 30*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "env", Arguments: map[string]any{"name": "x"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = call(t, s, "big", map[string]any{"bytes": 1})
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the connection is dropped, so the call does not wait")
}

func TestHTTPServer_Refuse(t *testing.T) {
	h := serve(t, Script{})
	s := connectHTTP(t, h)
	h.Refuse(http.StatusServiceUnavailable)
	_, err := call(t, s, "echo", map[string]any{"text": "x"})
	require.ErrorContains(t, err, "Service Unavailable")
	_, err = call(t, s, "echo", map[string]any{"text": "x"})
	require.NoError(t, err)
}

func TestNewHTTP_panics_on_unsupported_faults(t *testing.T) {
	require.Panics(t, func() { NewHTTP(one(Fault{At: StageAnswer, Do: ActionHalfLine})) })
	require.Panics(t, func() { NewHTTP(one(Fault{At: StageCall, Do: ActionMalformed})) })
	require.Panics(t, func() { NewHTTP(one(Fault{At: StageAfter, Do: ActionExit})) })
}

// Over HTTP+SSE a restart ends the session, and {start} in the lists says which incarnation
// has listed them.
func TestHTTPServer_sse_and_start_mark(t *testing.T) {
	script := Script{Tools: []ToolDef{{Name: "echo", Description: "start {start}"}}, Prompts: []PromptDef{{Name: "p", Description: "{start}"}},
		Resources: []ResourceDef{{URI: "mcptest://r", Name: "r {start}"}}, Templates: []TemplateDef{{URITemplate: "mcptest://t/{x}", Name: "t {start}"}}}
	h := serve(t, script, WithSSE())
	for _, start := range []string{"1", "2"} {
		web := &http.Transport{}
		s := connect(t, client(nil), &mcp.SSEClientTransport{Endpoint: h.URL, HTTPClient: &http.Client{Transport: web}})
		tools, err := s.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "start "+start, tools.Tools[0].Description)
		prompts, err := s.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, start, prompts.Prompts[0].Description)
		resources, err := s.ListResources(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "r "+start, resources.Resources[0].Name)
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "t "+start, templates.ResourceTemplates[0].Name)
		res, err := call(t, s, "echo", map[string]any{"text": "x"})
		require.NoError(t, err)
		require.Equal(t, "x", res.Content[0].(*mcp.TextContent).Text)
		h.Restart()
		_, err = call(t, s, "echo", map[string]any{"text": "x"})
		require.Error(t, err, "a session of the first incarnation was answered")
		web.CloseIdleConnections()
	}
}
