package gateway

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A handler that is closed does not stay in memory: what is kept for each tool does not keep it.
func TestHandler_is_collected(t *testing.T) {
	client := func() weak.Pointer[facade.Client] {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})}))
		h := Handler(c)
		server := httptest.NewServer(h)
		post := func(method, name, params string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(modernRequest(method, params)))
			require.NoError(t, err)
			for header, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
				r.Header.Set(header, value)
			}
			answer, err := server.Client().Do(r)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
		}
		post("tools/list", "", `"cursor":null`)
		post("tools/call", "a__echo", `"name":"a__echo","arguments":{"text":"x"}`)
		server.Close()
		h.Close()
		require.NoError(t, c.Close(t.Context()))
		return weak.Make(c)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return client.Value() == nil
	}, 20*time.Second, 10*time.Millisecond)
}
