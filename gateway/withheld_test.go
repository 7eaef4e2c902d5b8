package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// One tool of a hundred has a schema for which hosts reject the list: 99 are listed, and the
// status says why. The tool cannot be called, under no name of it.
func TestHandler_withholds_schemas(t *testing.T) {
	script := mcptest.Script{}
	for i := range 99 {
		script.Tools = append(script.Tools, mcptest.ToolDef{Name: fmt.Sprintf("good_%d", i), As: "echo"})
	}
	script.Tools = append(script.Tools, mcptest.ToolDef{Name: "evil", As: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`)})
	s, url := serveHTTP(t, newClient(t, fixture("a", script)))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 99, strings.Count(answer, `"name":"a__good_`))
	require.NotContains(t, answer, "evil")
	require.Equal(t, []Withheld{{Server: "a", Name: "evil", Kind: "tool",
		Reason: `its inputSchema refers to "file:///etc/passwd"; references must stay in the schema`}}, s.Status().Withheld)
	for _, name := range []string{"a__evil", "a/evil", "mcp__a__evil"} {
		_, answer := p.post(toolCallOf(2, name, `{"text":"x"}`))
		require.Equal(t, "-32602", memberOf(t, []byte(answer), "error", "code"), "%s: %s", name, answer)
	}
}
