package mcptest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// client is a session of the go-sdk's own client, as an independent check of the
// server.
func client(opts *mcp.ClientOptions) *mcp.Client {
	if opts == nil {
		opts = &mcp.ClientOptions{}
	}
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ClientCapabilities{}
	}
	return mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, opts)
}

// connect opens a session. The test closes it at the end.
func connect(t *testing.T, c *mcp.Client, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	session, err := c.Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// memoryTransport runs one incarnation of the script for a client.
func memoryTransport(t *testing.T, s Script) mcp.Transport {
	serverIn, stdin := io.Pipe()
	stdout, serverOut := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- InMemory(s).Serve(ctx, serverIn, serverOut, nil) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &mcp.IOTransport{Reader: stdout, Writer: stdin}
}

func processTransport(_ *testing.T, s Script) mcp.Transport {
	return &mcp.CommandTransport{Command: command(Stdio(s)), TerminateDuration: 10 * time.Second}
}

// everyVersion runs a test over both transports with each protocol version.
func everyVersion(t *testing.T, test func(t *testing.T, version string, dial func(Script) mcp.Transport)) {
	for name, dial := range map[string]func(*testing.T, Script) mcp.Transport{"memory": memoryTransport, "process": processTransport} {
		for _, version := range allVersions() {
			t.Run(name+"/"+version, func(t *testing.T) {
				test(t, version, func(s Script) mcp.Transport {
					s.Versions = []string{version}
					return dial(t, s)
				})
			})
		}
	}
}

func TestInMemory_with_SDK_client(t *testing.T) {
	everyVersion(t, func(t *testing.T, version string, dial func(Script) mcp.Transport) {
		s := connect(t, client(nil), dial(Script{Name: "plain", Version: "7", Instructions: "read me", PageSize: 3}))
		ctx := t.Context()
		hello := s.InitializeResult()
		require.Equal(t, version, hello.ProtocolVersion)
		require.Equal(t, "read me", hello.Instructions)
		require.Equal(t, "plain", hello.ServerInfo.Name)
		require.Equal(t, "7", hello.ServerInfo.Version)
		checkContent(t, s)

		sum, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": 2, "b": 3}})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"sum": 5.0}, sum.StructuredContent)
		failed, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "fail", Arguments: map[string]any{"text": "no"}})
		require.NoError(t, err)
		require.True(t, failed.IsError)
		_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "nonesuch"})
		require.ErrorContains(t, err, "nonesuch")
		if !isModern(version) {
			require.NoError(t, s.Ping(ctx, nil))
		}
		require.NoError(t, s.Close(), "the server exits when stdin ends")
	})
}

// checkContent requires that a server offers the default content.
func checkContent(t *testing.T, s *mcp.ClientSession) {
	t.Helper()
	ctx := t.Context()
	var tools, resources, templates, prompts []string
	for tool, err := range s.Tools(ctx, nil) {
		require.NoError(t, err)
		tools = append(tools, tool.Name)
	}
	for r, err := range s.Resources(ctx, nil) {
		require.NoError(t, err)
		resources = append(resources, r.URI)
	}
	for r, err := range s.ResourceTemplates(ctx, nil) {
		require.NoError(t, err)
		templates = append(templates, r.URITemplate)
	}
	for p, err := range s.Prompts(ctx, nil) {
		require.NoError(t, err)
		prompts = append(prompts, p.Name)
	}
	require.Subset(t, tools, []string{"echo", "add", "sleep", "count", "crash", "slow_progress"})
	require.ElementsMatch(t, []string{"mcptest://text", "mcptest://blob"}, resources)
	require.Equal(t, []string{"mcptest://echo/{text}"}, templates)
	require.ElementsMatch(t, []string{"hello", "greet"}, prompts)

	echoed, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
	require.NoError(t, err)
	require.Equal(t, "hi", textOf(t, echoed))
	blob, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcptest://blob"})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 2, 254, 255}, blob.Contents[0].Blob)
	echo, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcptest://echo/abc"})
	require.NoError(t, err)
	require.Equal(t, "abc", echo.Contents[0].Text)
	_, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcptest://nothing"})
	require.Error(t, err)
	greeting, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	require.NoError(t, err)
	require.Equal(t, "Greet Ada.", greeting.Messages[0].Content.(*mcp.TextContent).Text)
	_, err = s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet"})
	require.ErrorContains(t, err, "name")
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	require.Len(t, r.Content, 1)
	return r.Content[0].(*mcp.TextContent).Text
}

func TestListChanged_with_SDK_client(t *testing.T) {
	everyVersion(t, func(t *testing.T, _ string, dial func(Script) mcp.Transport) {
		changes := make(chan struct{}, 10)
		s := connect(t, client(&mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes <- struct{}{} },
		}), dial(Script{}))
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "add_tool", Arguments: map[string]any{"name": "fresh"}})
		require.NoError(t, err)
		<-changes
		fresh, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "fresh", Arguments: map[string]any{"x": 1}})
		require.NoError(t, err)
		require.JSONEq(t, `{"x":1}`, textOf(t, fresh))
	})
}

func TestProgress_and_cancellation_with_SDK_client(t *testing.T) {
	steps := make(chan float64, 10)
	s := connect(t, client(&mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Progress },
	}), memoryTransport(t, Script{}))
	params := &mcp.CallToolParams{Name: "slow_progress", Arguments: map[string]any{"steps": 2}}
	params.SetProgressToken("token")
	_, err := s.CallTool(t.Context(), params)
	require.NoError(t, err)
	require.InDelta(t, 1, <-steps, 0)
	require.InDelta(t, 2, <-steps, 0)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Ping(t.Context(), nil))
}
