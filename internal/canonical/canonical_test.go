package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		name, x, y string
		equal      bool
	}{
		{"members in another order", `{"a":1,"b":{"c":[1],"d":2}}`, `{"b":{"d":2,"c":[1]},"a":1}`, true},
		{"white space", ` {"a" : [ 1 ,2 ] } `, `{"a":[1,2]}`, true},
		{"arrays keep their order", `["a","b"]`, `["b","a"]`, false},
		{"an escaped letter", `{"\u0041":"\u0041"}`, `{"A":"A"}`, true},
		{"an escaped slash", `"a\/b"`, `"a/b"`, true},
		{"an escaped pair", `"\ud83d\ude00"`, `"😀"`, true},
		{"a quote", `"\""`, `"\u0022"`, true},
		{"a quote is no end", `["a","b"]`, `["a\",\"b"]`, false},
		{"halves of pairs", `"\ud83d"`, `"\ud83e"`, false},
		{"a half and the replacement", `"\ud83d"`, `"\ufffd"`, false},
		{"bytes that are no text", "\"\xff\"", "\"\xfe\"", false},
		{"forms of a letter", "\"\u00e9\"", "\"e\u0301\"", false},
		{"numbers as text", `1.0`, `1`, false},
		{"an exponent", `1e2`, `100`, false},
		{"a number and a string", `1`, `"1"`, false},
		{"beyond 53 bits", `9007199254740993`, `9007199254740992`, false},
		{"null and absent", `{"a":null}`, `{}`, false},
		{"an empty array and object", `[]`, `{}`, false},
		{"an empty string first", `["","a"]`, `["a"]`, false},
		{"a member twice", `{"a":1,"a":2}`, `{"a":2}`, false},
		{"members twice in another order", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"a member twice among others", `{"a":1,"b":0,"a":2}`, `{"b":0,"a":1,"\u0061":2}`, true},
		{"cases of a name", `{"a":1,"A":2}`, `{"a":2,"A":1}`, false},
		{"not JSON", `{"a":1`, `{"a": 1`, false},
		{"the same that is not JSON", `{"a"`, `{"a"`, true},
		{"nothing", ``, `null`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.equal, Equal([]byte(c.x), []byte(c.y)))
			require.Equal(t, c.equal, Equal([]byte(c.y), []byte(c.x)))
			require.Equal(t, c.equal, Sum([]byte(c.x)) == Sum([]byte(c.y)))
		})
	}
}

// shuffled writes a value with its members in a random order, and with spaces and escapes.
func shuffled(t *rapid.T, text []byte) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	switch text[0] {
	case '{':
		var members []string
		require.NoError(t, jsonscan.EachMember(text, func(key string, value []byte) error {
			quoted, _ := json.Marshal(key)
			members = append(members, string(quoted)+space+":"+shuffled(t, value))
			return nil
		}))
		return "{" + space + strings.Join(rapid.Permutation(members).Draw(t, "order"), ","+space) + "}"
	case '[':
		var items []string
		jsonscan.EachItem(text, func(item []byte) bool { items = append(items, shuffled(t, item)); return true })
		return "[" + strings.Join(items, space+",") + "]"
	case '"':
		var s string
		require.NoError(t, json.Unmarshal(text, &s))
		if rapid.Bool().Draw(t, "escaped") && s != "" && s[0] < 0x80 {
			quoted, _ := json.Marshal(s[1:])
			return fmt.Sprintf(`"\u%04x%s`, s[0], quoted[1:])
		}
	}
	return string(text)
}

// The form is JSON of the same value, the form of itself, and the same for all orders of members.
func TestAppend_properties(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int().AsAny(), rapid.StringOf(rapid.RuneFrom([]rune("ab\"\\{}[],:< \né\u2028"))).AsAny()}
		if depth > 0 {
			kinds = append(kinds, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), rapid.MapOfN(rapid.StringMatching(`[a-c"\\é]{0,3}`), value(depth-1), 0, 4).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value(4).Draw(t, "value"))
		require.NoError(t, err)
		form := Append([]byte("before "), []byte(shuffled(t, text)))
		form, found := bytes.CutPrefix(form, []byte("before "))
		require.True(t, found)
		require.Equal(t, string(Append(nil, text)), string(form))
		require.Equal(t, string(Append(nil, form)), string(form))
		require.JSONEq(t, string(text), string(form))
	})
}

// What a peer sends costs a bounded number of allocations and bytes, whatever its shape. Beyond the
// bounds only the same bytes are equal.
func TestAppend_is_bounded(t *testing.T) {
	many := func(n int, reverse bool) []byte {
		var b bytes.Buffer
		for i := range n {
			if reverse {
				i = n - 1 - i
			}
			fmt.Fprintf(&b, `,"%s%06d":0`, strings.Repeat("x", 10), i)
		}
		return append(append([]byte{'{'}, b.Bytes()[1:]...), '}')
	}
	require.True(t, Equal(many(50_000, false), many(50_000, true)))
	values := strings.Repeat("0,", maxValues)
	require.False(t, Equal([]byte("["+values+"0]"), []byte("[ "+values+"0]")), "too many values")
	same := []byte("{" + strings.TrimSuffix(strings.Repeat(`"a":0,`, 50_000), ",") + "}")
	require.Equal(t, string(same), string(Append(nil, same)))
	deep := func(n int, x string) []byte {
		return []byte(strings.Repeat(`[`, n) + x + strings.Repeat(`]`, n))
	}
	require.True(t, Equal(deep(900, `{"a":1,"b":2}`), deep(900, `{"b":2,"a":1}`)))
	require.False(t, Equal(deep(100_000, `{"a":1,"b":2}`), deep(100_000, `{"b":2,"a":1}`)), "too deep")
	long := `"` + strings.Repeat("x", maxBytes) + `"`
	require.False(t, Equal([]byte(`{"a":1,"b":`+long+`}`), []byte(`{"b":`+long+`,"a":1}`)), "too long")
	for _, text := range []string{string(deep(100_000, "")), strings.Repeat(`{"a":`, 100_000), `{"a":` + long + `}`} {
		input := []byte(text)
		require.Less(t, testing.AllocsPerRun(1, func() { Append(nil, input) }), 40.0)
	}
}
