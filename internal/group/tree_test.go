package group_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
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
		`"a" comes after "x", which is not defined`:    {{Name: "g", Root: true, Members: []group.Member{server("a", "x")}}},
		`with the strategy one_for_all, members start`: {{Name: "g", Root: true, Strategy: group.OneForAll, Parallel: true}},
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
	order := group.StartOrder(tree)
	require.Len(t, order, 7)
	for _, pair := range [][2]string{{"net", "disk"}, {"disk", "sql"}, {"sql", "proxy"}, {"proxy", "api"}, {"cache", "api"}, {"net", "cache"}} {
		require.Less(t, slices.Index(order, pair[0]), slices.Index(order, pair[1]), "%v in %v", pair, order)
	}
	require.Equal(t, []string{"b", "a"}, group.StartOrder([]group.Config{{Name: "g", Root: true, Parallel: true, Members: []group.Member{server("a", "b"), server("b")}}}))
	require.Equal(t, []string{"a", "b"}, group.StartOrder([]group.Config{{Name: "g", Root: true, Members: []group.Member{server("a"), server("b")}}}))
}
