package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/raw"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The error of a handler is the cause of the call's error.
func TestServerRequests_handler_error_reaches_caller(t *testing.T) {
	own := errors.New("the dialog was closed")
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) { return nil, own }))
	_, err := c.CallTool(t.Context(), "s/consult", map[string]any{"method": "elicitation/create", "params": json.RawMessage(wantsText)})
	require.ErrorIs(t, err, own)
	require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
}

// The error of a call of another server is not sent to the server that asked.
func TestServerRequests_do_not_leak_other_servers_errors(t *testing.T) {
	var c *facade.Client
	c = legacyServer(t, facade.WithElicitationHandler(func(ctx context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		_, err := c.CallToolRaw(ctx, "other/x", nil)
		return nil, err
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "other", Era: mcpvisor.EraLegacy, HTTP: rawCalls(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"row of patient 17 is locked","data":{"dsn":"pg://u:p@h"}}}`)
	})}))
	_, err := c.CallToolRaw(t.Context(), "other/x", nil)
	var rpc *jsonrpc.Error
	require.True(t, errors.As(err, &rpc), "%v", err)
	response := sendServerRequest(t, c, "elicitation/create", wantsText)
	require.NotContains(t, response, "patient 17")
}

// 100 calls whose servers send a request each: more than handlers may run at once.
func TestServerRequests_from_many_calls(t *testing.T) {
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			full := make(chan struct{})
			var inside atomic.Int64
			c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				if inside.Add(1) == 64 { // the bound; the other requests wait
					time.AfterFunc(200*time.Millisecond, func() { close(full) })
				}
				<-full
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "x"}}, nil
			}))
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: era, InMemory: mcptest.InMemory(mcptest.Script{})}))
			var wg sync.WaitGroup
			var failed atomic.Int64
			var last atomic.Value
			for range 100 {
				wg.Go(func() {
					r, err := c.CallToolRaw(context.Background(), "s/consult", json.RawMessage(`{"method":"elicitation/create","params":`+wantsText+`}`))
					if err != nil {
						failed.Add(1)
						last.Store(err.Error())
					} else if strings.Contains(string(r), "too many") {
						failed.Add(1)
						last.Store(string(r))
					}
				})
			}
			wg.Wait()
			require.Zero(t, failed.Load(), "%v", last.Load())
		})
	}
}

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
	c := registered(t, mcpvisor.ServerSpec{
		Name: "s", Era: mcpvisor.EraLegacy, InMemory: mcptest.InMemory(mcptest.Script{})}, opts...)
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
	c := legacyServer(t,
		facade.WithURLElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"url": "must not be there"}}, nil
		}))
	require.JSONEq(t, `{"action":"accept"}`, sendServerRequest(t, c, "elicitation/create", wantsURL))
	for _, url := range []string{"file:///etc/passwd", "javascript:alert(1)", "https:///nowhere", "vscode://x"} {
		require.Contains(t, sendServerRequest(t, c, "elicitation/create", `{"mode":"url","message":"?","elicitationId":"e","url":"`+url+`"}`), "-32602", url)
	}
	require.Contains(t, sendServerRequest(t, c, "elicitation/create", wantsText), "does not declare that mode")
}

func TestSetRoots(t *testing.T) {
	c := legacyServer(t, facade.WithRoots(mcp.Root{URI: "file:///a", Name: "A"}))
	require.JSONEq(t, `{"roots":[{"uri":"file:///a","name":"A"}]}`, sendServerRequest(t, c, "roots/list", `{}`))
	require.NoError(t, c.SetRoots())
	require.JSONEq(t, `{"roots":[]}`, sendServerRequest(t, c, "roots/list", `{}`))
	require.ErrorIs(t, c.SetRoots(mcp.Root{URI: "https://example.org"}), mcpvisor.ErrInvalid)
	require.JSONEq(t, `{"roots":[]}`, sendServerRequest(t, c, "roots/list", `{}`))

	_, err := facade.New(facade.WithRoots(mcp.Root{URI: "/home"}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorIs(t, newClient(t).SetRoots(), mcpvisor.ErrInvalid)
}

// A legacy server over HTTP is notified once for each change.
func TestSetRoots_notifies_legacy_servers(t *testing.T) {
	notified := make(chan string, 10)
	server := overHTTP(t, &raw.Server{Answer: func(m *raw.Message) string {
		if strings.Contains(string(m.Text), "roots/list_changed") {
			notified <- string(m.Text)
		}
		return ""
	}})
	c := registered(t, mcpvisor.ServerSpec{Name: "s", HTTP: server}, facade.WithRoots())
	require.NoError(t, c.SetRoots(mcp.Root{URI: "file:///a"}))
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, <-notified)
}
