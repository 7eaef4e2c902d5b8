package facade_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// onlyCatalog returns what the one server of a client offers.
func onlyCatalog(t require.TestingT, c *facade.Client) mcpvisor.Catalog {
	all := slices.Collect(c.Catalogs())
	require.Len(t, all, 1)
	return all[0]
}

// Entries are kept as the server sent them, after each reading of the lists.
func TestCatalogs_are_as_sent(t *testing.T) {
	var mu sync.Mutex
	lists := map[string]string{}
	onEveryRawServer(t, func(method, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		return lists[method]
	}, func(t *testing.T, spec mcpvisor.ServerSpec) {
		mu.Lock()
		clear(lists)
		mu.Unlock()
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		version := onlyCatalog(t, c).Version
		readings := 0 // entries that say the same would stay as they are
		rapid.Check(t, func(rt *rapid.T) {
			readings++
			entry := func(identity string) string {
				text := "{" + identity + fmt.Sprintf(`,"reading":%d`, readings) + `,"inputSchema":{"type":"object","default":1.0},"x":` + textsOfJSON.Draw(rt, "value")
				return text + "," + drawMembers(rt, "members") + "}"
			}
			tools := []string{entry(`"name":"a"`), entry(`"name" : "b"`)}
			resource, template, prompt := entry(`"uri":"x:a","name":"n"`), entry(`"uriTemplate":"x:{a}","name":"n"`), entry(`"name":"p"`)
			mu.Lock()
			lists["tools/list"] = fmt.Sprintf(`{"resultType":"complete","tools":[%s , %s]}`, tools[1], tools[0])
			lists["resources/list"] = `{"resultType":"complete","resources":[` + resource + `]}`
			lists["resources/templates/list"] = `{"resultType":"complete","resourceTemplates":[` + template + `]}`
			lists["prompts/list"] = `{"resultType":"complete","prompts":[` + prompt + `]}`
			mu.Unlock()
			require.NoError(rt, c.Refresh(t.Context(), "s"))
			got := onlyCatalog(rt, c)
			require.Len(rt, got.Tools, 2)
			require.Equal(rt, tools[0], string(got.Tools[0].Raw))
			require.Equal(rt, tools[1], string(got.Tools[1].Raw))
			require.Equal(rt, resource, string(got.Resources[0].Raw))
			require.Equal(rt, template, string(got.Templates[0].Raw))
			require.Equal(rt, prompt, string(got.Prompts[0].Raw))
			require.NotEqual(rt, version, got.Version)
			require.Equal(rt, got.Version, onlyCatalog(rt, c).Version)
			version = got.Version
			tool, ok := c.Tool("s/a")
			require.True(rt, ok)
			require.Equal(rt, tools[0], string(tool.Raw))
		})
	})
}

// A member that only the raw entry has is a change, too, and a server that is down keeps its
// entries.
func TestCatalogs_change_of_a_member(t *testing.T) {
	var mu sync.Mutex
	const first = `{"name":"a","inputSchema":{},"later":1.0}`
	text := first
	server := rawServer(func(method, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		if method == "tools/list" {
			return `{"tools":[` + text + `]}`
		}
		return ""
	})
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: server, Policy: mcpvisor.NoRetry()}))
	events := watch(t, c, mcpvisor.EventChanged)
	set := func(next string) {
		mu.Lock()
		text = next
		mu.Unlock()
		require.NoError(t, c.Refresh(t.Context(), "s"))
	}
	set(`{"name":"a","inputSchema":{},"later":1}`)
	set(`{"name":"a","inputSchema":{},"later":1,"title":"t"}`)
	require.Equal(t, []string{"s/a"}, next(t, events).Change.Tools.Changed)
	require.Equal(t, []string{"s/a"}, next(t, events).Change.Tools.Changed)
	require.Empty(t, events)
	require.NoError(t, c.Restart(t.Context(), "s"))
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	require.True(t, json.Valid(onlyCatalog(t, c).Tools[0].Raw))
}
