package raw_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// TestServer: a client calls the server over pipes and HTTP in both eras, and sees the bytes that
// the test wants.
func TestServer(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		server := &raw.Server{Modern: modern, Session: "1", Answers: map[string]string{"tools/list": `"result":{"resultType":"complete","tools":[{"name":"x","inputSchema":{}},{"name":"later","inputSchema":{}}]}`}}
		server.Answer = func(m *raw.Message) string {
			if m.Method != "tools/call" {
				return ""
			}
			m.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, 1)
			if m.W == nil {
				m.Reply(raw.Text("é"))
				return raw.None
			}
			return raw.Text("é")
		}
		web := httptest.NewServer(server)
		t.Cleanup(web.Close)
		for over, spec := range map[string]mcpvisor.ServerSpec{"pipes": {InMemory: &mcpvisor.InMemory{Serve: server.Serve}}, "HTTP": {HTTP: &mcpvisor.HTTP{URL: web.URL}}} {
			t.Run(name+" "+over, func(t *testing.T) {
				c, err := facade.New()
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close(context.Background())) }()
				spec.Name = "s"
				require.NoError(t, c.Register(t.Context(), spec))
				result, err := c.CallTool(t.Context(), "s/x", nil)
				require.NoError(t, err)
				require.Equal(t, []mcp.Content{&mcp.TextContent{Text: "é"}}, result.Content)
				_, ok := c.Tool("s/later")
				require.True(t, ok)
			})
		}
	}
}

// TestServer_ends: a server that ends takes the call with it.
func TestServer_ends(t *testing.T) {
	server := &raw.Server{Answer: func(m *raw.Message) string {
		if m.Method == "tools/call" {
			return m.End(errors.New("it dies"))
		}
		return ""
	}}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	for name, spec := range map[string]mcpvisor.ServerSpec{"pipes": {InMemory: &mcpvisor.InMemory{Serve: server.Serve}}, "HTTP": {HTTP: &mcpvisor.HTTP{URL: web.URL}}} {
		t.Run(name, func(t *testing.T) {
			c, err := facade.New()
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close(context.Background())) }()
			spec.Name = "s"
			require.NoError(t, c.Register(t.Context(), spec))
			_, err = c.CallTool(t.Context(), "s/x", nil)
			var failed *mcpvisor.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, mcpvisor.OutcomeUnknown, failed.Outcome)
		})
	}
}
