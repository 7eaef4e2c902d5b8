package facade

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Plain arguments take a short way. They must be the JSON that encoding/json makes of
// them, apart from the spelling of escapes.
func TestToolArguments_agree_with_encoding_json(t *testing.T) {
	itself := map[string]any{}
	itself["a"] = itself
	deep := map[string]any{}
	for m, i := deep, 0; i < 100; i++ {
		next := map[string]any{}
		m["a"], m = next, next
	}
	for name, args := range map[string]map[string]any{
		"empty":             {},
		"nil map":           nil,
		"text":              {"text": "hello"},
		"sorted":            {"b": 1, "a": 2, "c": 3, "B": 4, "": 5},
		"escapes":           {"<&>\"\\\u2028\x00\x1f\n\t\b\f": "<&>\"\\\u2029\x00\x1f\x7f\n\r/"},
		"other scripts":     {"é": "日本語 😀"},
		"invalid UTF-8":     {"a\xff": "\xc3(\xed\xa0\x80"},
		"numbers":           {"a": 1, "b": int64(math.MinInt64), "c": 0.1, "d": 1e21, "e": 1e-7, "f": math.MaxFloat64, "g": math.Copysign(0, -1)},
		"nested":            {"a": map[string]any{"b": []any{nil, true, "x", map[string]any(nil), []any(nil)}}},
		"deeply nested":     deep,
		"not a number":      {"a": math.NaN()},
		"infinite":          {"a": []any{math.Inf(-1)}},
		"contains itself":   itself,
		"other types":       {"a": json.Number("1e3"), "b": []string{"x"}, "c": struct{ X int }{1}, "d": uint8(3), "e": float32(0.1)},
		"raw JSON":          {"a": json.RawMessage(`{"b": [1, 2]}`)},
		"invalid raw JSON":  {"a": json.RawMessage("1}\n{")},
		"a channel":         {"a": make(chan int)},
		"bytes":             {"a": []byte("abc")},
		"a long plain text": {"a": string(make([]byte, 100_000))},
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := json.Marshal(args)
			if args == nil {
				want = []byte("{}") // null stands for no arguments
			}
			got, err := toolArguments{value: args}.append([]byte("before"))
			require.Equal(t, wantErr == nil, err == nil, "%v, not %v", err, wantErr)
			if err == nil {
				require.Equal(t, "before", string(got[:6]))
				require.True(t, json.Valid(got[6:]))
				require.JSONEq(t, string(want), string(got[6:]))
			}
		})
	}
}

func FuzzToolArguments(f *testing.F) {
	f.Add(`{"a":[1,2.5,null,true,"x\u2028<"],"b":{"c":"\ud800"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var args map[string]any
		if json.Unmarshal([]byte(text), &args) != nil || args == nil {
			return
		}
		got, err := toolArguments{value: args}.append(nil)
		require.NoError(t, err)
		require.JSONEq(t, text, string(got))
		require.NotContains(t, string(got), "\n")
	})
}
