package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/toolname"
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

// Names fit, are of one tool each, and do not depend on other servers.
func TestNamer(t *testing.T) {
	var all []owner
	for _, server := range []string{"a", "a_", "a__b", "github", "server.with.dots", strings.Repeat("s", 64)} {
		for _, tool := range []string{"x", "_x", "b__x", "b", "list issues", "list_issues", "list.issues", "ends_like_0123abcd", strings.Repeat("t", 100), "ünïcode"} {
			all = append(all, owner{server, tool})
		}
	}
	for _, host := range []string{"", "mcp__mcpvisor__", strings.Repeat("h", 60)} {
		names := Names{HostPrefix: host}
		n := namer{names: &names}
		n.add(all)
		require.Empty(t, n.conflict)
		require.Len(t, n.byName, len(all))
		for name, o := range n.byName {
			require.LessOrEqual(t, len(name), max(64-len(host), toolname.MinBytes))
			require.Regexp(t, "^[a-zA-Z0-9_-]+$", name)
			alone := namer{names: &names}
			alone.add([]owner{o})
			require.Equal(t, map[string]owner{name: o}, alone.byName, "other servers do not matter")
		}
	}
}

// A name that two servers had stays with its prefix when one of them is gone.
func TestNamer_conflict_stays(t *testing.T) {
	shared := map[string]bool{}
	names := Names{Prefix: PrefixOnConflict}
	list := func(all ...owner) map[string]owner {
		n := namer{names: &names, shared: shared}
		n.add(all)
		return n.byName
	}
	a, b := owner{"a", "x"}, owner{"b", "x"}
	require.Equal(t, map[string]owner{"x": a}, list(a))
	require.Equal(t, map[string]owner{"a__x": a, "b__x": b}, list(a, b))
	require.Equal(t, map[string]owner{"a__x": a}, list(a))
}
