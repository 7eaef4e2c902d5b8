package group_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func server(name string, after ...string) group.Member { return group.Member{Name: name, After: after} }

func nested(name string, after ...string) group.Member {
	return group.Member{Name: name, Group: true, After: after}
}

func TestValidate_names_what_is_wrong(t *testing.T) {
	for text, tree := range map[string][]group.Config{
		`group "g" is defined twice`:                   {{Name: "g", Root: true}, {Name: "g", Root: true}},
		`"a" is in the groups "g" and "h"`:             {{Name: "g", Root: true, Members: []group.Member{server("a")}}, {Name: "h", Root: true, Members: []group.Member{server("a")}}},
		`"a" is in the groups "g" and "g"`:             {{Name: "g", Root: true, Members: []group.Member{server("a"), server("a")}}},
		`the member "h" must be`:                       {{Name: "g", Root: true, Members: []group.Member{nested("h")}}},
		`the member "g" must be`:                       {{Name: "g", Root: true, Members: []group.Member{server("g")}}},
		`cannot be transient`:                          {{Name: "g", Root: true, Members: []group.Member{{Name: "h", Group: true, Restart: group.Transient}}}, {Name: "h"}},
		`group "h" must be the root`:                   {{Name: "g", Root: true}, {Name: "h"}},
		`with the strategy one_for_all, members start`: {{Name: "g", Root: true, Strategy: supervisor.OneForAll, Parallel: true}},
		`"a" → "b" → "a" wait for each other`:          {{Name: "g", Root: true, Parallel: true, Members: []group.Member{server("a", "b"), server("b", "a")}}},
		`"a" → "a" wait for each other`:                {{Name: "g", Root: true, Members: []group.Member{server("a", "a")}}},
		`"h" → "g" → "h" wait for each other`:          {{Name: "g", Members: []group.Member{nested("h")}}, {Name: "h", Members: []group.Member{nested("g")}}},
		`"g" → "a" → "g" wait for each other`:          {{Name: "g", Root: true, Members: []group.Member{server("a", "g")}}},
		`"x" → "y" → "x" wait for each other`:          {{Name: "g", Root: true, Members: []group.Member{server("x", "y"), server("y")}}},
		`"a" → "h" → "b" → "a" wait for each other`: {{Name: "g", Root: true, Parallel: true, Members: []group.Member{server("a", "h"), nested("h")}},
			{Name: "h", Members: []group.Member{server("b", "a")}}},
	} {
		err := group.Validate(tree)
		require.ErrorContains(t, err, text)
	}
}

func TestOrder(t *testing.T) {
	tree := []group.Config{
		{Name: "all", Root: true, Parallel: true, Members: []group.Member{nested("web", "db"), server("x"), nested("db", "net")}},
		{Name: "web", Members: []group.Member{server("proxy"), server("api", "cache")}},
		{Name: "db", Members: []group.Member{server("disk"), server("sql")}},
		{Name: "more", Root: true, Members: []group.Member{server("net"), server("cache")}},
	}
	require.NoError(t, group.Validate(tree))
	before := group.Before(tree, true)
	for _, pair := range [][2]string{{"net", "disk"}, {"disk", "sql"}, {"sql", "proxy"}, {"proxy", "api"}, {"cache", "api"}, {"net", "cache"}, {"net", "proxy"}, {"disk", "api"}} {
		require.Contains(t, before[pair[1]], pair[0])
	}
	require.Empty(t, before["x"])
	require.ElementsMatch(t, []string{"net", "disk", "sql"}, before["proxy"])
	needs := group.Before(tree, false)
	require.Equal(t, []string{"net"}, needs["sql"], "the order of one_for_one is that of the start")
	require.ElementsMatch(t, []string{"net", "disk", "sql"}, needs["proxy"])
}
