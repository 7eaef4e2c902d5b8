package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// A session introduces itself, and a page has as many entries as is set. A nil option changes nothing.
func TestTransport_options(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{Instructions: "Be kind.", ExtraTools: 20}))
	s := connect(t, Transport(c, nil, withPageSize(3)), "2025-11-25", nil)
	require.Equal(t, &mcp.Implementation{Name: "mcpvisor", Version: facade.Version()}, s.InitializeResult().ServerInfo)
	require.Equal(t, "a: Be kind.", s.InitializeResult().Instructions)
	first, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, first.Tools, 3)
	require.PanicsWithValue(t, "gateway.Transport: the client is nil", func() { Transport(nil) })
}

// The result of a tool is passed on byte for byte.
func TestCallTool_result_is_verbatim(t *testing.T) {
	const result = `{"content" : [ {"type":"text","text":"\u003cé>"} ],"x":1e400, "resultType":"complete"}`
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(result)})
	answer := openRaw(t, Transport(c)).call("tools/call", `{"name":"s/x"}`)
	require.NoError(t, answer.Error)
	require.Equal(t, result, string(answer.Result))
}

// Close ends the requests in flight, Read and Write, and may be called twice.
func TestConnection_Close(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	s.send(1, "tools/call", `{"name":"a/hang"}`)
	until(t, func() bool { return len(c.CallsInFlight()) == 1 })
	require.NoError(t, s.conn.Close())
	require.NoError(t, s.conn.Close())
	_, err := s.conn.Read(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, s.conn.Write(t.Context(), nil), mcp.ErrConnectionClosed)
	until(t, func() bool { return len(c.CallsInFlight()) == 0 })
}

// When the client is closed, requests in flight are answered, and then the session ends.
func TestConnection_ends_with_the_client(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("a", mcptest.Script{}))
		s := connect(t, Transport(c), version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
		ended := make(chan string, 1)
		go func() {
			r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "a/hang"})
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- textOf(r)
		}()
		until(t, func() bool { return len(c.CallsInFlight()) == 1 })
		require.NoError(t, c.Close(t.Context()))
		require.Contains(t, receive(t, ended), "was shut down. Whether it had an effect is not known")
		require.NoError(t, s.Wait())
		_, err := Transport(c).Connect(t.Context())
		require.NoError(t, err)
	})
}

var allVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// cell is a client of one version and a server of another, with the gateway between.
type cell struct {
	*mcp.ClientSession
	client                        *facade.Client
	modern                        bool
	progress, tools, updates, log chan string
}

// cellFeatures check one feature each; the error is why it was refused.
var cellFeatures = []struct {
	name string
	try  func(ctx context.Context, c *cell) error
}{
	{"call", func(ctx context.Context, c *cell) error {
		return c.expect(ctx, &mcp.CallToolParams{Name: "a__echo", Arguments: map[string]any{"text": "x"}}, "x")
	}},
	{"progress", func(ctx context.Context, c *cell) error {
		params := &mcp.CallToolParams{Name: "a__slow_progress", Arguments: map[string]any{"steps": 2}}
		params.SetProgressToken("t")
		if err := c.expect(ctx, params, "steps"); err != nil {
			return err
		}
		return comes(c.progress, "t")
	}},
	{"elicit", func(ctx context.Context, c *cell) error { return c.consult(ctx, "elicitation/create", wantsText) }},
	{"sample", func(ctx context.Context, c *cell) error { return c.consult(ctx, "sampling/createMessage", wantsSample) }},
	{"roots", func(ctx context.Context, c *cell) error { return c.consult(ctx, "roots/list", `{}`) }},
	{"listen", func(ctx context.Context, c *cell) error {
		uri := c.client.Resources()[0].URI
		if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			return err
		}
		if _, err := c.client.CallTool(ctx, "a/touch", map[string]any{"uri": uri}); err != nil {
			return err
		}
		if err := comes(c.updates, uri); err != nil {
			return err
		}
		if _, err := c.client.CallTool(ctx, "a/add_tool", map[string]any{"name": "fresh"}); err != nil {
			return err
		}
		return comes(c.tools, "changed")
	}},
	{"complete", func(ctx context.Context, c *cell) error {
		r, err := c.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "completes__x"}, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "A"}})
		if err == nil && len(r.Completion.Values) == 0 {
			return fmt.Errorf("there are no values")
		}
		return err
	}},
	{"log", func(ctx context.Context, c *cell) error {
		params := &mcp.CallToolParams{Name: "a__log", Arguments: map[string]any{"level": "error", "text": "logged"}}
		if c.modern {
			params.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "info"}
		} else if err := c.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			return err
		}
		if err := c.expect(ctx, params, ""); err != nil {
			return err
		}
		return comes(c.log, "logged")
	}},
	{"cancel", func(ctx context.Context, c *cell) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "a__hang"})
			ended <- err
		}()
		for len(c.client.CallsInFlight()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-ended; err == nil {
			return fmt.Errorf("it has a result")
		}
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			calls, _ := c.client.History().Calls(0)
			if len(c.client.CallsInFlight()) == 0 && slices.ContainsFunc(calls, func(r monitor.CallRecord) bool { return r.Kind == mcpvisor.ErrCanceled }) {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("it is in flight at the server")
			}
		}
	}},
}

// comes waits for a notification.
func comes(values <-chan string, want string) error {
	select {
	case got := <-values:
		if got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("it never came")
	}
}

// expect makes a call whose result has the text.
func (c *cell) expect(ctx context.Context, params *mcp.CallToolParams, want string) error {
	r, err := c.CallTool(ctx, params)
	switch {
	case err != nil:
		return err
	case r.IsError || !strings.Contains(textOf(r), want):
		return fmt.Errorf("%s", textOf(r))
	}
	return nil
}

// consult lets the server ask the client.
func (c *cell) consult(ctx context.Context, method, params string) error {
	return c.expect(ctx, &mcp.CallToolParams{Name: "a__consult", Arguments: map[string]any{"method": method, "params": json.RawMessage(params)}}, "of the client")
}

// completingServer has a completion, and speaks one version.
func completingServer(version string) *mcpvisor.InMemory {
	server := mcp.NewServer(&mcp.Implementation{Name: "completes", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "nn"}}}, nil
		},
	})
	server.AddPrompt(&mcp.Prompt{Name: "x"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch p := r.GetParams().(type) {
			case *mcp.InitializeParams:
				p.ProtocolVersion = version
			default:
				if method == "server/discover" && version != "2026-07-28" {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no"}
				}
			}
			return next(ctx, method, r)
		}
	})
	return facade.ServeInMemory(server)
}

func newCell(t *testing.T, downstream, upstream string) *cell {
	t.Helper()
	spec := fixture("a", mcptest.Script{Versions: []string{upstream}})
	client := newAskingClient(t, nil, spec, mcpvisor.ServerSpec{Name: "completes", InMemory: completingServer(upstream)})
	for _, server := range []string{"a", "completes"} {
		status, _ := client.ServerStatus(server)
		require.Equal(t, upstream, status.Session.ProtocolVersion)
	}
	_, url := serveHTTP(t, client)
	c := &cell{client: client, modern: downstream == "2026-07-28", progress: make(chan string, 100), tools: make(chan string, 100), updates: make(chan string, 100), log: make(chan string, 100)}
	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{}, Elicitation: &mcp.ElicitationCapabilities{}},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "of the client"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "of the client", Role: "assistant", Content: &mcp.TextContent{Text: "hi"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.progress <- fmt.Sprint(r.Params.ProgressToken)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.tools <- "changed" },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updates <- r.Params.URI },
		LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { c.log <- fmt.Sprint(r.Params.Data) },
	})
	host.AddRoots(&mcp.Root{URI: "file:///of the client"})
	session, err := host.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: newHTTPClient(t)}, &mcp.ClientSessionOptions{ProtocolVersion: downstream})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	require.Equal(t, downstream, session.InitializeResult().ProtocolVersion)
	c.ClientSession = session
	return c
}

// Each feature works for a client of each version with a server of each version. The table of docs/gateway.md is
// what this test has found; run it with MCPVISOR_UPDATE_DOCS=1 to write that.
func TestVersions(t *testing.T) {
	const page, begin, end = "../docs/gateway.md", "| client of |", "\n\n"
	var table strings.Builder
	for _, f := range cellFeatures {
		table.WriteString(" " + f.name + " |")
	}
	table.WriteString("\n|---" + strings.Repeat("|---", len(cellFeatures)) + "|")
	for _, downstream := range allVersions {
		works := make([][]string, len(cellFeatures))
		for _, upstream := range allVersions {
			t.Run(downstream+" to "+upstream, func(t *testing.T) {
				c := newCell(t, downstream, upstream)
				for i, f := range cellFeatures {
					if err := f.try(t.Context(), c); err != nil {
						t.Errorf("%s: %v", f.name, err)
						continue
					}
					works[i] = append(works[i], upstream)
				}
			})
		}
		table.WriteString("\n| " + downstream + " |")
		for _, servers := range works {
			if len(servers) == len(allVersions) {
				servers = []string{"all"}
			}
			table.WriteString(" " + strings.Join(servers, ", ") + " |")
		}
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	known, tail, _ := strings.Cut(rest, end)
	if os.Getenv("MCPVISOR_UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+table.String()+end+tail), 0o600))
		return
	}
	require.Equal(t, table.String(), known, "the table of "+page+" is another one")
}

// The log messages of a call reach the client whose call it is, if it has asked for their level, and no
// other.
func TestLogMessages_of_a_call(t *testing.T) {
	onEveryAskingServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t, spec)
		log := func(s raw, id float64, text, meta string) {
			s.send(id, "tools/call", `{"name":"a/log","arguments":{"level":"warning","text":"`+text+`"}`+meta+`}`)
		}
		ann, bob := openRaw(t, Transport(c)), openRaw(t, Transport(c))
		for _, s := range []raw{ann, bob} {
			require.NoError(t, s.call("logging/setLevel", `{"level":"info"}`).Error)
		}
		log(ann, 2, "of ann", "")
		m, ok := ann.read().(*jsonrpc.Request)
		require.True(t, ok, "the message comes before the answer")
		require.Equal(t, "notifications/message", m.Method)
		require.Contains(t, string(m.Params), "of ann")
		require.NoError(t, ann.read().(*jsonrpc.Response).Error)
		require.NoError(t, bob.call("logging/setLevel", `{"level":"error"}`).Error)
		require.NoError(t, ann.call("logging/setLevel", `{"level":"info"}`).Error)
		log(bob, 3, "below", "")
		require.Equal(t, int64(3), bob.read().(*jsonrpc.Response).ID.Raw())
		require.NoError(t, ann.call("ping", "").Error, "it gets nothing of another's call")

		if spec.Era != mcpvisor.EraModern {
			return
		}
		modern := func(level string) string {
			return `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"` + level + `"}`
		}
		s := openRaw(t, Transport(c))
		log(s, 4, "of today", modern("info"))
		require.Contains(t, string(s.read().(*jsonrpc.Request).Params), "of today")
		require.NoError(t, s.read().(*jsonrpc.Response).Error)
		log(s, 5, "below", modern("error"))
		require.Equal(t, int64(5), s.read().(*jsonrpc.Response).ID.Raw())
		log(s, 6, "wrong", modern("loud"))
		require.ErrorContains(t, s.read().(*jsonrpc.Response).Error, "unknown log level")
	})
}

// Log messages that a client does not read are bounded, and the newest stay.
func TestOutbox_log_messages(t *testing.T) {
	out := newOutbox(defaultLimits(), nil, unbounded)
	r := &request{Request: &jsonrpc.Request{Method: "tools/call"}}
	for i := range 3 * notices.MaxLogs {
		out.addLog(r, mcpvisor.LogMessage{Level: "info", Text: fmt.Sprint(i)})
	}
	require.Len(t, out.queue, notices.MaxLogs)
	for range notices.MaxLogs {
		out.addLog(r, mcpvisor.LogMessage{Level: "info", Text: strings.Repeat("x", notices.MaxLogBytes/2)})
	}
	require.LessOrEqual(t, out.logBytes, notices.MaxLogBytes+answerCost*notices.MaxLogs)
	require.Len(t, out.queue, 2)
	for range 2 {
		m, ended := out.next()
		require.NotNil(t, m)
		require.Nil(t, ended)
	}
	require.Zero(t, out.logs)
	require.Zero(t, out.logBytes)
}
