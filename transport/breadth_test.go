package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// broad is an object of n small objects: 8 bytes each as text, 400 as a map.
func broad(n int) string { return `{"m":[` + strings.Repeat(`{"a":0},`, n) + `0]}` }

// TestDiscoverBroadEntries: a member that is too large costs itself, and an entry
// that is too large without it costs the entry.
func TestDiscoverBroadEntries(t *testing.T) {
	many := broad(10_000)
	s := &lister{caps: everything(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"a","_meta":` + many + `},{"name":"b","icons":[{"src":"x"}` + strings.Repeat(`,{}`, 10_000) + `]},
			{"name":"c","annotations":{"title":"t","x":` + many + `}},{"name":"d","_meta":{"k":"v"},"icons":[{"src":"x"}]}]}`,
		"resources/list":           `{"resources":[{"uri":"x:a","_META":` + many + `},{"uri":"x:b","name":"n","other":` + many + `},{"uri":"x:c","_meta":{"k":"v"}}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:a","icons":[` + many + `]}]}`,
		"prompts/list":             `{"prompts":[{"name":"a","_meta":` + many + `},{"name":"b","arguments":[{"name":"x"}` + strings.Repeat(`,{}`, 10_000) + `]}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 4)
	for _, tool := range c.Tools[:3] {
		require.Nil(t, tool.Definition.Meta)
		require.Nil(t, tool.Definition.Icons)
		require.Nil(t, tool.Definition.Annotations)
	}
	require.Equal(t, "v", c.Tools[3].Definition.Meta["k"])
	require.Len(t, c.Tools[3].Definition.Icons, 1)
	require.Len(t, c.Resources, 2)
	require.Nil(t, c.Resources[0].Definition.Meta)
	require.Equal(t, "v", c.Resources[1].Definition.Meta["k"])
	require.Len(t, c.Templates, 1)
	require.Empty(t, c.Templates[0].Definition.Icons)
	require.Len(t, c.Prompts, 1)
	said := strings.Join(c.Warnings, "\n")
	require.Contains(t, said, "6 members of entries")
	require.Contains(t, said, "resources/list: entry 2 is left out: it holds more than 10000 values")
	require.Contains(t, said, "prompts/list: entry 2 is left out: it holds more than 10000 values")
}

// What _meta takes once it is decoded counts: many small ones fill the catalog
// as well as one large schema does.
func TestDiscoverBroadTogether(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":"tool-` + strings.Repeat("x", i%7) + strings.Repeat("y", i/7) + `","_meta":` + broad(100) + `}`)
	}
	s := &lister{caps: onlyTools(), reply: replies(map[string]string{"tools/list": `{"tools":[` + b.String() + `]}`})}
	c, err := discoverAll(t, s, mcpvisor.Limits{MaxCatalogBytes: 4 << 20})
	require.NoError(t, err)
	require.Less(t, len(c.Tools), 150)
	require.Greater(t, len(c.Tools), 30)
	require.Contains(t, strings.Join(c.Warnings, "\n"), "Limits.MaxCatalogBytes")
}

func TestRefuseBroad(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(broad(1000))))
	})
	t.Run("large", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(`{"x":"`+strings.Repeat("x", 32<<20)+`"}`)))
	})
	t.Run("broad", func(t *testing.T) {
		require.ErrorContains(t, CheckParams([]byte(broad(30_000))), "the parameters hold more than 50000 values")
	})
	t.Run("deep", func(t *testing.T) {
		deep := `{"x":"` + strings.Repeat("x", 64<<10) + `","y":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`
		require.ErrorContains(t, CheckParams([]byte(deep)), "levels")
	})
}

// The way of the modern era: what is wanted in the answer to a call.
func TestQuestionFromBroad(t *testing.T) {
	_, err := newResponder().answerInput(t.Context(), inputRequest{key: "k", method: methodElicit,
		params: []byte(`{"message":"?","requestedSchema":` + broad(30_000) + `}`)})
	require.ErrorContains(t, err, "the parameters hold more than 50000 values")
}

func TestNoticeBroad(t *testing.T) {
	n := new(Notifications)
	n.OnNotice(func(Notice) { t.Error("told") })
	long := []byte(`{"notifications":{"resourceSubscriptions":[""` + strings.Repeat(`,""`, 400_000) + `]}}`)
	require.Equal(t, Malformed, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), long))
}

// Marks in headers are not looked for in a schema that holds too much.
func TestMarksBroad(t *testing.T) {
	schema := `{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`
	require.ErrorContains(t, checkHeaderParams([]byte(schema)), "more than 10000 values")
	var p headerParams
	p.learn([]byte(`{"tools":[{"name":"a","inputSchema":`+schema+`},{"name":"b","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}]}`), true, 10)
	require.Len(t, p.tools, 1)
}

// A server hears why its question was refused, and may go on.
func TestPipedBroadQuestion(t *testing.T) {
	p := newPartner(t, false)
	p.open(Handlers{ElicitForm: atOnce})
	p.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, broad(30_000))
	m := p.next("")
	require.Equal(t, `"q"`, string(m.ID))
	require.Contains(t, string(m.Error), "the parameters hold more than 50000 values")
	p.say(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
	require.NotEmpty(t, p.next("").Result)
}
