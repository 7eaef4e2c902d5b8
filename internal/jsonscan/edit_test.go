package jsonscan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values are replaced or removed, and all other bytes stay.
func TestEdit(t *testing.T) {
	edit := func(name string, value []byte) []byte {
		switch {
		case name == "drop", string(value) == `"drop"`:
			return nil
		case name == "new":
			return []byte("[2]")
		}
		return value
	}
	for text, want := range map[string]string{
		` {"a" : 1 , "new":{"x":","}, "b":2}`: ` {"a" : 1 , "new":[2], "b":2}`,
		`{"drop":1,"a": 1}`:                   `{"a": 1}`,
		`{"a":1, "drop":{"a":[1,2]} , "b":2}`: `{"a":1,  "b":2}`,
		`{"a":"," , "drop":1 }`:               `{"a":","  }`,
		`{"drop":1,"drop":2}`:                 `{}`,
		`{"drop":1,"new":1,"drop":2}`:         `{"new":[2]}`,
		`{"\u0064rop":1,"n\u0065w":0}`:        `{"n\u0065w":[2]}`,
		`["a","drop",1,"drop"]`:               `["a",1]`,
		`["drop"]`:                            `[]`,
		`{}`:                                  `{}`,
		`{"a":{"drop":1}}`:                    `{"a":{"drop":1}}`,
		`1`:                                   `1`,
	} {
		got := Edit([]byte(text), edit)
		require.Equal(t, want, string(got), text)
	}
	same := []byte(`{"a":1}`)
	require.Same(t, &same[0], &Edit(same, edit)[0], "no copy without a change")
	require.Equal(t, `{"a":2}`, string(ReplaceMember(same, "a", []byte("2"))))
	require.Equal(t, `{"a":1}`, string(ReplaceMember(same, "b", []byte("2"))))
}

func TestObject(t *testing.T) {
	var o, more Object
	require.Equal(t, `{}`, string(o.Close()))
	o.Add("a\"", []byte("1"))
	o.AddAll(more)
	more.Add("b", []byte("2"))
	o.AddAll(more)
	empty := OpenObject([]byte(" { } "))
	empty.Add("b", []byte("1"))
	require.Equal(t, `{"b":1}`, string(empty.Close()))
	again := OpenObject(o.Close())
	again.Add("c", []byte("{}"))
	require.Equal(t, `{"a\"":1,"b":2,"c":{}}`, string(again.Close()))
}

// Some servers end a line at U+2028 and U+2029. Other characters with the same first byte
// stay as they are, and cost nothing.
func TestOneLine_separators(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\":\"\u2028\u2029\"}":               `{"a":"\u2028\u2029"}`,
		"{\"\u2029\":\n\"x\u2028\u2026\"}\u2028": `{"\u2029": "x\u2028` + "\u2026" + `"}\u2028`,
		"\xe2\x80":                               "\xe2\x80",
		"\xe2\xe2\x80\xa8":                       "\xe2" + `\u2028`,
	} {
		given := []byte(text)
		require.Equal(t, want, string(OneLine(given)))
		require.Equal(t, text, string(given), "the slice of the caller is not changed")
	}
	plain := []byte(strings.Repeat("\u2026 \u2014", 100))
	require.Zero(t, testing.AllocsPerRun(10, func() { OneLine(plain) }))
}
