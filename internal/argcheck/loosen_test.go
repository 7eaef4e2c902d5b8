package argcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/schematest"
)

// What is left of a schema refuses nothing that the schema allows.
func TestLoosen_allows_what_the_schema_allows(t *testing.T) {
	for _, c := range [][2]string{
		{`{"properties":{"a":{"type":"number","multipleOf":0.01}}}`, `{"a":19.99}`},
		{`{"properties":{"a":{"type":"array","uniqueItems":true}}}`, `{"a":[9007199254740992,9007199254740993]}`},
		{`{"properties":{"a":{"type":"string","not":{"pattern":"^(?=x)"}}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"not":{"$ref":"#/$defs/p"}}},"$defs":{"p":{"pattern":"^(?=x)"}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"oneOf":[{"type":"string","pattern":"^(?!x)a"},{"type":"string","pattern":"^(?!x)b"}]}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"if":{"pattern":"^(?=x)"},"then":{"maxLength":1}}}}`, `{"a":"abc"}`},
		{`{"allOf":[{"patternProperties":{"^(?=a)":{}}}],"unevaluatedProperties":false}`, `{"a":"abc"}`},
		{`{"patternProperties":{"^(?=a)":{}},"additionalProperties":false}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"type":"string","nullable":true,"enum":["x"]}}}`, `{"a":null}`},
		{`{"properties":{"a":{"type":"int"},"b":{"type":["string","any"]},"c":7,"d":{"minimum":"0"}},"type":5}`, `{"a":1,"b":2,"c":3,"d":-1}`},
		{`{"type":"object","Required":["zz"],"AllOf":[false]}`, `{"a":"1"}`},
		{`{"properties":{"a":{"contains":null},"b":{"contains":7}}}`, `{"a":[],"b":[]}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x","maxLength":1}},"definitions":{"x":{"type":"string"}}}`, `{"a":"abc"}`},
		{`{"properties":{"a":{"contains":{"pattern":"^(?=x)"},"maxContains":1}}}`, `{"a":["x","y"]}`},
		{`{"properties":{"a":{"minLength":1e30}}}`, `{"a":"x"}`},
		{`{"properties":{"a":{"multipleOf":3}}}`, `{"a":9007199254740993}`},
		{`{"properties":{"a":{"not":{"multipleOf":2}}}}`, `{"a":[-9007199254740993],"b":[{"c":-9007199254740993}]}`},
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
		require.Nil(t, compiled(t, c[0]).Check([]byte(c[1])), "%.200s", c[0])
	}
	for schema, args := range map[string]string{ // what is not loosened still counts
		`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}}}`: `{"a":["x",1]}`,
		`{"dependencies":{"a":["b"]}}`:                                        `{"a":1}`,
		`{"dependencies":{"a":{"required":["b"]}}}`:                           `{"a":1}`,
		`{"oneOf":[{"required":["a"]},{"properties":{"a":{}}}]}`:              `{"a":1}`,
		`{"oneOf":[{"required":["b"],"pattern":"(?=x)"},{"required":["c"]}]}`: `{"a":1}`,
		`{"not":{"required":["a"]}}`:                                          `{"a":1}`,
		`{"properties":{"a":{"const":9007199254740993}}}`:                     `{"a":1}`,
		`{"properties":{"a":{"minimum":1,"maximum":9007199254740991}}}`:       `{"a":9223372036854775807}`,
		`{"properties":{"a":{"multipleOf":3}}}`:                               `{"a":9007199254740991}`,
		`{"if":{"required":["a"]},"then":{"required":["b"]}}`:                 `{"a":1}`,
	} {
		require.NotNil(t, compiled(t, schema).Check([]byte(args)), schema)
	}
}

// The validator itself, on the schema as it is, is the judge. Schemas with references are
// left out: they can overflow its stack.
func TestLoosen_of_any_JSON(t *testing.T) {
	judged := 0
	rapid.Check(t, func(t *rapid.T) {
		m, _ := schematest.DrawJSON(t, 4).(map[string]any)
		withoutReferences(m)
		text, err := json.Marshal(m)
		require.NoError(t, err)
		s, err := Compile(text)
		if err != nil {
			return
		}
		original := new(jsonschema.Schema)
		if json.Unmarshal(text, original) != nil {
			return
		}
		resolved, err := original.Resolve(nil)
		if err != nil {
			return
		}
		for range 4 {
			args := schematest.DrawJSON(t, 3)
			if resolved.Validate(args) == nil {
				judged++
				text, err := json.Marshal(args)
				require.NoError(t, err)
				require.Nil(t, s.Check(text), "%s", text)
			}
		}
	})
	require.NotZero(t, judged)
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

// Schemas that would overflow the stack of the validator, or cost it much memory or time.
func TestCheck_of_hostile_schemas(t *testing.T) {
	alternatives := `{"type":"string"}`
	defs := `"d0":{"type":"string"}`
	for level := range 4 {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"$ref":"#/$defs/d%d"},`, level), 10), ",")
		defs += fmt.Sprintf(`,"d%d":{"anyOf":[%s]}`, level+1, list)
	}
	nested := strings.Repeat(`{"allOf":[`, 50) + `{"$ref":"#/$defs/d4"}` + strings.Repeat(`]}`, 50)
	bomb := `{"properties":{"a":` + nested + `,"b":` + alternatives + `},"$defs":{` + defs + `}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range [][2]string{
		{`{"type":"object","AllOf":[{"$Ref":"#"}]}`, `{}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"a":{"$ref":"#"}}}`, `{"a":1}`},
		{bomb, `{"a":[` + strings.Repeat("1,", 100) + `1]}`},
		{`{"properties":{"a":{"pattern":"^` + strings.Repeat("(?:a?){1000}", 30) + `$"}}}`, `{"a":"` + strings.Repeat("a", 10_000) + `"}`},
	} {
		s, err := Compile([]byte(c[0]))
		if err == nil {
			s.Check([]byte(c[1])) // it returns
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20))
}
