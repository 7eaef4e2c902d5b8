package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
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
		}, []string{"t7", "t8"}, true},
		"a cursor": {func(cursor string) string {
			return `{"tools":[` + tool(fmt.Sprintf("t%d", len(cursor)), 1) + `],"nextCursor":"` + cursor + strings.Repeat("x", limit) + `"}`
		}, []string{"t7"}, true},
		"all there is": {func(string) string { return `{"tools":[` + tool("a", 9000) + `]}` }, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lister{caps: onlyTools(), reply: func(_, cursor string) (string, error) { return c.tools(cursor), nil }}
			catalog, err := discoverAll(t, l, messages.Limits{Catalog: limit, Pages: 20})
			require.NoError(t, err)
			require.Equal(t, c.want, toolNames(catalog))
			if !c.cut {
				require.Empty(t, catalog.Warnings)
				return
			}
			require.Len(t, catalog.Warnings, 1)
			require.Equal(t, "tools/list: the lists are longer than 10000 bytes together; the rest is left out (raise Limits.Catalog to take more)",
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
		catalog, err := discoverAll(t, l, messages.Limits{Catalog: limit, Pages: 20})
		require.NoError(t, err)
		require.Len(t, catalog.Tools, 1)
		require.Empty(t, catalog.Resources)
		require.Len(t, catalog.Prompts, 1)
		require.Len(t, catalog.Warnings, 1)
		require.Contains(t, catalog.Warnings[0], "resources/list")
	})
}
