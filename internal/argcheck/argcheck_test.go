package argcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// first returns the first violation of arguments; nil without one.
func first(schema, args string) *Violation {
	r := new(Checker).Check(context.Background(), []byte(schema), []byte(args), Options{})
	if len(r.Violations) == 0 {
		return nil
	}
	return &r.Violations[0]
}

func TestCheck(t *testing.T) {
	const schema = `{"$schema":"http://json-schema.org/draft-04/schema#","$id":"x","type":"object","properties":{
		"path":{"type":"string","minLength":2,"maxLength":9,"pattern":"^/"},"count":{"type":"integer","minimum":1,"maximum":3},
		"mode":{"enum":["fast","slow",null]},"list":{"type":"array","items":{"$ref":"#/$defs/item"},"maxItems":3},
		"ratio":{"type":["number","null"],"exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":0.25},
		"odd":{"pattern":"(?=never)"},"one":{"anyOf":[{"type":"string"},{"type":"object","required":["id"]}]},"fixed":{"const":"x"},
		"all":{"allOf":[{"type":"string"},{"minLength":3}]},"no":{"not":{"type":"string"}},
		"shape":{"oneOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"}}}]},"level":{"anyOf":[{"enum":["low","high"]},{"type":"null"}]},
		"never":false,"both":{"oneOf":[{"type":"string"},{"minLength":1}]},"some":{"contains":{"type":"string"}}},
		"required":["path"],"additionalProperties":false,"$defs":{"item":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	for args, want := range map[string]Violation{
		`{"path":"/a"}`: {},
		`{"path":"/a","count":3,"mode":null,"list":[{"name":"n"}],"ratio":0.5,"odd":"anything","one":{"id":1},"fixed":"x","all":"abc","no":1}`: {},
		`{}`:                            {Path: "path", Rule: "required", Reason: "is missing"},
		`{"pth":"/a"}`:                  {Path: "path", Rule: "required", Reason: `is missing; "pth" is not a parameter`, Similar: []string{"path"}},
		`{"path":"/a","cuont":1}`:       {Path: "cuont", Rule: "additionalProperties", Reason: "is not a parameter", Similar: []string{"count"}},
		`{"path":"/a","zzzzzzzzzzz":1}`: {Path: "zzzzzzzzzzz", Rule: "additionalProperties", Reason: "is not a parameter"},
		`{"path":7}`:                    {Path: "path", Rule: "type", Reason: "must be a string", Found: "an integer"},
		`{"path":"/"}`:                  {Path: "path", Rule: "minLength", Reason: "must have at least 2 characters, and has 1"},
		`{"path":"/secret-value"}`:      {Path: "path", Rule: "maxLength", Reason: "must have at most 9 characters, and has 13"},
		`{"path":"secret"}`:             {Path: "path", Rule: "pattern", Reason: `must match "^/"`},
		`{"path":"/a","count":0}`:       {Path: "count", Rule: "minimum", Reason: "must be at least 1"},
		`{"path":"/a","count":9}`:       {Path: "count", Rule: "maximum", Reason: "must be at most 3"},
		`{"path":"/a","count":1.5}`:     {Path: "count", Rule: "type", Reason: "must be an integer", Found: "a number"},
		`{"path":"/a","mode":"secret"}`: {Path: "mode", Rule: "enum", Reason: `must be one of "fast", "slow", null`},
		`{"path":"/a","list":[{"name":"n"},{"name":[1]}]}`:                       {Path: "list[1].name", Rule: "type", Reason: "must be a string", Found: "an array"},
		`{"path":"/a","list":[{}]}`:                                              {Path: "list[0].name", Rule: "required", Reason: "is missing"},
		`{"path":"/a","list":[{"name":""},{"name":""},{"name":""},{"name":""}]}`: {Path: "list", Rule: "maxItems", Reason: "must have at most 3 items, and has 4"},
		`{"path":"/a","ratio":0}`:                                                {Path: "ratio", Rule: "exclusiveMinimum", Reason: "must be more than 0"},
		`{"path":"/a","ratio":1}`:                                                {Path: "ratio", Rule: "exclusiveMaximum", Reason: "must be less than 1"},
		`{"path":"/a","ratio":0.3}`:                                              {Path: "ratio", Rule: "multipleOf", Reason: "must be a multiple of 0.25"},
		`{"path":"/a","ratio":true}`:                                             {Path: "ratio", Rule: "type", Reason: "must be a number or null", Found: "a boolean"},
		`{"path":"/a","one":{}}`:                                                 {Path: "one.id", Rule: "required", Reason: "is missing"},
		`{"path":"/a","one":1}`:                                                  {Path: "one", Rule: "anyOf", Reason: "must be a string or an object"},
		`{"path":"/a","shape":{"k":"x"}}`:                                        {Path: "shape", Rule: "oneOf", Reason: "must match one of the 2 alternatives of the schema"},
		`{"path":"/a","level":"medium"}`:                                         {Path: "level", Rule: "anyOf", Reason: `must be one of "low", "high", null`},
		`{"path":"/a","fixed":"secret"}`:                                         {Path: "fixed", Rule: "const", Reason: `must be "x"`},
		`{"path":"/a","all":"ab"}`:                                               {Path: "all", Rule: "minLength", Reason: "must have at least 3 characters, and has 2"},
		`{"path":"/a","never":"secret"}`:                                         {Path: "never", Rule: "schema", Reason: "must not be there"},
		`{"path":null}`:                                                          {Path: "path", Rule: "type", Reason: "must be a string", Found: "null"},
		`{"path":{"a":"secret"}}`:                                                {Path: "path", Rule: "type", Reason: "must be a string", Found: "an object"},
	} {
		got := first(schema, args)
		if want.Rule == "" {
			require.Nil(t, got, args)
			continue
		}
		require.NotNil(t, got, args)
		if got.Value != nil {
			require.True(t, json.Valid(got.Value))
			got.Value = nil
		}
		require.Equal(t, want, *got, args)
		require.NotContains(t, fmt.Sprint(*got), "secret", "no values")
	}
	long := first(schema, `{"path":"/a","`+strings.Repeat("x", 5000)+`":1}`)
	require.Less(t, len(long.Path), 200)
	many := `{"properties":{"e":{"enum":["` + strings.Repeat("v", 150) + `","` + strings.Repeat("w", 150) + `","x"]}}}`
	require.Contains(t, first(many, `{"e":1}`).Reason, " and 2 more")
}

// A schema that does not apply to a value is not what the value breaks.
func TestCheck_blames_the_right_argument(t *testing.T) {
	for _, c := range [][3]string{ // schema, arguments, path
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":["x","y"]}`, "a[1]"},
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":[1,"y"]}`, "a[0]"},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}},"required":["b"]}`, `{"a":["x"]}`, "b"},
	} {
		broken := first(c[0], c[1])
		require.NotNil(t, broken, c[0])
		require.Equal(t, c[2], broken.Path, "%s %s", c[0], c[1])
	}
}

// A schema that cannot be used refuses nothing, and nothing is opened for it.
func TestCheck_opens_nothing(t *testing.T) {
	opened := make(chan struct{}, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			opened <- struct{}{}
		}
	}()
	// A file that does match: if it were read, the value would be refused.
	file := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"string"}`), 0o600))
	remote := "http://" + listener.Addr().String() + "/schema.json"
	for schema, why := range map[string]string{
		``: "not valid JSON", `null`: "not an object", `true`: "not an object", `[]`: "not an object", `{"type":`: "not valid JSON",
		`{"properties":{"a":{"$ref":"` + remote + `"}}}`: "another place", `{"$ref":"` + remote + `#/$defs/a"}`: "another place",
		`{"properties":{"a":{"$ref":"file://` + filepath.ToSlash(file) + `"}}}`: "another place", `{"allOf":[{"$ref":"` + filepath.ToSlash(file) + `"}]}`: "another place",
		`{"properties":{"a":{"$ref":"#anchor"}},"$defs":{"a":{"$anchor":"anchor","type":"string"}}}`: "another place",
		`{"properties":{"a":{"$dynamicRef":"#a"}}}`:                                                  "$dynamicRef",
		`{"properties":{"a":{"$id":"` + remote + `","type":"string"}}}`:                              "", `{"properties":{"a":{"$ref":"#/$defs/missing"}}}`: "",
		`{"properties":{"a":{"$ref":"#/$defs/b/$defs/c"}},"$defs":{"b":{"$id":"x","$defs":{"c":{"type":"string"}}}}}`: "",
		strings.Repeat(`{"allOf":[`, 300) + `{}` + strings.Repeat(`]}`, 300):                                          "nested",
		`{"description":"` + strings.Repeat("x", 1<<20) + `"}`:                                                        "longer than",
	} {
		r := new(Checker).Check(t.Context(), []byte(schema), []byte(`{"a":1}`), Options{})
		require.Empty(t, r.Violations, "%.100s", schema)
		require.Contains(t, r.Unchecked, why, "%.100s", schema)
	}
	require.NoError(t, listener.Close())
	<-done
	require.Empty(t, opened, "a server chose an address, and it was opened")
	require.NotNil(t, first(`{"properties":{"a":{"$ref":"`+remote+`"}},"required":["b"]}`, `{"a":1}`), "the rest is compared")
}

// Comparing these would overflow the stack, or take years. Arguments pass then: the server
// decides.
func TestCheck_is_bounded(t *testing.T) {
	wide := `{"$defs":{"d0":{"type":"string"}`
	for i := range 60 {
		wide += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	wide += `},"properties":{"a":{"$ref":"#/$defs/d60"}}}`
	deep := strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)
	for _, c := range [][2]string{
		{`{"$ref":"#"}`, `{}`},
		{`{"$schema":{},"$id":[1]}`, `{}`},
		{`{"allOf":[{"$ref":"#"}]}`, `{}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}`, `{}`},
		{`{"if":{"$ref":"#"},"then":{}}`, `{}`},
		{`{"dependentSchemas":{"a":{"$ref":"#"}}}`, `{"a":1}`},
		{wide, `{"a":1}`},
		{`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, deep},
		{`{"properties":{"a":{"$ref":"#"}}}`, deep},
		{`{"items":{"type":"string"},"type":"array"}`, `[` + strings.Repeat("1,", maxValues) + `1]`},
	} {
		require.Nil(t, first(c[0], c[1]), "%.100s", c[0])
	}
	require.Nil(t, first(`{}`, `not JSON`))
	require.Equal(t, "a.a.n", first(`{"properties":{"a":{"$ref":"#"},"n":{"type":"string"}}}`, `{"a":{"a":{"n":1}}}`).Path)
}

// What a server or a model names reaches no message with characters that change a terminal.
func TestCheck_unsafe_text(t *testing.T) {
	schema := `{"properties":{"e":{"enum":["x\u001b[2J","\u009b2J\u202e"]},"n\u001bx":{}},"required":["r\u001b[2J"],"additionalProperties":false}`
	for _, args := range []string{`{}`, `{"r\u001b[2J":1}`, `{"r\u001b[2J":1,"m\u001bx":1}`, `{"e":1,"r\u001b[2J":1}`, `{"e":"\u001b]0;","r\u001b[2J":1}`} {
		r := new(Checker).Check(t.Context(), []byte(schema), []byte(args), Options{Most: 5})
		require.NotEmpty(t, r.Violations, args)
		for _, v := range r.Violations {
			require.NotContains(t, fmt.Sprint(v.Path, v.Reason, v.Similar), "\x1b")
			require.NotContains(t, fmt.Sprint(v.Path, v.Reason, v.Similar), "\u202e")
		}
	}
}

// A strict check finds all names that the schema does not declare, but none that another part
// of the schema may.
func TestCheck_strict(t *testing.T) {
	problems := func(schema, args string) (paths []string) {
		for _, v := range new(Checker).Check(t.Context(), []byte(schema), []byte(args), Options{Most: 10, Strict: true}).Violations {
			paths = append(paths, v.Path+" "+v.Rule)
		}
		return paths
	}
	require.Equal(t, []string{"b additionalProperties", "c additionalProperties"}, problems(`{"properties":{"a":{}}}`, `{"a":1,"b":1,"c":1}`))
	require.Equal(t, []string{"a.y additionalProperties"}, problems(`{"properties":{"a":{"$ref":"#/$defs/x","description":"d"}},"$defs":{"x":{"properties":{"x":{}}}}}`, `{"a":{"x":1,"y":1}}`))
	for schema, args := range map[string]string{
		`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`:                      `{"a":1,"b":1}`,
		`{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`:                      `{"a":1,"c":1}`,
		`{"properties":{"a":{}},"$ref":"#/$defs/x","$defs":{"x":{"properties":{"b":{}}}}}`: `{"a":1,"b":1}`,
		`{"properties":{"a":{}},"additionalProperties":true}`:                              `{"b":1}`,
		`{"properties":{"a":{}},"dependentSchemas":{"a":{"properties":{"b":{}}}}}`:         `{"a":1,"b":1}`,
		`{"properties":{"a":{}},"if":true,"then":{"properties":{"b":{}}}}`:                 `{"a":1,"b":1}`,
		`{"not":{"properties":{"a":{}},"required":["a"]}}`:                                 `{"b":1}`,
		`{"type":"object"}`: `{"b":1}`,
	} {
		require.Empty(t, problems(schema, args), schema)
	}
	require.Equal(t, []string{"a required", "b required", "c type"}, problems(`{"required":["a","b"],"properties":{"a":{},"b":{},"c":{"type":"null"}}}`, `{"c":1}`), "all, in the order of the rules")
}

// A required property that declares a default may be left out: the server takes that.
func TestCheck_required_property_with_a_default(t *testing.T) {
	for schema, missing := range map[string]int{
		`{"properties":{"a":{"default":1}},"required":["a"]}`:            0,
		`{"properties":{"a":{"default":1},"b":{}},"required":["a","b"]}`: 1,
		`{"properties":{"a":{}},"required":["a"]}`:                       1,
		`{"properties":{"a":true},"required":["a"]}`:                     1,
	} {
		require.Len(t, new(Checker).Check(t.Context(), []byte(schema), []byte(`{}`), Options{Most: 10, Strict: true}).Violations, missing, schema)
	}
	wrong := new(Checker).Check(t.Context(), []byte(`{"properties":{"a":{"default":1,"type":"integer"}},"required":["a"]}`), []byte(`{"a":"x"}`), Options{}).Violations
	require.Len(t, wrong, 1, "a value that is given is compared")
}

// The value of one property is compared by itself.
func TestCheck_of_a_property(t *testing.T) {
	schema := `{"properties":{"a":{"type":"integer"}},"required":["b"]}`
	check := func(name, value string) []Violation {
		return new(Checker).Check(t.Context(), []byte(schema), []byte(value), Options{Property: name}).Violations
	}
	require.Empty(t, check("a", "1"))
	require.Empty(t, check("b", "1"))
	require.Len(t, check("a", `"x"`), 1)
	require.Empty(t, check("a", `"x"`)[0].Path)
}

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
	compare := func(t *rapid.T, m map[string]any, drawArguments func() any) {
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
	rapid.Check(t, func(t *rapid.T) {
		if m, ok := schematest.DrawJSON(t, 4).(map[string]any); ok {
			withoutReferences(m)
			compare(t, m, func() any { return schematest.DrawJSON(t, 3) })
		}
	})
	for wrong < enoughWrong {
		rapid.Check(t, func(t *rapid.T) {
			compare(t, drawComparable(t), func() any { return map[string]any{"a": drawValue(t, 3), "b": drawValue(t, 3)} })
		})
	}
	require.NotZero(t, judged)
	require.Greater(t, refused, wrong*3/4, "most of what the validator refuses is refused")
}

// enoughWrong is a sample whose share of refusals does not depend on chance.
const enoughWrong = 300

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
