package facade_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// modelResult is the result of a call as a model reads it.
type modelResult struct {
	IsError bool `json:"isError"`
	Content []struct{ Type, Text string }
	Fault   facade.ModelError `json:"structuredContent"`
}

func readAsModel(t *testing.T, res *mcp.CallToolResult) modelResult {
	t.Helper()
	data, err := json.Marshal(res)
	require.NoError(t, err)
	var got modelResult
	require.NoError(t, json.Unmarshal(data, &got), "%s", data)
	require.True(t, got.IsError, "%s", data)
	require.Len(t, got.Content, 1)
	require.Equal(t, got.Fault.Message, got.Content[0].Text)
	return got
}

func TestCallForModel_result_is_unchanged(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "m", InMemory: mcptest.InMemory(mcptest.Script{})})
	res := c.CallToolForModel(t.Context(), "m/echo", map[string]any{"text": "hi"})
	require.False(t, res.IsError)
	require.Equal(t, "hi", res.Content[0].(*mcp.TextContent).Text)

	// A tool's own failure is passed on as it is.
	res = c.CallToolForModel(t.Context(), "m/fail", map[string]any{"text": "no such path"})
	require.True(t, res.IsError)
	require.Equal(t, "no such path", res.Content[0].(*mcp.TextContent).Text)
	require.Nil(t, res.StructuredContent)
}

// For each way in which a call can fail: the error and the text for the model.
func TestCallForModel_errors(t *testing.T) {
	c := newClient(t)
	with := func(faults ...mcptest.Fault) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{InMemory: mcptest.InMemory(mcptest.Script{Faults: faults})}
	}
	call := func(do mcptest.Action, more ...func(*mcptest.Fault)) mcpvisor.ServerSpec {
		f := mcptest.Fault{At: mcptest.StageCall, Tool: "echo", Do: do}
		for _, m := range more {
			m(&f)
		}
		return with(f)
	}
	refuse := func(code int, text string) func(*mcptest.Fault) {
		return func(f *mcptest.Fault) { f.Code, f.Text = code, text }
	}
	register := func(name string, spec mcpvisor.ServerSpec) {
		spec.Name = name
		require.NoError(t, c.Register(t.Context(), spec), name)
	}
	register("good", with())
	register("hung", call(mcptest.ActionHang))
	register("busy", func() mcpvisor.ServerSpec {
		s := call(mcptest.ActionHang)
		s.Limits.MaxInFlight, s.Limits.MaxQueued = 1, -1
		return s
	}())
	register("dying", with())
	register("down", func() mcpvisor.ServerSpec { s := with(); s.Policy = supervisor.Retry(3, time.Hour); return s }())
	register("evicted", with())
	register("garbled", call(mcptest.ActionMalformed))
	register("numbers", mcpvisor.ServerSpec{InMemory: rawServer(func(method, _ string) string {
		if method != "tools/call" {
			return ""
		}
		return `{"content":[{"type":"text","text":7}]}`
	})})
	register("strict", call(mcptest.ActionError, refuse(-32602, "text must be shorter")))
	register("ill", call(mcptest.ActionError, refuse(-32603, "disk full")))

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refusing.Close()
	register("locked", mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: refusing.URL}, StartSupervised: true})
	require.ErrorIs(t, c.WaitReady(t.Context(), "locked"), mcpvisor.ErrAuthRequired)
	for _, name := range []string{"down", "evicted"} {
		_, err := c.CallTool(t.Context(), name+"/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	}
	require.Eventually(t, func() bool {
		down, _ := c.ServerStatus("down")
		gone, _ := c.ServerStatus("evicted")
		return down.State == supervisor.StateBackoff && gone.State == supervisor.StateEvicted
	}, 10*time.Second, time.Millisecond)

	busy, free := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := c.CallTool(busy, "busy/echo", nil); first <- err }()
	defer func() { free(); <-first }()
	require.Eventually(t, func() bool { s, _ := c.ServerStatus("busy"); return s.Calls.InFlight == 1 }, 10*time.Second, time.Millisecond)

	ended, end := context.WithCancel(t.Context())
	end()
	for tool, tc := range map[string]struct {
		ctx       context.Context
		args      any
		opts      []facade.CallOption
		code      string
		text      string
		retryable bool
	}{
		"goood/echo": {code: "unknown_server", text: "There is no tool goood/echo. Did you mean good/echo?"},
		"web/search": {code: "unknown_server", text: "There is no tool web/search. Use one of the tools that you were given."},
		"good/ecko":  {code: "unknown_tool", text: "There is no tool good/ecko. Did you mean good/echo?"},
		"good/echo": {args: []int{1}, code: "invalid",
			text: "The arguments for good/echo cannot be used: they must be a JSON object"},
		"good/add": {args: map[string]any{"a": make(chan int)}, code: "invalid",
			text: "The arguments for good/add cannot be used: they cannot be written as JSON"},
		"numbers/x":   {code: "protocol", text: "Internal Error: the server of numbers/x gave no usable answer. The tool may have run; check before you repeat it."},
		"strict/echo": {code: "rpc", text: "strict/echo refused the call: text must be shorter"},
		"ill/echo":    {code: "rpc", text: "Internal Error: ill/echo failed: disk full"},
		"hung/echo": {opts: []facade.CallOption{facade.WithTimeout(20 * time.Millisecond)}, code: "timeout",
			text: "Internal Error: hung/echo did not answer in time. Whether it had an effect is not known; check before you repeat it."},
		"hung/add": {ctx: ended, code: "canceled", text: "Internal Error: the call of hung/add was canceled."},
		"dying/crash": {code: "crashed",
			text: "Internal Error: the server of dying/crash crashed during the call. Whether it had an effect is not known; check before you repeat it."},
		"down/echo": {code: "unavailable", retryable: true,
			text: "Internal Error: the server of down/echo is not available at the moment; nothing was done. Try again in 60 min."},
		"evicted/echo": {code: "evicted", text: "Internal Error: the server of evicted/echo has failed too often and was given up."},
		"locked/echo":  {code: "auth_required", text: "Internal Error: the server of locked/echo requires authorization, which the user has to give."},
		"busy/echo": {code: "overloaded", retryable: true,
			text: "Internal Error: too many calls to the server of busy/echo are under way; nothing was done. Try again."},
		"garbled/echo": {code: "protocol", text: "Internal Error: the server of garbled/echo gave no usable answer. The tool may have run; check before you repeat it."},
	} {
		t.Run(tool, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			got := readAsModel(t, c.CallToolForModel(ctx, tool, tc.args, tc.opts...))
			require.Equal(t, tc.code, got.Fault.Code)
			require.Equal(t, tc.retryable, got.Fault.Retryable)
			require.Equal(t, tc.text, got.Fault.Message)
		})
	}
}

// Over HTTP errors name addresses, causes of the network and what the server wrote. A model
// learns what happened, and the error has the rest.
func TestCallForModel_over_HTTP_says_what_happened_and_not_where(t *testing.T) {
	const (
		ran     = " Whether it had an effect is not known; check before you repeat it."
		trace   = "TypeError: x is not a function\n    at handle (/srv/app/index.js:10:5)"
		private = "/srv/app"
	)
	for name, tc := range map[string]struct {
		call http.HandlerFunc
		text string // after "Internal Error: "
		want error
	}{
		"broken connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"the server of s/x gave no valid answer; perhaps the connection broke." + ran, mcpvisor.ErrProtocol},
		"status 500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, trace, http.StatusInternalServerError) },
			"the server of s/x gave no usable answer. The tool may have run; check before you repeat it.", mcpvisor.ErrProtocol},
		"status 503": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, trace, http.StatusServiceUnavailable) },
			"the server of s/x gave no valid answer; perhaps the connection broke." + ran, mcpvisor.ErrProtocol},
		"status 400": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, trace, http.StatusBadRequest) },
			"the server of s/x gave no usable answer.", nil},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>"+trace)
		}, "the server of s/x gave no usable answer.", mcpvisor.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			server := rawCalls(t, "", tc.call)
			c := registered(t, mcpvisor.ServerSpec{Name: "s", HTTP: server, Era: mcpvisor.EraLegacy})
			_, err := c.CallTool(t.Context(), "s/x", nil)
			require.Error(t, err)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
			text := readAsModel(t, c.ErrorForModel("s/x", err)).Fault.Message
			require.True(t, strings.HasPrefix(text, "Internal Error: "+tc.text), "%s\nof %v", text, err)
			for _, never := range []string{"127.0.0.1", "http", "EOF", private, "TypeError", strings.TrimPrefix(server.URL, "http://")} {
				require.NotContains(t, text, never)
			}
		})
	}

	t.Run("not reachable", func(t *testing.T) {
		c := registered(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1"}, StartSupervised: true, Policy: supervisor.Retry(3, time.Hour)})
		text := readAsModel(t, c.CallToolForModel(t.Context(), "s/x", nil)).Fault.Message
		require.Contains(t, text, "the server of s/x is not available at the moment; nothing was done.")
		require.NotContains(t, text, "127.0.0.1")
	})
}

func TestCallForModel_during_Close(t *testing.T) {
	c := newClient(t)
	received := make(chan struct{})
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "m", InMemory: rawServer(func(method, _ string) string {
		if method != "tools/call" {
			return ""
		}
		close(received)
		return silence
	})}))
	result := make(chan *mcp.CallToolResult, 1)
	go func() { result <- c.CallToolForModel(context.Background(), "m/x", nil) }()
	<-received
	require.NoError(t, c.Close(t.Context()))
	got := readAsModel(t, <-result)
	require.Equal(t, facade.ModelError{Code: "closed", Message: "Internal Error: the server of m/x was shut down. " +
		"Whether it had an effect is not known; check before you repeat it."}, got.Fault)
}
