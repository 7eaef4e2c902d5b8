package gateway

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A session of the go-sdk, unchanged, gets everything that two servers offer.
func TestSession(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		ctx := t.Context()
		c := newClient(t, fixture("a", mcptest.Script{Instructions: "Be kind."}), fixture("b", mcptest.Script{NoResources: true, NoPrompts: true}))
		s := connect(t, Transport(c), version, nil)

		info := s.InitializeResult()
		require.Equal(t, "mcpvisor", info.ServerInfo.Name)
		require.Equal(t, "a: Be kind.", info.Instructions)
		require.True(t, info.Capabilities.Tools.ListChanged)

		names := map[string]*mcp.Tool{}
		for tool, err := range s.Tools(ctx, nil) {
			require.NoError(t, err)
			names[tool.Name] = tool
		}
		require.Len(t, names, len(c.Tools()))
		require.Equal(t, "Adds two numbers.", names["mcp__a__add"].Description)
		require.Contains(t, names["mcp__b__add"].InputSchema, "properties")
		for _, name := range []string{"mcp__b__echo", "b/echo"} {
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": "hello"}})
			require.Equal(t, "hello", text(t, r, err))
		}
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__a__fail", Arguments: map[string]any{"text": "no paper"}})
		require.NoError(t, err)
		require.True(t, r.IsError, "a failure of the tool is the tool's own")
		require.Equal(t, "no paper", textOf(r))

		prompts, err := s.ListPrompts(ctx, nil)
		require.NoError(t, err)
		require.Len(t, prompts.Prompts, 2)
		for _, p := range prompts.Prompts {
			args := map[string]string{}
			for _, a := range p.Arguments {
				args[a.Name] = "x"
			}
			got, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
			require.NoError(t, err)
			require.NotEmpty(t, got.Messages)
		}

		resources, err := s.ListResources(ctx, nil)
		require.NoError(t, err)
		require.Len(t, resources.Resources, 2)
		for _, listed := range resources.Resources {
			got, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: listed.URI})
			require.NoError(t, err)
			require.Equal(t, listed.URI, got.Contents[0].URI)
		}
		templates, err := s.ListResourceTemplates(ctx, nil)
		require.NoError(t, err)
		require.Len(t, templates.ResourceTemplates, 1)

		if version == "2025-11-25" { // later versions have no ping
			require.NoError(t, s.Ping(ctx, nil))
		}
		require.NoError(t, s.Close())
		require.NoError(t, c.WaitReady(ctx, "a"), "the servers stay")
	})
}

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

// Many sessions of one client call at once. Those that are closed in the middle leave nothing
// behind and do not disturb the others.
func TestTransport_many_sessions(t *testing.T) {
	const sessions = 40
	c := newClient(t, fixture("a", mcptest.Script{}))
	transport := Transport(c)
	subscribe := `{"uri":"` + c.Resources()[0].URI + `"}`
	var opened []raw
	for range sessions {
		s := openRaw(t, transport)
		opened = append(opened, s)
		require.NoError(t, s.call("resources/subscribe", subscribe).Error)
		s.send(1, "tools/call", `{"name":"a/hang"}`)
	}
	until(t, func() bool { return len(c.CallsInFlight()) == sessions })
	var all sync.WaitGroup
	for n, s := range opened {
		if n%2 == 0 {
			all.Go(func() { _ = s.conn.Close() })
		}
		all.Go(func() {
			for id := range 20 {
				made, _ := jsonrpc.MakeID(float64(id + 10))
				_ = s.conn.Write(t.Context(), &jsonrpc.Request{ID: made, Method: "tools/call", Params: []byte(`{"name":"a/echo","arguments":{"text":"x"}}`)})
			}
		})
		all.Go(func() {
			for range 20 {
				if _, err := s.conn.Read(t.Context()); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	until(t, func() bool { return len(c.CallsInFlight()) == sessions/2 })
	for n, s := range opened {
		if n%2 == 1 {
			require.NoError(t, s.callWith(7, "ping", "").Error, "the session works")
		}
		require.NoError(t, s.conn.Close())
	}
	d := transport.(*gateway)
	until(t, func() bool {
		return len(c.CallsInFlight()) == 0 && !d.subscriptions.AreHeld()
	})
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
