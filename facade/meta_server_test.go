package facade_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// metaServer is a server of the go-sdk whose tool meta returns the _meta of its call.
func metaServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "meta", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "meta"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		text, err := json.Marshal(r.Params.Meta)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, err
	})
	s.AddPrompt(&mcp.Prompt{Name: "meta"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, err := json.Marshal(r.Params.Meta)
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: string(text)}}}}, err
	})
	return s
}

// metaServerVariable makes the test binary serve metaServer on its standard streams.
const metaServerVariable = "MCPVISOR_TEST_META_SERVER"

func serveMetaOnStdio() {
	if os.Getenv(metaServerVariable) == "" {
		return
	}
	_ = metaServer().Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// onEveryMetaServer runs f with a metaServer over each transport, in each era that it has.
func onEveryMetaServer(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	stdio := &mcpvisor.Stdio{Command: program, Env: map[string]string{metaServerVariable: "1"}}
	serve := func(h http.Handler) string {
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		return web.URL
	}
	one := func(*http.Request) *mcp.Server { return metaServer() }
	legacy, modern := serve(mcp.NewStreamableHTTPHandler(one, nil)), serve(mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true}))
	sse := serve(mcp.NewSSEHandler(one, nil))
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"legacy memory": {Era: mcpvisor.EraLegacy, InMemory: facade.ServeInMemory(metaServer())},
		"modern memory": {Era: mcpvisor.EraModern, InMemory: facade.ServeInMemory(metaServer())},
		"legacy stdio":  {Era: mcpvisor.EraLegacy, Stdio: stdio},
		"modern stdio":  {Era: mcpvisor.EraModern, Stdio: stdio},
		"legacy HTTP":   {Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: legacy}},
		"modern HTTP":   {Era: mcpvisor.EraModern, HTTP: &mcpvisor.HTTP{URL: modern}},
		"HTTP+SSE":      {HTTP: &mcpvisor.HTTP{URL: sse, SSE: true}},
	} {
		spec.Name = "s"
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}
