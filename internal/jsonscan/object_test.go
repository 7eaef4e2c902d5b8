package jsonscan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
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

var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e5`, `1e+5`, `1E-5`, `1e`, `1e+`,
	`""`, `"a"`, `"\n"`, `"\x"`, `"\u12"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx\ude00"`, "\"\x01\"", "\"\xff\"", `"abcdefgh\"ijklmnop"`,
	`"abcdefghi`, `"a\`, `{}`, `[]`, `{ }`, `[ ]`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `[1,2]`, `[1,]`, `[,1]`, `{]`, `[}`, `[1}`, `[,]`, `{,}`, `[1 2]`, `{"a":1 "b":2}`, `1e400`, `[-1e400]`, `{"a":1,"a":[true,false,null]}`, `{"a":[1}`,
	` {"a" : [ 1 , {"b":"c\\"} ] , "d":null } `, `{"a":1} x`, `[[[[]]]]`, `"héllo wörld, long enough for a word"`,
	strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":[`, 200) + "1" + strings.Repeat("]}", 200),
	strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
}

func TestScanner_agrees_with_encoding_json(t *testing.T) {
	for _, text := range texts {
		requireAgreement(t, []byte(text))
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts[:len(texts)-2] {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { requireAgreement(t, text) })
}

func requireAgreement(t *testing.T, text []byte) {
	t.Helper()
	require.Equal(t, json.Valid(text), Valid(text), "%.200q", text)
	var whole any
	wrong := json.Unmarshal(text, &whole)
	got, err := DecodeContext(context.Background(), text)
	require.Equal(t, wrong == nil, err == nil, "%.200q: %v", text, err)
	if wrong == nil {
		require.Equal(t, whole, got, "%.200q", text)
	}
	var want string
	s := Scanner{Text: text}
	quoted, escaped, ok := s.String()
	if !ok {
		return
	}
	require.NoError(t, json.Unmarshal(quoted, &want))
	require.Equal(t, want, Unquote(quoted, escaped))
}

// Whatever ends or spoils a string is found at each place: several bytes are looked at
// together.
func TestString_special_at_each_place(t *testing.T) {
	for _, special := range []string{`"`, `\"`, `\x`, "\x1f", "\x00", "\x7f", "\x80", "é", "\xa2", "\xdc", " ", "!", "]"} {
		for before := range 2*plainChunk + 10 {
			for _, after := range []int{0, 7, plainChunk + 3} {
				text := `"` + strings.Repeat("a", before) + special + strings.Repeat("b", after) + `"`
				requireAgreement(t, []byte(text))
				s, known := Scanner{Text: []byte(text)}, Scanner{Text: []byte(text)}
				quoted, escaped, ok := s.String()
				if !ok || !json.Valid([]byte(text)) {
					continue
				}
				got, gotEscaped, ok := known.KnownString()
				require.True(t, ok)
				require.Equal(t, string(quoted), string(got))
				require.Equal(t, escaped, gotEscaped)
				require.Equal(t, s.Pos, known.Pos)
			}
		}
	}
	for _, text := range []string{``, `a`, `"`, `"abc`, `"\"`} {
		s := Scanner{Text: []byte(text)}
		_, _, ok := s.KnownString()
		require.False(t, ok, text)
	}
}

func TestValue_stops_at_its_end(t *testing.T) {
	s := Scanner{Text: []byte(`{"a":[1,"x"]} tail`)}
	text, ok := s.Value()
	require.True(t, ok)
	require.Equal(t, `{"a":[1,"x"]}`, string(text))
	require.False(t, s.AtEnd())
}

func BenchmarkValid(b *testing.B) {
	for name, text := range map[string]string{
		"plain":   `{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum dolor ", 5000) + `"}]}`,
		"escaped": `{"content":[{"type":"text","text":"` + strings.Repeat(`{\"a\":\"b\"}\n`, 5000) + `"}]}`,
		"numbers": `[` + strings.Repeat(`{"a":1.5,"b":[1,2,3]},`, 5000) + `0]`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if !Valid([]byte(text)) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

// valueOf returns the value of a node, as Decode would.
func valueOf(t *Tree, i int) any {
	switch t.First(i) {
	case '{':
		m := map[string]any{}
		for name := i + 1; name < t.Next(i); name = t.Next(name + 1) {
			m[t.String(name)] = valueOf(t, name+1)
		}
		return m
	case '[':
		list := []any{}
		for item := i + 1; item < t.Next(i); item = t.Next(item) {
			list = append(list, valueOf(t, item))
		}
		return list
	case '"':
		return t.String(i)
	case 't', 'f':
		return t.First(i) == 't'
	case 'n':
		return nil
	}
	n, _ := t.Number(i)
	return n
}

// A tree has the values that Decode returns, whatever it held before.
func TestTree_agrees_with_Decode(t *testing.T) {
	var tree Tree
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(anyJSON(3).Draw(t, "value"))
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "broken") { // at any place
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text = append(text[:at:at], text[at+1:]...)
		}
		text = append([]byte(" "), append(text, '\n')...)
		want, err := DecodeContext(context.Background(), text)
		broken := tree.Parse(context.Background(), text, 1<<16)
		require.Equal(t, err == nil, broken == nil, "%s", text)
		if err == nil {
			require.Equal(t, want, valueOf(&tree, 0), "%s", text)
			require.Equal(t, strings.TrimSpace(string(text)), string(tree.Text(0)))
		}
	})
}

func TestTree_Parse_is_bounded(t *testing.T) {
	var tree Tree
	require.NoError(t, tree.Parse(t.Context(), []byte(`{"a":[1,2]}`), 5))
	require.ErrorIs(t, tree.Parse(t.Context(), []byte(`{"a":[1,2,3]}`), 5), ErrTooManyValues)
	require.LessOrEqual(t, tree.Cap(), 8)
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	require.NoError(t, tree.Parse(t.Context(), deep(maxTreeDepth), 1<<20))
	require.ErrorIs(t, tree.Parse(t.Context(), deep(maxTreeDepth+1), 1<<20), ErrTooDeep)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, tree.Parse(ended, []byte("["+strings.Repeat("1,", checkEvery)+"1]"), 1<<20), context.Canceled)
}
