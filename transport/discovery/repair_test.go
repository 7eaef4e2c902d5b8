package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// An empty list is an empty object where a schema can have nothing else, and stays one in values.
func TestRepairSchemas(t *testing.T) {
	for item, want := range map[string]string{
		`{"name":"a","inputSchema":{"type":"object","properties":[]}}`:                                             `{"name":"a","inputSchema":{"type":"object","properties":{}}}`,
		`{"name":"a","outputSchema":{"properties":{"b":{"properties":[],"required":[]}},"$defs":[]}}`:              `{"name":"a","outputSchema":{"properties":{"b":{"properties":{},"required":[]}},"$defs":{}}}`,
		`{"inputSchema":{"anyOf":[{"properties":[]},{"type":"null"}],"items":{"properties":[]},"enum":[1.0,"x"]}}`: `{"inputSchema":{"anyOf":[{"properties":{}},{"type":"null"}],"items":{"properties":{}},"enum":[1.0,"x"]}}`,
		`{"inputSchema":{"default":{"properties":[]},"required":[]},"x":{"properties":[]}}`:                        "",
		`{"inputSchema":{"properties":[1]}}`:                                                                       "",
		`{"inputSchema":[]}`:                                                                                       "",
		`{"inputSchema":true,"x":[]}`:                                                                              "",
		`[]`:                                                                                                       "",
	} {
		given := json.RawMessage(item)
		got := repairSchemas(given)
		if want == "" {
			require.Same(t, &given[0], &got[0], item)
			want = item
		}
		require.Equal(t, want, string(got))
	}
	deep := strings.Repeat(`{"properties":{"a":`, 5000) + `{"properties":[]}` + strings.Repeat("}}", 5000)
	given := json.RawMessage(`{"inputSchema":` + deep + `}`)
	require.Same(t, &given[0], &repairSchemas(given)[0], "a schema that is nested deep is not read at each of its levels")
}

// A tool with a repaired schema is offered so, in every form, with a remark.
func TestDiscover_repairs_schemas(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{"tools/list?(first)": `{"tools":[{"name":"a","inputSchema":{"type":"object","properties":[]}},{"name":"b"}]}`})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 2)
	require.Equal(t, `{"type":"object","properties":{}}`, string(c.Tools[0].Definition.InputSchema.(json.RawMessage)))
	require.Equal(t, `{"name":"a","inputSchema":{"type":"object","properties":{}}}`, string(c.Tools[0].Raw))
	require.Contains(t, warningTexts(c), "1 tool has an empty list where the schema needs an object; it is read as {}")
}
