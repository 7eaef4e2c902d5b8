package inbound

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/pattern"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestCheckForm_valid(t *testing.T) {
	for _, schema := range []string{
		`null`,
		`{}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$comment":"","title":"T","description":"D","type":"object",
			"properties":{},"required":["a"],"additionalProperties":false,"x-order":[["a"]]}`,
		transporttest.FormWith(`"properties":{"type":"string","title":"T","description":"D","minLength":1,"maxLength":9,"format":"email","default":"a","examples":["b"]}`),
		transporttest.FormWith(`"$ref":{"type":"string","pattern":"^[A-Z]{2}-\\d{4}$"}`),
		transporttest.FormWith(`"a":{"type":"integer","minimum":1,"maximum":9,"default":3},"b":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":0.1}`),
		transporttest.FormWith(`"a":{"type":"boolean","default":true,"readOnly":false,"deprecated":false,"x-mine":{"$ref":"#"}}`),
		transporttest.FormWith(`"a":{"type":"string","enum":["r","g"],"enumNames":["red","green"],"default":"r"}`),
		transporttest.FormWith(`"a":{"type":"string","oneOf":[{"const":"r","title":"red"},{"const":"g","title":"green"}],"default":"r"}`),
		transporttest.FormWith(`"a":{"type":"array","minItems":1,"maxItems":2,"uniqueItems":true,"items":{"type":"string","enum":["r","g"]},"default":["r"]}`),
		transporttest.FormWith(`"a":{"type":"array","items":{"anyOf":[{"const":"r","title":"red"}]}}`),
	} {
		require.NoError(t, CheckForm(transporttest.DecodeJSON(t, schema)), schema)
	}
}

// The user is not asked for what no answer fits.
func TestCheckForm_field(t *testing.T) {
	for field, why := range map[string]string{
		`{"type":"boolean","default":"yes"}`:                                  "the default is not a boolean",
		`{"type":"number","default":"1"}`:                                     "the default is not a number",
		`{"type":"string","default":1}`:                                       "the default is not a string",
		`{"type":"string","minLength":5,"maxLength":2}`:                       "maxLength is less than minLength",
		`{"type":"string","minLength":-1}`:                                    "minLength is negative",
		`{"type":"integer","minimum":5,"maximum":2}`:                          "maximum is less than minimum",
		`{"type":"string","format":"password"}`:                               "unsupported format",
		`{"type":"string","enum":["a","b"],"enumNames":["A"]}`:                "2 values of enum have 1 enumNames",
		`{"type":"string","oneOf":[{"const":"a"}]}`:                           "an option lacks",
		`{"type":"array"}`:                                                    "the items of an array",
		`{"type":"array","items":{"type":"string"}}`:                          "the items of an array",
		`{"type":"array","items":{"anyOf":[{"const":1,"title":"one"}]}}`:      "an option lacks",
		`{"type":"array","items":{"type":"string","enum":["a"]}}`:             "",
		`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`:      "",
		`{"type":"string","format":"date","minLength":2,"maxLength":2}`:       "",
		`{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"}`: "",
	} {
		err := CheckForm(transporttest.DecodeJSON(t, transporttest.FormWith(`"a":`+field)))
		if why == "" {
			require.NoError(t, err, field)
		} else {
			require.ErrorContains(t, err, why, field)
		}
	}
	require.Error(t, CheckForm(transporttest.DecodeJSON(t, `{"type":"array","properties":{}}`)))
}

func TestCheckForm_invalid(t *testing.T) {
	many := strings.Repeat(`"a",`, formEntries) + `"a"`
	long := strings.Repeat("a", formText+1)
	for _, schema := range []string{
		`[]`, `"object"`, `true`,
		`{"properties":[]}`, `{"additionalProperties":{}}`, `{"required":{}}`, `{"required":[["a"]]}`, `{"title":{}}`,
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"$dynamicRef":"#n"}`, `{"$id":"x"}`, `{"$anchor":"x"}`, `{"definitions":{}}`, `{"not":{}}`, `{"if":{}}`, `{"patternProperties":{}}`, `{"ALLOF":[]}`, `{"$Ref":"#"}`,
		`{"dependentSchemas":{}}`, `{"propertyNames":{}}`, `{"unevaluatedProperties":false}`, `{"oneOf":[]}`, `{"items":{}}`,
		transporttest.FormWith(`"a":null`), transporttest.FormWith(`"a":true`), transporttest.FormWith(`"a":{"properties":{}}`), transporttest.FormWith(`"a":{"$ref":"#"}`), transporttest.FormWith(`"a":{"allOf":[]}`),
		transporttest.FormWith(`"a":{"not":{}}`), transporttest.FormWith(`"a":{"prefixItems":[]}`), transporttest.FormWith(`"a":{"contains":{}}`), transporttest.FormWith(`"a":{"additionalItems":{}}`),
		transporttest.FormWith(`"a":{"default":{}}`), transporttest.FormWith(`"a":{"default":[[]]}`), transporttest.FormWith(`"a":{"enum":[{}]}`), transporttest.FormWith(`"a":{"const":{}}`),
		transporttest.FormWith(`"a":{"oneOf":[{"const":"a","$ref":"#"}]}`), transporttest.FormWith(`"a":{"oneOf":[{"oneOf":[]}]}`), transporttest.FormWith(`"a":{"oneOf":[true]}`), transporttest.FormWith(`"a":{"oneOf":{}}`),
		transporttest.FormWith(`"a":{"items":[]}`), transporttest.FormWith(`"a":{"items":{"items":{}}}`), transporttest.FormWith(`"a":{"items":{"anyOf":[{"anyOf":[]}]}}`), transporttest.FormWith(`"a":{"items":{"$ref":"#"}}`),
		transporttest.FormWith(`"a":{"minLength":"1"}`), transporttest.FormWith(`"a":{"uniqueItems":1}`),
		transporttest.FormWith(`"a":{"title":"` + long + `"}`), transporttest.FormWith(`"a":{"default":"` + long[:MaxFormDefault+1] + `"}`),
		transporttest.FormWith(`"a":{"enum":[` + many + `]}`), `{"required":[` + many + `]}`,
		transporttest.FormWith(`"a":{"pattern":"("}`), transporttest.FormWith(`"a":{"pattern":1}`), transporttest.FormWith(`"a":{"pattern":"` + long[:pattern.MaxBytes+1] + `"}`),
		transporttest.FormWith(`"a":{"pattern":"` + strings.Repeat(".{1000}", 6) + `"}`),
	} {
		err := CheckForm(transporttest.DecodeJSON(t, schema))
		require.Error(t, err, "%.200s", schema)
		require.NotContains(t, err.Error(), "unsupported type", "%.200s", schema)
	}
	for _, field := range []string{`{}`, `{"type":"object"}`, `{"type":"null"}`, `{"enum":["a"]}`} {
		require.ErrorContains(t, CheckForm(transporttest.DecodeJSON(t, transporttest.FormWith(`"a":`+field))), "unsupported type")
	}
}

func TestCheckForm_number_of_fields(t *testing.T) {
	fields := map[string]any{}
	for n := range formEntries {
		fields[fmt.Sprint(n)] = map[string]any{"type": "string"}
	}
	schema := map[string]any{"type": "object", "properties": fields}
	require.NoError(t, CheckForm(schema))
	fields["more"] = map[string]any{"type": "string"}
	require.ErrorContains(t, CheckForm(schema), "more than 4096 fields")
}

// Regular expressions are counted before they are compiled, and their text before it is
// parsed: a form of a few kilobytes would take gigabytes otherwise.
func TestCheckForm_patterns_take_little_memory(t *testing.T) {
	for name, one := range map[string]string{
		"repetitions": strings.Repeat(".{1000}", 140),
		"ranges":      "(?i)[" + strings.Repeat("B-𞤀", 160) + "]",
		"classes":     strings.Repeat(`\pL`, 330),
		"no steps":    strings.Repeat("(?:", 250) + strings.Repeat(")", 250),
	} {
		fields := map[string]any{}
		for n := range 100 {
			fields[fmt.Sprint(n)] = map[string]any{"type": "string", "pattern": one}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := CheckForm(map[string]any{"type": "object", "properties": fields})
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "too large", name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), name)
	}
}

// formWithDefaults is a form of two fields.
var formWithDefaults = map[string]any{"type": "object", "properties": map[string]any{
	"a": map[string]any{"type": "integer", "default": 2.0}, "b": map[string]any{"type": "integer", "default": 3.0}}}

// A default replaces a missing field. A value of the user stays, also a zero value.
func TestApplyDefaults(t *testing.T) {
	content := map[string]any{"a": 0.0}
	require.Equal(t, map[string]any{"a": 0.0, "b": 3.0}, applyDefaults(content, formWithDefaults))
	require.Equal(t, map[string]any{"a": 0.0}, content, "the map of the handler is not changed")
}

// Only an accepted elicitation has content.
func TestHandler_elicit_content(t *testing.T) {
	h := newTestHandler()
	for action, want := range map[string]map[string]any{"accept": {"a": 1.0, "b": 3.0}, "decline": nil, "cancel": nil} {
		by := &transport.CallHandlers{ElicitForm: func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: action, Content: map[string]any{"a": 1.0}}, nil
		}}
		res, err := h.elicit(t.Context(), by, mcp.ElicitParams{RequestedSchema: formWithDefaults})
		require.NoError(t, err)
		require.Equal(t, want, res.Content, action)
	}
}

func TestCheckParams(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(transporttest.BroadObject(1000))))
	})
	t.Run("large", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(`{"x":"`+strings.Repeat("x", 32<<20)+`"}`)))
	})
	t.Run("broad", func(t *testing.T) {
		require.ErrorContains(t, CheckParams([]byte(transporttest.BroadObject(30_000))), "the parameters hold more than 50000 values")
	})
	t.Run("deep", func(t *testing.T) {
		deep := `{"x":"` + strings.Repeat("x", 64<<10) + `","y":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`
		require.ErrorContains(t, CheckParams([]byte(deep)), "levels")
	})
}
