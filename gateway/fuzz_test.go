package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A POST of any form has an answer that is a message, a stream or a text, and no fault of the gateway.
func FuzzPost(f *testing.F) {
	for _, seed := range [][2]string{
		{"2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}`},
		{"2026-07-28", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"s__echo","arguments":{"text":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
		{"2025-03-26", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`},
		{"", `{"jsonrpc":"2.0","id":null,"result":{}}`}, {"2024-11-05", `{"id":1e400,"method":"tasks/get","params":{"taskId":"AAAA"}}`},
	} {
		f.Add(seed[0], "tools/call", "s__echo", "", seed[1])
	}
	client, err := facade.New()
	require.NoError(f, err)
	require.NoError(f, client.Register(f.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	h := Handler(client, WithMaxWait(0))
	f.Cleanup(func() {
		h.Close()
		_ = client.Close(context.Background())
	})
	f.Fuzz(func(t *testing.T, version, method, name, session, body string) {
		if strings.Contains(body, "listen") { // it answers as long as its client listens
			return
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		for header, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Session-Id": session} {
			r.Header.Set(header, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, w.Body.String())
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
		}
	})
}
