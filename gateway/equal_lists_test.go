package gateway

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// shuffle writes JSON with the members of its objects in another order.
func shuffle(text string) string {
	switch text[0] {
	case '{':
		var members []string
		_ = jsonscan.EachMember([]byte(text), func(key string, value []byte) error {
			members = append(members, fmt.Sprintf("%q: %s", key, shuffle(string(value))))
			return nil
		})
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, ", ") + "}"
	case '[':
		var items []string
		jsonscan.EachItem([]byte(text), func(item []byte) bool { items = append(items, shuffle(string(item))); return true })
		return "[" + strings.Join(items, ",") + "]"
	}
	return text
}

// shufflingServer lists what lists has by method, at each reading with the members in another order, and the
// entries as well.
func shufflingServer(lists *atomic.Pointer[map[string][]string]) *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		if m.Method == "initialize" {
			return `"result":` + shuffle(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`), nil
		}
		entries, ok := (*lists.Load())[m.Method]
		if !ok {
			return "", nil
		}
		var all []string
		for _, i := range rand.Perm(len(entries)) {
			all = append(all, shuffle(entries[i]))
		}
		member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}[m.Method]
		return `"result":{"` + member + `":[` + strings.Join(all, ",") + `]}`, nil
	})
}

const (
	shuffledTool = `{"name":"%s","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","default":9007199254740993},"b":{"type":"number","const":1.0},"c":{},"d":{},"e":{}},"required":["a","b"]},` +
		`"annotations":{"readOnlyHint":true,"x-later":9007199254740993,"title":null,"x-list":[1.0,"a"]},"_meta":{"big":9007199254740993,"one":1.0,"a":{"b":1,"c":2,"d":3}}}`
	shuffledMeta = `"annotations":{"priority":0.5,"audience":["user"],"x-later":12345678901234567890},"_meta":{"big":9007199254740993,"c":1,"d":2,"e":3}`
)

func shuffledLists(tools ...string) *map[string][]string {
	return &map[string][]string{
		"tools/list":               tools,
		"prompts/list":             {`{"name":"p","description":"d","arguments":[{"name":"a","required":true,"description":"x"}],"_meta":{"big":9007199254740993,"a":1,"b":2}}`},
		"resources/list":           {`{"uri":"x:a","name":"a","mimeType":"text/plain",` + shuffledMeta + `}`},
		"resources/templates/list": {`{"uriTemplate":"x:{a}","name":"a","mimeType":"text/plain",` + shuffledMeta + `}`},
	}
}

// A server that writes the same with its members in another order, at each start and each reading, changes no
// byte of the lists of the gateway and of the client, and is reported as unchanged. After a real change of
// one entry, the bytes of the others stay.
func TestLists_in_another_order(t *testing.T) {
	lists := new(atomic.Pointer[map[string][]string])
	first, second := fmt.Sprintf(shuffledTool, "first"), fmt.Sprintf(shuffledTool, "second")
	lists.Store(shuffledLists(first, second))
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: shufflingServer(lists)}
	c := newClient(t, spec)
	s := openRaw(t, Transport(c))
	read := func() map[string]string {
		got := map[string]string{}
		for method := range *lists.Load() {
			answer := s.call(method, "")
			require.NoError(t, answer.Error)
			got[method] = string(answer.Result)
		}
		return got
	}
	rawOf := func() (all []string) {
		for known := range c.Catalogs() {
			for _, tool := range known.Tools {
				all = append(all, string(tool.Raw))
			}
			for _, r := range known.Resources {
				all = append(all, string(r.Raw))
			}
			for _, r := range known.Templates {
				all = append(all, string(r.Raw))
			}
			for _, p := range known.Prompts {
				all = append(all, string(p.Raw))
			}
		}
		return all
	}
	before, raw := read(), rawOf()
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		require.Contains(t, before[method], `"big":9007199254740993`, method)
	}
	require.Contains(t, before["tools/list"], `"x-later":9007199254740993`)
	require.Contains(t, before["tools/list"], `"x-list":[1.0,"a"]`)
	require.Contains(t, before["tools/list"], `"one":1.0`)
	require.NotContains(t, before["tools/list"], "null", "hosts refuse the whole list")
	require.Contains(t, before["resources/list"], `"x-later":12345678901234567890`)
	require.Contains(t, before["resources/templates/list"], `"x-later":12345678901234567890`)

	s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
	require.Equal(t, "notifications/subscriptions/acknowledged", s.read().(*jsonrpc.Request).Method)
	events := c.Watch(t.Context(), mcpvisor.EventReady, mcpvisor.EventChanged)
	for range 3 {
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		require.Equal(t, before, read())
		require.NoError(t, c.Refresh(t.Context(), "s"))
		require.Equal(t, before, read())
		require.Equal(t, raw, rawOf(), "the lists of the client")
	}
	spec.Policy = supervisor.Retry(7, time.Second) // another registration
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	require.Equal(t, before, read())

	lists.Store(shuffledLists(first, strings.Replace(second, `"const":1.0`, `"const":1`, 1)))
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.Equal(t, "notifications/tools/list_changed", s.read().(*jsonrpc.Request).Method, "the first notification")
	after := read()
	kept, _, found := strings.Cut(before["tools/list"], `"name":"mcp__s__first"`)
	require.True(t, found)
	require.NotEqual(t, before["tools/list"], after["tools/list"])
	require.True(t, strings.HasPrefix(after["tools/list"], kept))
	delete(before, "tools/list")
	delete(after, "tools/list")
	require.Equal(t, before, after)
	for range 4 {
		ready := receive(t, events)
		require.Equal(t, mcpvisor.EventReady, ready.Kind)
		require.Nil(t, ready.Change)
	}
	changed := receive(t, events)
	require.Equal(t, mcpvisor.EventChanged, changed.Kind)
	require.Equal(t, mcpvisor.Change{Tools: mcpvisor.Delta{Changed: []string{"s/second"}}}, *changed.Change)
}
