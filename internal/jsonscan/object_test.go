package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEachMember(t *testing.T) {
	type member struct{ key, value string }
	for text, want := range map[string][]member{
		`{}`:                         nil,
		` { } `:                      nil,
		`{"a":1,"b":[2, 3]}`:         {{"a", "1"}, {"b", "[2, 3]"}},
		` {"\u0061" : null , "":{}}`: {{"a", "null"}, {"", "{}"}},
		`{"a":1,"a":2}`:              {{"a", "1"}, {"a", "2"}},
		"{\"\xff\":0}":               {{"\uFFFD", "0"}},
	} {
		var got []member
		require.NoError(t, EachMember([]byte(text), func(key string, value []byte) error {
			got = append(got, member{key, string(value)})
			return nil
		}), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{``, `null`, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1 "b":2}`, `{a:1}`} {
		err := EachMember([]byte(text), func(string, []byte) error { return nil })
		require.ErrorIs(t, err, ErrNotObject, text)
	}
	enough := errors.New("enough")
	calls := 0
	err := EachMember([]byte(`{"a":1,"b":2}`), func(string, []byte) error { calls++; return enough })
	require.Same(t, enough, err)
	require.Equal(t, 1, calls)
}

func TestEachItem(t *testing.T) {
	for text, want := range map[string][]string{
		`[]`: nil, ` [ ] `: nil, `[1, "x",{"a":[]}]`: {"1", `"x"`, `{"a":[]}`}, `[1,}`: {"1"}, ``: nil,
	} {
		var got []string
		EachItem([]byte(text), func(item []byte) bool {
			got = append(got, string(item))
			return true
		})
		require.Equal(t, want, got, text)
	}
	calls := 0
	EachItem([]byte(`[1,2,3]`), func([]byte) bool { calls++; return calls < 2 })
	require.Equal(t, 2, calls)
}

func TestReadString(t *testing.T) {
	for _, text := range []string{`"a"`, `""`, `"\u00e9\n"`, "\"\xff\"", `null`} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		got, err := ReadString([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{`7`, `{}`, `"a`, `"a"b`, ``} {
		_, err := ReadString([]byte(text))
		require.EqualError(t, err, "is not a string", text)
	}
}

func TestReadNumber(t *testing.T) {
	for text, want := range map[string]float64{`0`: 0, `-1.5e3`: -1500, `null`: 0} {
		got, err := ReadNumber([]byte(text))
		require.NoError(t, err, text)
		require.InDelta(t, want, got, 0, text)
	}
	for _, text := range []string{`x`, ``, `"7"`, `{}`, `01`, `1e999`} {
		_, err := ReadNumber([]byte(text))
		require.Error(t, err, text)
	}
}

// anyJSON generates a JSON value, nested at most depth levels.
func anyJSON(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Float64Range(-1e9, 1e9).AsAny(),
		rapid.StringOf(rapid.RuneFrom([]rune("ab\"\\{}[],: \t\nä€"))).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(anyJSON(depth-1), 0, 3).AsAny(),
			rapid.MapOfN(rapid.StringMatching(`[a-z{}\[\],:]{0,4}`), anyJSON(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// EachMember finds the members that encoding/json finds.
func TestEachMember_agrees_with_encoding_json(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.StringMatching(`[a-z{}\[\],:]{0,6}`), anyJSON(3), 0, 5).Draw(t, "object")
		text, err := json.Marshal(object)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			require.NoError(t, json.Indent(&b, text, "\t", " "))
			text = b.Bytes()
		}
		got := map[string]json.RawMessage{}
		require.NoError(t, EachMember(text, func(key string, value []byte) error {
			got[key] = value
			return nil
		}))
		want := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(text, &want))
		require.Equal(t, want, got)
	})
}
