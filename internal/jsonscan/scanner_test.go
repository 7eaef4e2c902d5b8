package jsonscan

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
