package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
)

// TestDiscoverBoundsBytes: few entries can be as long as many. The lists share
// one allowance.
func TestDiscoverBoundsBytes(t *testing.T) {
	tool := func(name string, size int) string {
		return fmt.Sprintf(`{"name":"%s","description":"%s"}`, name, strings.Repeat("x", size))
	}
	const limit = 10_000
	for name, c := range map[string]struct {
		tools func(cursor string) string
		want  []string
		cut   bool
	}{
		"endless pages": {func(cursor string) string {
			name := fmt.Sprintf("t%d", len(cursor))
			return `{"tools":[` + tool(name, 3000) + `],"nextCursor":"` + cursor + `x"}`
		}, []string{"t7", "t8", "t9"}, true},
		"one page": {func(string) string {
			return `{"tools":[` + tool("a", 4000) + `,` + tool("b", 4000) + `,` + tool("c", 4000) + `,` + tool("d", 1) + `]}`
		}, []string{"a", "b"}, true},
		"waste beside the list": {func(string) string {
			return `{"waste":"` + strings.Repeat("x", limit) + `","tools":[` + tool("a", 1) + `]}`
		}, []string{"a"}, false},
		"endless waste": {func(cursor string) string {
			name := fmt.Sprintf("t%d", len(cursor))
			return `{"waste":"` + strings.Repeat("x", limit/2) + `","tools":[` + tool(name, 2000) + `],"nextCursor":"` + cursor + `x"}`
		}, []string{"t10", "t7", "t8", "t9"}, true}, // the waste is not kept, and does not count
		"a cursor": {func(cursor string) string {
			return `{"tools":[` + tool(fmt.Sprintf("t%d", len(cursor)), 1) + `],"nextCursor":"` + cursor + strings.Repeat("x", limit) + `"}`
		}, []string{"t7"}, true},
		"all there is": {func(string) string { return `{"tools":[` + tool("a", 9000) + `]}` }, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lister{caps: onlyTools(), reply: func(_, cursor string) (string, error) { return c.tools(cursor), nil }}
			catalog, err := discoverAll(t, l, mcpvisor.Limits{MaxCatalogBytes: limit, MaxPages: 20})
			require.NoError(t, err)
			require.Equal(t, c.want, toolNames(catalog))
			if !c.cut {
				require.Empty(t, catalog.Warnings)
				return
			}
			require.Len(t, catalog.Warnings, 1)
			require.Equal(t, "tools/list: the lists are longer than 10000 bytes together; the rest is left out (raise Limits.MaxCatalogBytes to take more)",
				catalog.Warnings[0])
		})
	}
	t.Run("all lists together", func(t *testing.T) {
		pad := strings.Repeat("x", limit*2/3)
		l := &lister{caps: everything(), reply: replies(map[string]string{
			"tools/list":     `{"tools":[{"name":"a","description":"` + pad + `"}]}`,
			"resources/list": `{"resources":[{"uri":"a:b","name":"` + pad + `"}]}`,
			"prompts/list":   `{"prompts":[{"name":"short"}]}`,
		})}
		catalog, err := discoverAll(t, l, mcpvisor.Limits{MaxCatalogBytes: limit, MaxPages: 20})
		require.NoError(t, err)
		require.Len(t, catalog.Tools, 1)
		require.Empty(t, catalog.Resources)
		require.Len(t, catalog.Prompts, 1)
		require.Len(t, catalog.Warnings, 1)
		require.Contains(t, catalog.Warnings[0], "resources/list")
	})
}

// TestDiscoverCountsWhatFailed: a list that is only implied is none that worked,
// and one of which a later page is missing is none that failed.
func TestDiscoverCountsWhatFailed(t *testing.T) {
	l := &lister{caps: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}, reply: func(method, _ string) (string, error) {
		if method == "resources/list" {
			return "", rpcFault(sdkrpc.CodeInternalError)
		}
		return "", rpcFault(sdkrpc.CodeMethodNotFound)
	}}
	_, err := discoverAll(t, l, mcpvisor.Limits{})
	require.ErrorContains(t, err, "every list failed: resources/list")

	l = &lister{caps: onlyTools(), Lifetime: NewLifetime(), reply: func(_, cursor string) (string, error) {
		if cursor == "2" {
			return "", rpcFault(sdkrpc.CodeInternalError)
		}
		return `{"tools":[{"name":"a"}],"nextCursor":"2","ttlMs":1e300}`, nil
	}}
	c, broken, err := DiscoverLists(t.Context(), l, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits, catalog.AllLists)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, toolNames(c))
	require.Equal(t, catalog.ListTools, broken)
	require.Equal(t, 1e9*time.Millisecond, c.TTL[catalog.ListTools])

	l = &lister{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list?(first)": `{"tools":[],"ttlMs":2000,"nextCursor":"2"}`, "tools/list?2": `{"tools":[],"ttlMs":1000,"nextCursor":"3"}`,
		"tools/list?3": `{"tools":[],"ttlMs":3000}`})}
	c, err = discoverAll(t, l, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, time.Second, c.TTL[catalog.ListTools], "a list is as old as its oldest page")
}

// marking is a session on which marked arguments travel in headers.
type marking struct{ *lister }

func (marking) checksMarks() bool { return true }

// TestDiscoverLeavesOutBadMarks: "Clients MUST exclude" such a tool.
func TestDiscoverLeavesOutBadMarks(t *testing.T) {
	l := &lister{caps: onlyTools(), Lifetime: NewLifetime(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"a","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"no token"}}}},{"name":"b"}]}`})}
	c, err := Discover(t.Context(), marking{l}, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, toolNames(c))
	require.Len(t, c.Warnings, 1)
	c, err = Discover(t.Context(), l, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, toolNames(c), "elsewhere marks mean nothing")
}
