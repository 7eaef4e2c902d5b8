package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// sendServerRequest lets the legacy server "s" send a request to the client, and returns
// the response that the server got.
func sendServerRequest(t *testing.T, c *facade.Client, method, params string) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), "s/ask", map[string]any{"method": method, "params": json.RawMessage(params)})
	require.NoError(t, err)
	return res.Content[0].(*mcp.TextContent).Text
}

// legacyServer returns a client with one server of the legacy era, "s".
func legacyServer(t *testing.T, opts ...facade.Option) *facade.Client {
	t.Helper()
	c := newClient(t, opts...)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{
		Name: "s", Era: mcpvisor.EraLegacy, InMemory: mcptest.InMemory(mcptest.Script{})}))
	return c
}

const (
	wantsText = `{"message":"?","requestedSchema":{"type":"object","properties":{
		"name":{"type":"string"},"level":{"type":"integer","default":3},"loud":{"type":"boolean","default":true}},"required":["name","level"]}}`
	wantsURL    = `{"mode":"url","message":"?","url":"https://example.org/login","elicitationId":"e1"}`
	wantsSample = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`
	wantsTools  = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5,
		"tools":[{"name":"t","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"}}`
)

func TestElicitationHandler_form(t *testing.T) {
	shared := map[string]any{"name": "Ada"} // must not be changed
	c := legacyServer(t, facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		if r.Server != "s" || r.Mode != "form" || r.Message != "?" {
			return nil, errors.New("not what was asked")
		}
		return &mcp.ElicitResult{Action: "accept", Content: shared}, nil
	}))
	require.JSONEq(t, `{"action":"accept","content":{"name":"Ada","level":3,"loud":true}}`, sendServerRequest(t, c, "elicitation/create", wantsText))
	require.Len(t, shared, 1)
	require.Contains(t, sendServerRequest(t, c, "elicitation/create", wantsURL), "does not declare that mode")
	require.Contains(t, sendServerRequest(t, c, "sampling/createMessage", wantsSample), `-32601`)
	require.Contains(t, sendServerRequest(t, c, "roots/list", `{}`), `-32601`)
}

func TestElicitationHandler_invalid_answers(t *testing.T) {
	for name, tc := range map[string]struct {
		handler func(context.Context) (*mcp.ElicitResult, error)
		gets    string // the server
		logs    string // the client, as a warning
	}{
		"panic":          {func(context.Context) (*mcp.ElicitResult, error) { panic("a secret") }, "-32603", "the handler panicked: a secret"},
		"nil":            {func(context.Context) (*mcp.ElicitResult, error) { return nil, nil }, "-32603", "neither a result nor an error"},
		"unknown action": {func(context.Context) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "yes"}, nil }, "-32603", `the action \"yes\"`},
		"an error":       {func(context.Context) (*mcp.ElicitResult, error) { return nil, errors.New("a secret") }, "the client has no answer", "a secret"},
		"a JSON-RPC one": {func(context.Context) (*mcp.ElicitResult, error) {
			return nil, &jsonrpc.Error{Code: -1, Message: "not today"}
		}, "not today", ""},
		"against schema":  {accepting(map[string]any{"name": 7}), "does not match requested schema", ""},
		"field missing":   {accepting(nil), "does not match requested schema", ""},
		"not JSON at all": {accepting(map[string]any{"name": "x", "other": make(chan int)}), "-32603", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log testutil.LockedBuffer
			c := legacyServer(t, facade.WithLogger(zerolog.New(&log).Level(zerolog.WarnLevel)),
				facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
					return tc.handler(ctx)
				}))
			response := sendServerRequest(t, c, "elicitation/create", wantsText)
			require.Contains(t, response, tc.gets)
			require.NotContains(t, response, "secret")
			require.Contains(t, log.String(), tc.logs)
			require.Contains(t, sendServerRequest(t, c, "ping", `{}`), "{}")
		})
	}
}

func accepting(content map[string]any) func(context.Context) (*mcp.ElicitResult, error) {
	return func(context.Context) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

func TestSamplingHandler(t *testing.T) {
	sample := facade.WithSamplingHandler(func(_ context.Context, r facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
		text := r.Server + ": " + r.Messages[0].Content[0].(*mcp.TextContent).Text
		if len(r.Tools) > 0 {
			text += " " + r.Tools[0].Name + " " + r.ToolChoice.Mode
		}
		return &mcp.CreateMessageWithToolsResult{Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	c := legacyServer(t, sample)
	require.JSONEq(t, `{"role":"assistant","model":"m","content":{"type":"text","text":"s: hi"}}`, sendServerRequest(t, c, "sampling/createMessage", wantsSample))
	require.Contains(t, sendServerRequest(t, c, "sampling/createMessage", wantsTools), "no tools in sampling")
	require.Contains(t, sendServerRequest(t, c, "sampling/createMessage", `{"messages":[null],"maxTokens":1}`), "-32602")

	c = legacyServer(t, sample, facade.WithSamplingTools())
	require.Contains(t, sendServerRequest(t, c, "sampling/createMessage", wantsTools), "s: hi t required")
}

func TestURLElicitationHandler(t *testing.T) {
	done := make(chan facade.ElicitationComplete, 1)
	c := legacyServer(t,
		facade.WithURLElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"url": "must not be there"}}, nil
		}),
		facade.WithElicitationCompleteHandler(func(_ context.Context, d facade.ElicitationComplete) { done <- d }))
	require.JSONEq(t, `{"action":"accept"}`, sendServerRequest(t, c, "elicitation/create", wantsURL))
	for _, url := range []string{"file:///etc/passwd", "javascript:alert(1)", "https:///nowhere", "vscode://x"} {
		require.Contains(t, sendServerRequest(t, c, "elicitation/create", `{"mode":"url","message":"?","elicitationId":"e","url":"`+url+`"}`), "-32602", url)
	}
	require.Contains(t, sendServerRequest(t, c, "elicitation/create", wantsText), "does not declare that mode")
}

// A handler that blocks delays nothing else, and ends with its context.
func TestElicitationHandler_that_hangs_blocks_nothing(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	c := legacyServer(t, facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}))
	failed := make(chan error, 1)
	go func() {
		_, err := c.CallTool(context.Background(), "s/ask", map[string]any{"method": "elicitation/create", "params": json.RawMessage(wantsText)})
		failed <- err
	}()
	<-began
	_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "meanwhile"})
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	require.Error(t, <-failed)
	require.Error(t, <-ended)
}
