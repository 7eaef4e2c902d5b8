package argcheck

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// Nothing is refused that the schema allows.
func TestCheck_allows_what_the_schema_allows(t *testing.T) {
	for _, c := range [][2]string{
		{`{"properties":{"a":{"type":"number","multipleOf":0.01}}}`, `{"a":19.99}`},
		{`{"properties":{"a":{"type":"array","uniqueItems":true}}}`, `{"a":[9007199254740992,9007199254740993]}`},
		{`{"properties":{"a":{"type":"string","not":{"pattern":"^(?=x)"}}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"not":{"$ref":"#/$defs/p"}}},"$defs":{"p":{"pattern":"^(?=x)"}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"oneOf":[{"type":"string","pattern":"^(?!x)a"},{"type":"string","pattern":"^(?!x)b"}]}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"if":{"pattern":"^(?=x)"},"then":{"maxLength":1}}}}`, `{"a":"abc"}`},
		{`{"allOf":[{"patternProperties":{"^(?=a)":{}}}],"unevaluatedProperties":false}`, `{"a":"abc"}`},
		{`{"patternProperties":{"^(?=a)":{}},"additionalProperties":false}`, `{"a":"abc"}`},
		{`{"dependencies":{"a":["b"]}}`, `{"a":1}`},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":[1,2]}`},
		{`{"properties":{"a":{"type":"string","nullable":true,"enum":["x"]}}}`, `{"a":null}`},
		{`{"properties":{"a":{"type":"int"},"b":{"type":["string","any"]},"c":7,"d":{"minimum":"0"}},"type":5}`, `{"a":1,"b":2,"c":3,"d":-1}`},
		{`{"type":"object","Required":["zz"],"AllOf":[false]}`, `{"a":"1"}`},
		{`{"properties":{"a":{"contains":null},"b":{"contains":7}}}`, `{"a":[],"b":[]}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x","maxLength":1}},"definitions":{"x":{"type":"string"}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"type":"string"}},"maxProperties":1}`, `{"a":1,"a":"x"}`},
		{`{"properties":{"a":{"not":{"oneOf":[{"type":"string"},{"pattern":"^(?=x)"}]}}}}`, `{"a":"xbc"}`},
		{`{"properties":{"a":{"contains":{"pattern":"^(?=x)"},"maxContains":1}}}`, `{"a":["x","y"]}`},
		{`{"properties":{"a":{"minLength":1e30}}}`, `{"a":"x"}`},
		{`{"properties":{"a":{"multipleOf":3}}}`, `{"a":9007199254740993}`},
		{`{"properties":{"a":{"not":{"multipleOf":2}}}}`, `{"a":-9007199254740993}`},
		{`{"properties":{"a":{"exclusiveMaximum":9223372036854775808}}}`, `{"a":9223372036854775807}`},
		{`{"properties":{"a":{"exclusiveMinimum":9007199254740992}}}`, `{"a":9007199254740993}`},
		{`{"properties":{"a":{"not":{"minimum":9007199254740993}}}}`, `{"a":9007199254740992}`},
		{`{"properties":{"a":{"not":{"maximum":-9007199254740993}}}}`, `{"a":-9007199254740992}`},
		{`{"properties":{"a":{"not":{"const":9007199254740993}}}}`, `{"a":9007199254740992}`},
		{`{"properties":{"a":{"not":{"enum":[[{"b":9007199254740993}]]}}}}`, `{"a":[{"b":9007199254740992}]}`},
		{`{"properties":{"a":{"oneOf":[{"const":9007199254740993},{"const":9007199254740992}]}}}`, `{"a":9007199254740992}`},
		{`{"properties":{"a":{"not":{"pattern":"^.$"}}}}`, `{"a":"\r"}`},
		{`{"properties":{"a":{"not":{"pattern":"\\S"}}}}`, `{"a":"\u00a0"}`},
		{`{"properties":{"a":{"pattern":"^[[:alpha:]]$"}}}`, `{"a":":]"}`},
		{`{"patternProperties":{"^\\s$":{}},"additionalProperties":false}`, `{"\u00a0":1}`},
		{`{"properties":{"a":{"pattern":"` + strings.Repeat("(?:a?){100}", 30) + `"}}}`, `{"a":"x"}`},
	} {
		require.Nil(t, first(c[0], c[1]), "%.200s", c[0])
	}
	for schema, args := range map[string]string{ // what is not compared passes
		`{"not":{"required":["a"]}}`:                                                               `{"a":1}`,
		`{"if":{"required":["a"]},"then":{"required":["b"]}}`:                                      `{"a":1}`,
		`{"dependentRequired":{"a":["b"]}}`:                                                        `{"a":1}`,
		`{"propertyNames":{"maxLength":0}}`:                                                        `{"a":1}`,
		`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`:              `{"y":1}`,
		`{"oneOf":[{"required":["a"]},{"properties":{"a":{}}}]}`:                                   `{"a":1}`,
		`{"properties":{"a":{"contains":{"type":"string"}}}}`:                                      `{"a":[1]}`,
		`{"additionalProperties":{"type":"string"}}`:                                               `{"a":1,"a":"x"}`,
		`{"properties":{"a":{"anyOf":[{"properties":{"n":{"type":"string"}},"required":["n"]}]}}}`: `{"a":{"n":1,"n":"x"}}`,
	} {
		require.Nil(t, first(schema, args), schema)
	}
	for schema, args := range map[string]string{ // what is known counts
		`{"oneOf":[{"required":["b"],"pattern":"(?=x)"},{"required":["c"]}]}`: `{"a":1}`,
		`{"properties":{"a":{"const":9007199254740993}}}`:                     `{"a":1}`,
		`{"properties":{"a":{"minimum":1,"maximum":9007199254740991}}}`:       `{"a":9223372036854775807}`,
		`{"properties":{"a":{"multipleOf":3}}}`:                               `{"a":9007199254740991}`,
	} {
		require.NotNil(t, first(schema, args), schema)
	}
}

// A full validator is the judge. It gets no references that may lead back to themselves:
// they can overflow its stack.
func TestCheck_agrees_with_a_validator(t *testing.T) {
	judged, wrong, refused := 0, 0, 0
	property := func(t *rapid.T) {
		drawArguments := func() any { return schematest.DrawJSON(t, 3) }
		m, ok := schematest.DrawJSON(t, 4).(map[string]any)
		withoutReferences(m)
		if !ok || rapid.Bool().Draw(t, "valid") {
			m = drawComparable(t)
			drawArguments = func() any { return map[string]any{"a": drawValue(t, 3), "b": drawValue(t, 3)} }
		}
		schema, err := json.Marshal(m)
		require.NoError(t, err)
		original := new(jsonschema.Schema)
		if json.Unmarshal(schema, original) != nil {
			return
		}
		resolved, err := original.Resolve(nil)
		if err != nil {
			return
		}
		for range 4 {
			args := drawArguments()
			text, err := json.Marshal(args)
			require.NoError(t, err)
			broken := first(string(schema), string(text))
			if resolved.Validate(args) == nil {
				judged++
				require.Nil(t, broken, "%s %s", schema, text)
				continue
			}
			if !comparesAll(m) {
				continue
			}
			if wrong++; broken != nil {
				refused++
			}
		}
	}
	for wrong < enoughWrong {
		rapid.Check(t, property)
	}
	require.NotZero(t, judged)
	require.Greater(t, refused, wrong*3/4, "most of what the validator refuses is refused")
}

// enoughWrong is a sample whose share of refusals does not depend on chance.
const enoughWrong = 1000

// comparesAll reports whether a schema has none of the keywords that are not compared.
func comparesAll(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !comparesAll(e) })
	case map[string]any:
		for k, e := range v {
			switch k {
			case "not", "if", "contains", "dependentSchemas", "propertyNames", "patternProperties", "unevaluatedProperties", "oneOf", "uniqueItems", "maxProperties":
				return false
			}
			if !comparesAll(e) {
				return false
			}
		}
	}
	return true
}

func withoutReferences(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutReferences(e)
		}
	case map[string]any:
		maps.DeleteFunc(v, func(k string, _ any) bool { return k == "$ref" || k == "$dynamicRef" || k == "$schema" || k == "$id" })
		for _, e := range v {
			withoutReferences(e)
		}
	}
}
