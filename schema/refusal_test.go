package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/schema"
)

// TestFormats_refuse_no_arguments_that_the_tool_takes: a model that keeps to what the
// provider gets may send everything that the server's own schema allows.
func TestFormats_refuse_no_arguments_that_the_tool_takes(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		input := map[string]any{"type": "object", "$defs": map[string]any{"x": drawSchema(t, 1), "y": drawSchema(t, 1),
			"tree": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"$ref": "#/$defs/tree"}}, "additionalProperties": false}}}
		object := drawObject(t, 1)
		for _, alternatives := range []string{"anyOf", "oneOf", "allOf", "if", "then"} {
			delete(object, alternatives) // the exception that the package comment names
		}
		maps.Copy(input, object)
		input["properties"] = map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 1)}
		own := resolve(t, input)
		var args []any
		for range 8 {
			if v := drawArguments(t, 3); own.Validate(v) == nil {
				args = append(args, v)
			}
		}
		taken += len(args)
		for _, provider := range slices.Sorted(maps.Keys(formats)) {
			f, _ := formats[provider](tool("s", "t", "", input))
			parameters := resolve(t, parametersOf(f))
			for _, v := range args {
				require.NoError(t, parameters.Validate(v), "%s refuses %v, which the tool takes: %v becomes %v", provider, v, input, f)
			}
		}
	})
	require.NotZero(t, taken, "the test has arguments to send")
}

func resolve(t *rapid.T, m map[string]any) *jsonschema.Resolved {
	text, err := json.Marshal(m)
	require.NoError(t, err)
	s := new(jsonschema.Schema)
	require.NoError(t, json.Unmarshal(text, s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err, string(text))
	return resolved
}

func parametersOf(f map[string]any) map[string]any {
	if inner, ok := f["function"].(map[string]any); ok {
		f = inner
	}
	for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
		if m, ok := f[key].(map[string]any); ok {
			return m
		}
	}
	return nil
}

var drawName = rapid.SampledFrom([]string{"a", "b", "c"})

// drawValues are those that drawn schemas and arguments have in common.
var drawValue = rapid.SampledFrom([]any{"a", "bb", 1.0, 2.0, 2.5, true, nil})

func drawArguments(t *rapid.T, depth int) any {
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		m[drawName.Draw(t, "name")] = drawAny(t, depth-1)
	}
	return m
}

func drawAny(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case depth > 0 && kind == 0:
		return drawArguments(t, depth)
	case depth > 0 && kind == 1:
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, drawAny(t, depth-1))
		}
		return list
	}
	return drawValue.Draw(t, "value")
}

// drawObject draws what an object says about its properties.
func drawObject(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	properties := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		properties[drawName.Draw(t, "name")] = drawSchema(t, depth-1)
	}
	add := func(keyword string, v func() any) {
		if rapid.IntRange(0, 4).Draw(t, keyword) == 0 {
			m[keyword] = v()
		}
	}
	if len(properties) > 0 {
		m["properties"] = properties
	}
	add("required", func() any { return []any{drawName.Draw(t, "name")} })
	add("additionalProperties", func() any {
		if rapid.Bool().Draw(t, "described") {
			return drawSchema(t, depth-1)
		}
		return rapid.Bool().Draw(t, "more")
	})
	add("prefixItems", func() any { return []any{drawSchema(t, depth-1)} })
	add("contains", func() any { return drawSchema(t, depth-1) })
	add("patternProperties", func() any {
		return map[string]any{rapid.SampledFrom([]string{"^a", `^\p{L}$`}).Draw(t, "pattern"): drawSchema(t, depth-1)}
	})
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		add(keyword, func() any { return []any{drawSchema(t, depth-1), drawSchema(t, depth-1)} })
	}
	add("if", func() any { return drawSchema(t, depth-1) })
	add("then", func() any { return drawSchema(t, depth-1) })
	add("not", func() any { return drawSchema(t, 0) })
	add("maxProperties", func() any { return 2.0 })
	return m
}

func drawSchema(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 9).Draw(t, "schema")
	if depth <= 0 || depth == 1 && kind == 3 { // a definition refers to no other, or the validator may never end
		kind = 5 + kind%5
	}
	switch kind {
	case 0, 1:
		return drawObject(t, depth)
	case 2:
		m := drawObject(t, depth)
		m["type"] = "object"
		return m
	case 3:
		return map[string]any{"$ref": "#/$defs/" + rapid.SampledFrom([]string{"x", "y", "tree"}).Draw(t, "ref"), "description": "d"}
	case 4:
		return map[string]any{"type": "array", "items": drawSchema(t, depth-1), "maxItems": 1.0}
	case 5:
		return map[string]any{"enum": []any{drawValue.Draw(t, "value"), drawValue.Draw(t, "value")}}
	case 6:
		return map[string]any{"const": drawValue.Draw(t, "value")}
	case 7:
		return map[string]any{"type": []any{"string", "null"}, "maxLength": 1.0}
	case 8:
		return map[string]any{"type": "number", "exclusiveMinimum": 1.0, "multipleOf": 1.0}
	}
	return rapid.SampledFrom([]any{true, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "boolean"}}).Draw(t, "simple")
}

// TestNames: the name of a function obeys the rules of every provider, belongs to one tool
// only, and leads back to it.
func TestNames(t *testing.T) {
	servers := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`)
	rapid.Check(t, func(t *rapid.T) {
		tools := map[string]mcpvisor.Tool{}
		for range 3 {
			own := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_/.]{1,80}`)).Draw(t, "tool")
			made := tool(servers.Draw(t, "server"), own, "", nil)
			tools[made.Name] = made
		}
		names := map[string]string{}
		for _, made := range tools {
			for provider, format := range formats {
				f, _ := format(made)
				if inner, ok := f["function"].(map[string]any); ok {
					f = inner
				}
				name := f["name"].(string)
				require.Regexp(t, providerRules[provider].name, name)
				require.Contains(t, []string{"", made.Name}, names[name], "two tools have one name")
				names[name] = made.Name
				if server, own, ok := mcpvisor.SplitAlias(name); ok {
					require.Equal(t, made.Name, mcpvisor.Qualify(server, own))
				}
			}
		}
	})
	_, notes := schema.List([]mcpvisor.Tool{{Server: "fs", OriginalName: "list", Name: "fs/list"}}, schema.OpenAI)
	require.Empty(t, notes, "a tool without a definition takes any arguments")
}
