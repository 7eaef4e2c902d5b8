package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

func listed(n int, element func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = element(i)
	}
	return strings.Join(list, ",")
}

// TestFormats_bound_what_references_multiply: a server cannot make a request of megabytes
// with a schema of kilobytes, and not the memory that it takes to write one.
func TestFormats_bound_what_references_multiply(t *testing.T) {
	uses := `{"type":"object","properties":{` + listed(1000, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/e"}`, i) }) + `},"$defs":{"e":%s}}`
	long := strings.Repeat("x", 50_000)
	for what, e := range map[string]string{
		"a long description":     `{"description":"` + long + `"}`,
		"an unknown keyword":     `{"x-own":["` + long + `"]}`,
		"the name of a property": `{"properties":{"` + long + `":{}}}`,
		"a long enum":            `{"enum":[` + listed(20_000, func(i int) string { return fmt.Sprint(i) }) + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, notes := formats["openai"](tool("s", "t", "", fmt.Sprintf(uses, e)))
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(100), "megabytes for %s", what)
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.Less(t, len(text), 2<<20, what)
		require.Contains(t, fmt.Sprint(notes), "the rest was left out", what)
		require.Len(t, parametersOf(f)["properties"], 1000, "the names of the parameters stay")
	}
}

// TestFormats_long_lists: elements of long lists are compared by keys. With each element
// compared with each other one, this takes minutes.
func TestFormats_long_lists(t *testing.T) {
	lists := listed(30_000, func(i int) string { return fmt.Sprintf("[%d]", i) })
	alternatives := listed(3000, func(i int) string { return fmt.Sprintf(`{"properties":{"a":{"maxLength":%d}}}`, i) })
	for _, input := range []string{
		`{"type":"object","properties":{"a":{"enum":[` + lists + `]}}}`,
		`{"type":"object","properties":{"a":{"allOf":[{"enum":[` + lists + `]},{"enum":[` + lists + `]}]}}}`,
		`{"type":"object","anyOf":[` + alternatives + `]}`,
	} {
		f, _ := formats["openai"](tool("s", "t", "", input))
		require.Contains(t, parametersOf(f)["properties"], "a")
	}
	names := func(format string) string {
		return listed(20_000, func(i int) string { return fmt.Sprintf(format, i) })
	}
	f, _ := formats["anthropic"](tool("s", "t", "", `{"type":"object","properties":{`+names(`"%d ":{}`)+`},"required":[`+names(`"%d "`)+`]}`))
	require.Empty(t, parametersOf(f)["properties"])
}

// TestFormats_still_take: arguments that a change once refused.
func TestFormats_still_take(t *testing.T) {
	for _, c := range [][2]string{
		{`{"not":{"pattern":"^\\p{Lu}"}}`, `"abc"`},
		{`{"if":{"pattern":"^(?=x)"},"then":{"maxLength":2}}`, `"abc"`},
		{`{"oneOf":[{"pattern":"^\\p{L}"},{"pattern":"^1"}]}`, `"1a"`},
		{`{"allOf":[{"if":{"required":["k"]},"then":{"required":["l"]}},{"if":{"required":["m"]},"else":{"required":["n"]}}]}`, `{"m":1}`},
		{`{"allOf":[{"contains":{"type":"string"}},{"contains":{"type":"number"},"minContains":2}]}`, `["x",1,2]`},
		{`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"xa":"s"}`},
		{`{"patternProperties":{"^\\p{L}":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"xa":"s"}`},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"boolean"}}`, `["x",1,true]`},
		{`{"type":["string","any"]}`, `1`},
		{`{"allOf":[{"type":["string","any"]},{"type":["string","integer"]}]}`, `1`},
		{`{"allOf":[{"type":["int","string"]},{"type":["integer","string"]}]}`, `1`},
		{`{"nullable":true,"anyOf":[{"type":"string"}]}`, `null`},
		{`{"nullable":true,"type":"string","const":"x"}`, `null`},
	} {
		checkTaken(t, `{"type":"object","properties":{"a":`+c[0]+`}}`, `{"a":`+c[1]+`}`)
	}
	checkTaken(t, `{"type":"object","unevaluatedProperties":false,"anyOf":[{"anyOf":[{"properties":{"a":{"type":"string"}}}]}]}`, `{"a":"x"}`)
	checkTaken(t, `{"type":"object","if":{"required":["b"]},"then":{"properties":{"a":{"type":"string"}}},"else":{"properties":{"a":{"type":"number"}}}}`, `{"a":1}`)
}

func checkTaken(t *testing.T, input, args string) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(args), &v))
	for _, provider := range slices.Sorted(maps.Keys(formats)) {
		if provider == "anthropic" && strings.Contains(input, `\\p`) {
			continue // it keeps patterns, and the validator of this test knows no more than Go
		}
		f, _ := formats[provider](tool("s", "t", "", input))
		text, err := json.Marshal(parametersOf(f))
		require.NoError(t, err)
		s := new(jsonschema.Schema)
		require.NoError(t, json.Unmarshal(text, s))
		resolved, err := s.Resolve(nil)
		if strings.Contains(input, "(?=") && err != nil {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, resolved.Validate(v), "%s refuses %s: %s becomes %s", provider, args, input, text)
	}
}

// A regular expression that takes much memory to compile is removed without compiling it.
func TestOpenAI_large_patterns(t *testing.T) {
	for _, p := range []string{strings.Repeat(".{1000}", 140), "(?:" + strings.Repeat("a{1000}", 140) + ")", "[" + strings.Repeat("B-𞤀", 160) + "](?:" + strings.Repeat("(?:b?){1000}", 60) + ")"} {
		text, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "pattern": p}}})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, _ := formats["openai"](tool("s", "t", "", string(text)))
		runtime.ReadMemStats(&after)
		require.NotContains(t, fmt.Sprint(f), "1000")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
	}
}

// Many regular expressions that are small one by one have a bound together.
func TestOpenAI_many_patterns(t *testing.T) {
	fields := map[string]any{}
	for n := range 1000 {
		fields[fmt.Sprint(n)] = map[string]any{"type": "string", "pattern": strings.Repeat("[a-z]?", 160) + fmt.Sprint(n)}
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": fields})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, changed := formats["openai"](tool("s", "t", "", string(text)))
	runtime.ReadMemStats(&after)
	require.Less(t, strings.Count(fmt.Sprint(f), "pattern:"), 20)
	require.Contains(t, fmt.Sprint(changed), "pattern was removed")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}
