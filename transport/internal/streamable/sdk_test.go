package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// sdkServer starts a server of the go-sdk with the tools echo and marked.
func sdkServer(t *testing.T, o *mcp.StreamableHTTPOptions) *httptest.Server {
	t.Helper()
	checkLeaks(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "2"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Text}}}, nil, nil
	})
	server.AddTool(&mcp.Tool{Name: "marked", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Depth"}}}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			h := r.Extra.Header
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
				Text: h.Get("Mcp-Param-Region") + "/" + h.Get("Mcp-Param-Depth")}}}, nil
		})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, o)
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for ss := range server.Sessions() {
			_ = ss.Close()
		}
	})
	return web
}

func TestAgainstSDK(t *testing.T) {
	kinds := map[string]*mcp.StreamableHTTPOptions{
		"stateful, events":  {},
		"stateful, JSON":    {JSONResponse: true},
		"stateless, events": {Stateless: true},
		"stateless, JSON":   {Stateless: true, JSONResponse: true},
	}
	for name, options := range kinds {
		for _, era := range []mcpvisor.Era{mcpvisor.EraAuto, mcpvisor.EraLegacy} {
			t.Run(name+", era "+string(era), func(t *testing.T) {
				web := sdkServer(t, options)
				spec := specFor(web.URL)
				spec.Era = era
				s := openSession(t, spec)

				info := s.Info()
				modern := options.Stateless && era == mcpvisor.EraAuto
				require.Equal(t, modern, jsonrpc.IsModern(info.ProtocolVersion), info.ProtocolVersion)
				require.Equal(t, "sdk", info.ServerName)
				require.Equal(t, "2", info.ServerVersion)
				require.False(t, s.LastReceived().IsZero())

				for range 20 {
					got, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Target: "echo",
						Params: json.RawMessage(`{"name":"echo","arguments":{"text":"world"}}`)})
					require.NoError(t, err)
					var result mcp.CallToolResult
					require.NoError(t, json.Unmarshal(got, &result))
					require.Equal(t, "hello world", result.Content[0].(*mcp.TextContent).Text)
				}

				_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Target: "nope", Params: json.RawMessage(`{"name":"nope"}`)})
				testutil.AsError[*sdkrpc.Error](t, err)
				require.ErrorIs(t, err, mcpvisor.ErrRPC)
				require.Nil(t, s.Cause())
			})
		}
	}
}

func TestAgainstSDK_paramHeaders(t *testing.T) {
	web := sdkServer(t, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	s := openSession(t, specFor(web.URL))
	_, err := discovery.Discover(transporttest.Context(t), s, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	got, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Target: "marked",
		Params: json.RawMessage(`{"name":"marked","arguments":{"region":"zürich","deep":{"n":42}}}`)})
	require.NoError(t, err)
	require.Contains(t, string(got), headerparams.Value("zürich")+"/42")

	_, err = s.Request(transporttest.Context(t), transport.Request{Method: "tools/call", Target: "marked",
		Params: json.RawMessage(`{"name":"marked","arguments":{"region":"` + strings.Repeat("z", 1<<20) + `"}}`)})
	e := testutil.AsError[*mcpvisor.Error](t, err)
	require.Equal(t, mcpvisor.ErrInvalid, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}

// The session learns the marks of the tools that discovery has accepted, and of no other.
// A list that broke off replaces no whole one.
func TestUseTools(t *testing.T) {
	web := sdkServer(t, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	s := openSession(t, specFor(web.URL))
	_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
	require.NoError(t, err)
	headers := func() []string {
		h, err := s.calls.header(s.server.agreed.Load(), &transport.Request{Method: "tools/call", Target: "marked",
			Params: json.RawMessage(`{"name":"marked","arguments":{"region":"x"}}`)})
		require.NoError(t, err)
		return h["Mcp-Param-Region"]
	}
	require.Empty(t, headers(), "the page alone changes nothing")
	limits := mcpvisor.ServerSpec{}.WithDefaults().Limits
	found, err := discovery.Discover(transporttest.Context(t), s, "srv", limits)
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, headers())
	s.UseTools(nil, true)
	require.Equal(t, []string{"x"}, headers())
	s.UseTools(nil, false)
	require.Empty(t, headers())
	s.UseTools(found.Tools, false)
	require.Equal(t, []string{"x"}, headers())
}

func TestAgainstSDK_TLSAndHTTP2(t *testing.T) {
	checkLeaks(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "2"}, nil)
	var proto atomic.Int32
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		proto.Store(int32(r.ProtoMajor))
		return server
	}, nil)
	web := httptest.NewUnstartedServer(handler)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for ss := range server.Sessions() {
			_ = ss.Close()
		}
	})
	spec := specFor(web.URL)
	spec.HTTP.Client = web.Client()
	s := openSession(t, spec)
	_, err := s.Request(transporttest.Context(t), transport.Request{Method: "ping"})
	require.NoError(t, err)
	require.EqualValues(t, 2, proto.Load())
	web.CloseClientConnections()
	web.Close()
	_, err = s.Request(transporttest.Context(t), transport.Request{Method: "ping"})
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
}
