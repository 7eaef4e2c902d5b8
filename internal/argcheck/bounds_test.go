package argcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/pattern"
	"github.com/mcpvisor/mcpvisor/test/schematest"
)

// parts joins n texts with commas.
func parts(n int, one func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = one(i)
	}
	return strings.Join(list, ",")
}

func same(text string) func(int) string { return func(int) string { return text } }

// stepsOf returns how many steps a check takes.
func stepsOf(t *testing.T, schema, args string) int {
	t.Helper()
	k := &check{ctx: context.Background(), patterns: new(pattern.Cache), most: 1, steps: maxSteps, nextLook: maxSteps}
	k.run([]byte(schema), []byte(args), Options{})
	require.False(t, k.stopped, "%.100s", schema)
	return maxSteps - k.steps
}

// Whatever a server can multiply counts.
func TestCheck_counts_steps(t *testing.T) {
	const n = 1000
	long := strings.Repeat("x", n*bytesPerStep)
	name := func(i int) string { return fmt.Sprintf(`"n%d"`, i) }
	member := func(i int) string { return name(i) + `:1` }
	for about, c := range map[string]struct {
		schema, args string
		least        int
	}{
		"names that are required": {`{"required":[` + parts(n, name) + `]}`, `{` + parts(n, member) + `}`, n * n / 2},
		"properties and members":  {`{"properties":{` + parts(n, func(i int) string { return name(i) + `:{}` }) + `}}`, `{` + parts(n, member) + `}`, n * n},
		"alternatives":            {`{"anyOf":[` + parts(n, same(`{"type":"null"}`)) + `,{}]}`, `{}`, n},
		"references":              {`{"allOf":[` + parts(n, same(`{"$ref":"#/$defs/x"}`)) + `],"$defs":{"x":{}}}`, `{}`, 2 * n},
		"what references pass":    {`{"a":{` + parts(n, member) + `,"x":{}},"$ref":"#/a/x"}`, `{}`, n},
		"a long reference":        {`{"$ref":"#/` + long + `"}`, `{}`, n},
		"keywords":                {`{` + parts(n, member) + `}`, `{}`, n},
		"values of enum":          {`{"enum":[` + parts(n, member2list) + `,{}]}`, `{}`, n},
		"a long value of enum":    {`{"properties":{"a":{"enum":["` + long + `y","` + long + `"]}}}`, `{"a":"` + long + `"}`, n},
		"an object of const":      {`{"const":{` + parts(n, member) + `}}`, `{` + parts(n, member) + `}`, n * n},
		"types":                   {`{"type":[` + parts(n, same(`"null"`)) + `,"object"]}`, `{}`, n},
		"items":                   {`{"properties":{"a":{"items":{}}}}`, `{"a":[` + parts(n, same("1")) + `]}`, n},
		"a long text":             {`{"properties":{"a":{"minLength":0}}}`, `{"a":"` + long + `"}`, n},
		"a pattern":               {`{"properties":{"a":{"pattern":"a"}}}`, `{"a":"a"}`, pattern.CompileSteps("a")},
		"a match":                 {`{"properties":{"a":{"pattern":"x{50}"}}}`, `{"a":"` + long + `"}`, 50 * len(long)},
	} {
		require.GreaterOrEqual(t, stepsOf(t, c.schema, c.args), c.least, about)
	}
}

func member2list(i int) string { return fmt.Sprintf(`{"n":[%d]}`, i) }

// A check ends, in little memory, and nothing of it is kept. Without an end, each of these
// would take gigabytes or hours.
func TestCheck_of_hostile_schemas(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf(`"n%d"`, i) }
	patterns := func(n int, text string) string {
		return `{"properties":{"a":{"anyOf":[` + parts(n, func(i int) string { return fmt.Sprintf(`{"pattern":"%d%s"}`, i, text) }) + `]}}}`
	}
	levels := `"d0":{"type":"string"}`
	for i := range 60 {
		levels += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	for about, hostile := range map[string][2]string{
		"names behind references": {`{"allOf":[` + parts(9000, same(`{"$ref":"#/$defs/x"}`)) + `],"$defs":{"x":{"anyOf":[{"required":[` + parts(40_000, name) + `]},{}]}}}`, `{"a":1}`},
		"alternatives":            {`{"properties":{"a":{"$ref":"#/$defs/d60"}},"$defs":{` + levels + `}}`, `{"a":1}`},
		"itself":                  {`{"allOf":[{"$ref":"#"},{"$ref":"#"}],"anyOf":[{"$ref":"#"}]}`, `{}`},
		"large patterns":          {patterns(60, strings.Repeat("(?:x?y{9}){0,9}", 60)), `{"a":"` + strings.Repeat("x", 10_000) + `"}`},
		"folded patterns":         {patterns(60, "(?i)["+strings.Repeat("B-𞤀", 150)+"]"), `{"a":"x"}`},
		"slow patterns":           {patterns(60, "(?:x?){40}(?:x{1,9}){9}y"), `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		"short patterns":          {patterns(20_000, "x"), `{"a":"a"}`},
		"values of enum":          {`{"items":{"enum":[` + parts(30_000, same(`{"a":1}`)) + `]},"type":"array"}`, `[` + parts(30_000, same(`{"b":1}`)) + `]`},
		"objects of the schema":   {`{"enum":[` + parts(349_000, same(`{}`)) + `]}`, `{}`},
		"objects of arguments":    {`{"type":"object"}`, `{"a":[` + parts(349_000, same(`{}`)) + `]}`},
		"a deep schema":           {strings.Repeat(`{"items":`, 100_000) + `{}` + strings.Repeat(`}`, 100_000), `{}`},
		"escapes":                 {`{"required":[` + parts(20_000, same(`"`+strings.Repeat(`\u0061`, 5)+`"`)) + `]}`, `{` + parts(20_000, func(i int) string { return fmt.Sprintf(`"\u0062%d":1`, i) }) + `,"aaaaa":1}`},
	} {
		t.Run(about, func(t *testing.T) {
			var c Checker
			most := int64(1 << 20)
			if strings.Contains(about, "patterns") {
				most = 8 << 20
			}
			var before, after, kept runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			r := c.Check(t.Context(), []byte(hostile[0]), []byte(hostile[1]), Options{})
			runtime.ReadMemStats(&after)
			require.Empty(t, r.Violations)
			require.NotEmpty(t, r.Unchecked)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), "bytes allocated")
			runtime.GC()
			runtime.ReadMemStats(&kept)
			require.Less(t, int64(kept.HeapAlloc)-int64(before.HeapAlloc), most, "bytes kept")
			runtime.KeepAlive(&c)
		})
	}
}

// The end of the context ends a check, which then says nothing.
func TestCheck_looks_at_the_context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	schema := `{"allOf":[` + parts(200, same(`{"$ref":"#/$defs/x"}`)) + `],"not":{},"$defs":{"x":{"anyOf":[` + parts(200, same(`{"type":"null"}`)) + `,{}]}}}`
	require.Greater(t, stepsOf(t, schema, `{}`), 10*stepsPerLook)
	k := &check{ctx: ctx, patterns: new(pattern.Cache), most: 1, steps: maxSteps, nextLook: maxSteps - stepsPerLook}
	k.run([]byte(schema), []byte(`{}`), Options{})
	require.Less(t, maxSteps-k.steps, 2*stepsPerLook)
	require.Empty(t, k.violations())
	require.Empty(t, k.unchecked)
}

// Large arguments of an ordinary call are compared.
func TestCheck_large_arguments(t *testing.T) {
	text := strings.Repeat(`line\n`, 1<<20)
	require.Equal(t, "b", first(`{"properties":{"a":{"type":"string","minLength":1,"enum":["x"]},"b":{"type":"null"}},"required":["b"]}`, `{"a":"`+text+`"}`).Path)
	member := func(i int) string { return fmt.Sprintf(`"n%d":"x"`, i) }
	schema := `{"properties":{"n":{}},"additionalProperties":{"type":"string"},"maxProperties":9000}`
	args := `{"n":1,` + parts(5000, member) + `,"n4999":%s,"n0":"y"}`
	for value, want := range map[string]string{`"y"`: "", `1`: "n4999"} {
		r := new(Checker).Check(t.Context(), []byte(schema), []byte(fmt.Sprintf(args, value)), Options{})
		require.Empty(t, r.Unchecked)
		if want == "" {
			require.Empty(t, r.Violations)
		} else {
			require.Equal(t, want, r.Violations[0].Path)
		}
	}
	long := "1" + strings.Repeat("0", 1<<20)
	require.Nil(t, first(`{"properties":{"a":{"type":"integer","minimum":3}}}`, `{"a":1.`+long+`}`), "a long number is not read")
}

// A number of many digits is not read: strconv.ParseFloat takes up to 70 µs for one that lies
// between two numbers of float64, which a schema can have thousands of times.
func TestCheck_numbers_of_many_digits(t *testing.T) {
	read := strings.Repeat("1", maxDigits)
	for number, compared := range map[string]bool{read: true, read + "1": false, "0." + read: false, "1." + read[1:] + "e-290": true, "-1" + strings.Repeat("0", 99) + "e-290": false} {
		var c Checker
		r := c.Check(t.Context(), []byte(`{"properties":{"a":{"enum":[`+number+`]}}}`), []byte(`{"a":5}`), Options{})
		require.Equal(t, compared, len(r.Violations) == 1, "%s in the schema", number)
		r = c.Check(t.Context(), []byte(`{"properties":{"a":{"maximum":-1e300}}}`), []byte(`{"a":`+number+`}`), Options{})
		require.Equal(t, compared, len(r.Violations) == 1, number)
	}
}

// Whatever a server sends as a schema, and a model as arguments, comparing them ends, and
// its words have a rule.
func TestCheck_of_any_schema(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(map[string]any{"type": "object",
			"properties": map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 3)},
			"$defs":      map[string]any{"x": drawSchema(t, 2), "y": drawSchema(t, 2)}})
		require.NoError(t, err)
		for range 4 {
			args, err := json.Marshal(map[string]any{"a": drawValue(t, 3), "b": drawValue(t, 3)})
			require.NoError(t, err)
			if broken := first(string(schema), string(args)); broken != nil {
				refused++
				require.NotEmpty(t, broken.Rule)
				require.NotEmpty(t, broken.Reason)
			}
		}
	})
	require.NotZero(t, refused, "the test has arguments to refuse")
}

// Text that is no schema at all never ends the process.
func TestCheck_of_any_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema, err := json.Marshal(schematest.DrawJSON(t, 4))
		require.NoError(t, err)
		args, err := json.Marshal(drawValue(t, 3))
		require.NoError(t, err)
		first(string(schema), string(args))
	})
}

// drawComparable draws a schema whose references end, and which a validator reads as it is.
func drawComparable(t *rapid.T) map[string]any {
	end := func() map[string]any {
		m := drawSchema(t, 2)
		withoutReferences(m)
		return m
	}
	m := map[string]any{"properties": map[string]any{"a": drawSchema(t, 3), "b": drawSchema(t, 3)}, "$defs": map[string]any{"x": end(), "y": end()}}
	withoutOtherReferences(m)
	return m
}

// withoutOtherReferences leaves the references to $defs.
func withoutOtherReferences(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutOtherReferences(e)
		}
	case map[string]any:
		if ref, _ := v["$ref"].(string); ref != "" && !strings.HasPrefix(ref, "#/$defs/") {
			delete(v, "$ref")
		}
		for _, e := range v {
			withoutOtherReferences(e)
		}
	}
}

var names = rapid.SampledFrom([]string{"a", "b", "c"})

// drawSchema draws a valid schema, which may refer to itself in any way.
func drawSchema(t *rapid.T, depth int) map[string]any {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth == 0 {
		kind = 6 + kind%4
	}
	inner := func() any { return drawSchema(t, depth-1) }
	switch kind {
	case 0, 1:
		return map[string]any{"properties": map[string]any{names.Draw(t, "name"): inner()}, "required": []any{names.Draw(t, "name")},
			"additionalProperties": rapid.Bool().Draw(t, "more")}
	case 2:
		return map[string]any{rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf", "prefixItems"}).Draw(t, "list"): []any{inner(), inner()}}
	case 3:
		return map[string]any{rapid.SampledFrom([]string{"not", "items", "contains", "additionalProperties", "unevaluatedProperties", "propertyNames"}).Draw(t, "one"): inner()}
	case 4:
		return map[string]any{"if": inner(), "then": inner(), "else": inner()}
	case 5:
		return map[string]any{"patternProperties": map[string]any{rapid.SampledFrom([]string{"^a", `\p{L}`, "(?!b)"}).Draw(t, "pattern"): inner()},
			"dependentSchemas": map[string]any{names.Draw(t, "name"): inner()}}
	case 6:
		return map[string]any{"$ref": rapid.SampledFrom([]string{"#", "#/$defs/x", "#/$defs/y", "#/properties/a"}).Draw(t, "ref")}
	case 7:
		return map[string]any{"enum": []any{drawValue(t, 0), drawValue(t, 0)}}
	case 8:
		return map[string]any{"minimum": 1.0, "maxLength": 1.0, "maxItems": 1.0, "maxProperties": 1.0, "uniqueItems": true}
	}
	return map[string]any{"type": rapid.SampledFrom([]any{"string", "integer", "object", "array", []any{"null", "number"}}).Draw(t, "type")}
}

func drawValue(t *rapid.T, depth int) any {
	if depth > 0 {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return []any{drawValue(t, depth-1), drawValue(t, depth-1)}
		case 1:
			return map[string]any{names.Draw(t, "name"): drawValue(t, depth-1), names.Draw(t, "name"): drawValue(t, depth-1)}
		}
	}
	return rapid.SampledFrom([]any{nil, true, 0.0, 2.5, "a", "long"}).Draw(t, "value")
}
