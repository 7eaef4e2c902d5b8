package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// asked has a server of the legacy era ask the client, and returns what it heard.
func asked(t *testing.T, c *facade.Client, method, params string) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), "s/ask", map[string]any{"method": method, "params": json.RawMessage(params)})
	require.NoError(t, err)
	return res.Content[0].(*mcp.TextContent).Text
}

// legacyServer is a client with one server, "s", that asks in the legacy way.
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
	shared := map[string]any{"name": "Ada"} // must not be written to
	c := legacyServer(t, facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		if r.Server != "s" || r.Mode != "form" || r.Message != "?" {
			return nil, errors.New("not what was asked")
		}
		return &mcp.ElicitResult{Action: "accept", Content: shared}, nil
	}))
	require.JSONEq(t, `{"action":"accept","content":{"name":"Ada","level":3,"loud":true}}`, asked(t, c, "elicitation/create", wantsText))
	require.Len(t, shared, 1)
	require.Contains(t, asked(t, c, "elicitation/create", wantsURL), "does not declare that mode")
	require.Contains(t, asked(t, c, "sampling/createMessage", wantsSample), `-32601`)
	require.Contains(t, asked(t, c, "roots/list", `{}`), `-32601`)
}

func TestElicitationHandler_invalid_answers(t *testing.T) {
	for name, tc := range map[string]struct {
		handler func(context.Context) (*mcp.ElicitResult, error)
		hears   string
		logs    string // what the host is warned of
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
			var log lockedBuffer
			c := legacyServer(t, facade.WithLogger(zerolog.New(&log).Level(zerolog.WarnLevel)),
				facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
					return tc.handler(ctx)
				}))
			heard := asked(t, c, "elicitation/create", wantsText)
			require.Contains(t, heard, tc.hears)
			require.NotContains(t, heard, "secret")
			require.Contains(t, log.String(), tc.logs)
			require.Contains(t, asked(t, c, "ping", `{}`), "{}")
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
	require.JSONEq(t, `{"role":"assistant","model":"m","content":{"type":"text","text":"s: hi"}}`, asked(t, c, "sampling/createMessage", wantsSample))
	require.Contains(t, asked(t, c, "sampling/createMessage", wantsTools), "no tools in sampling")
	require.Contains(t, asked(t, c, "sampling/createMessage", `{"messages":[null],"maxTokens":1}`), "-32602")

	c = legacyServer(t, sample, facade.WithSamplingTools())
	require.Contains(t, asked(t, c, "sampling/createMessage", wantsTools), "s: hi t required")
}

func TestURLElicitationHandler(t *testing.T) {
	done := make(chan facade.ElicitationComplete, 1)
	c := legacyServer(t,
		facade.WithURLElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"url": "must not be there"}}, nil
		}),
		facade.WithElicitationCompleteHandler(func(_ context.Context, d facade.ElicitationComplete) { done <- d }))
	require.JSONEq(t, `{"action":"accept"}`, asked(t, c, "elicitation/create", wantsURL))
	for _, url := range []string{"file:///etc/passwd", "javascript:alert(1)", "https:///nowhere", "vscode://x"} {
		require.Contains(t, asked(t, c, "elicitation/create", `{"mode":"url","message":"?","elicitationId":"e","url":"`+url+`"}`), "-32602", url)
	}
	require.Contains(t, asked(t, c, "elicitation/create", wantsText), "does not declare that mode")
}

// Neither a handler that waits nor one that ignores its context holds up
// anything else.
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

func TestSetRoots(t *testing.T) {
	c := legacyServer(t, facade.WithRoots(mcp.Root{URI: "file:///a", Name: "A"}))
	require.JSONEq(t, `{"roots":[{"uri":"file:///a","name":"A"}]}`, asked(t, c, "roots/list", `{}`))
	require.NoError(t, c.SetRoots())
	require.JSONEq(t, `{"roots":[]}`, asked(t, c, "roots/list", `{}`))
	require.ErrorIs(t, c.SetRoots(mcp.Root{URI: "https://example.org"}), mcpvisor.ErrInvalid)
	require.JSONEq(t, `{"roots":[]}`, asked(t, c, "roots/list", `{}`))

	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "/home"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorIs(t, newClient(t).SetRoots(), mcpvisor.ErrInvalid)
}

// A legacy server over HTTP hears of it too, once for each change.
func TestSetRoots_notifies_legacy_servers(t *testing.T) {
	told := make(chan string, 10)
	srv := rawHTTP(t, func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), "roots/list_changed") {
			told <- string(body)
		}
	}, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, facade.WithRoots())
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: srv.URL}}))
	require.NoError(t, c.SetRoots(mcp.Root{URI: "file:///a"}))
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, <-told)
}
