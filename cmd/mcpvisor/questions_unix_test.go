//go:build unix

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// questionsOf are what a server may ask, with what the answer of answering has.
var questionsOf = []struct{ method, params, want string }{
	{"elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`, `"name":"the host"`},
	{"elicitation/create", `{"mode":"url","message":"?","url":"https://example.org/login","elicitationId":"e1"}`, `"action":"accept"`},
	{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`, `"model":"the host"`},
	{"roots/list", `{}`, `"uri":"file:///of/the/host"`},
}

// answering are the options of a host that answers everything.
func answering() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			result := &mcp.ElicitResult{Action: "accept"}
			if r.Params.Mode != "url" {
				result.Content = map[string]any{"name": "the host"}
			}
			return result, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "the host", Role: "assistant", Content: &mcp.TextContent{Text: "hi"}}, nil
		},
	}
}

// open opens a session with the version, and a root.
func open(t *testing.T, transport mcp.Transport, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, opts)
	client.AddRoots(&mcp.Root{URI: "file:///of/the/host", Name: "r"})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// consult lets the server ask, and returns what it was answered.
func consult(t *testing.T, session *mcp.ClientSession, tool, method, params string) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"method": method, "params": json.RawMessage(params)}})
	require.NoError(t, err)
	return result.Content[0].(*mcp.TextContent).Text
}

// asksEverything is a server before 2026-07-28.
var asksEverything = mcptest.Script{Versions: []string{"2025-11-25"}}

// A server before 2026-07-28 may ask the host whose call it is, through each command, whatever version the host
// speaks. What the host does not answer is refused, with the reason.
func TestQuestions_through_commands(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		check := func(t *testing.T, tool string, start func() mcp.Transport) {
			t.Helper()
			session := open(t, start(), version, answering())
			for _, q := range questionsOf {
				require.Contains(t, consult(t, session, tool, q.method, q.params), q.want)
			}
			require.NoError(t, session.Close())
			silent := open(t, start(), version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			for _, q := range questionsOf {
				require.Contains(t, consult(t, silent, tool, q.method, q.params), "no client was asked", q.method)
			}
			require.NoError(t, silent.Close())
		}
		t.Run("stdio "+version, func(t *testing.T) {
			h := newHousehold(t, map[string]any{"fixture": entry(asksEverything)})
			check(t, "fixture__consult", func() mcp.Transport { return &mcp.CommandTransport{Command: h.stdio()} })
		})
		t.Run("wrap "+version, func(t *testing.T) {
			check(t, "consult", func() mcp.Transport { return &mcp.CommandTransport{Command: wrapCommand(t, asksEverything)} })
		})
		t.Run("run "+version, func(t *testing.T) {
			t.Setenv("STATE_DIRECTORY", t.TempDir())
			b := startRun(t, map[string]any{"fixture": entry(asksEverything)}, "run", "--mcp", "127.0.0.1:0")
			url := mcpURL(b)
			b.await(" ready  ")
			check(t, "fixture__consult", func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1} })
		})
	}
}

// mcpvisor run is killed while a host of 2026-07-28 answers: the host is told that the call may have been executed,
// and the new run does not send it.
func TestQuestions_run_is_killed(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	script := asksEverything
	script.StateDir = state
	h := newHousehold(t, map[string]any{"fixture": entry(script)})
	opts := answering()
	var kills int
	opts.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		kills++
		pid := h.run()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return nil, err
		}
		awaitEnd(t, pid)
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := open(t, &mcp.CommandTransport{Command: h.stdio()}, "2026-07-28", opts)
	text := consult(t, session, "fixture__consult", questionsOf[0].method, questionsOf[0].params)
	require.Contains(t, text, "was interrupted. Whether it had an effect is not known")
	require.Equal(t, 1, kills, "the call was made once")
	require.NotContains(t, text, "decline")
}

// A server that asks while no call is in flight, as for the roots at the begin of its session, reaches the one host of
// mcpvisor wrap. When the roots of the host change, the server is told, and asks again.
func TestQuestions_of_a_wrapped_server_without_a_call(t *testing.T) {
	answered := make(chan []*mcp.Root, 1)
	failed := make(chan error, 1)
	ask := func(ctx context.Context, session *mcp.ServerSession) {
		go func() { // the session does not wait for it
			result, err := session.ListRoots(context.WithoutCancel(ctx), nil)
			if err != nil {
				failed <- err
				return
			}
			answered <- result.Roots
		}()
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler:      func(ctx context.Context, r *mcp.InitializedRequest) { ask(ctx, r.Session) },
		RootsListChangedHandler: func(ctx context.Context, r *mcp.RootsListChangedRequest) { ask(ctx, r.Session) },
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	host.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	cmd := exec.Command(buildProgram(t), "wrap", web.URL)
	session, err := host.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	requireRoots := func(n int) {
		t.Helper()
		select {
		case roots := <-answered:
			require.Len(t, roots, n)
			require.Equal(t, "file:///work", roots[0].URI)
		case err := <-failed:
			require.NoError(t, err)
		case <-time.After(endTimeout * slowdown):
			require.FailNow(t, "no client was asked")
		}
	}
	requireRoots(1)
	host.AddRoots(&mcp.Root{URI: "file:///work2", Name: "work2"})
	requireRoots(2)
}
