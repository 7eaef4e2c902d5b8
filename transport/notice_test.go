package transport

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTextOf(t *testing.T) {
	for data, want := range map[string]string{
		`"plain"`: "plain", `"a\nb\u00e9"`: "a\nb\u00e9", `{"a":1}`: `{"a":1}`, `7`: "7", `""`: "", `null`: "null",
	} {
		require.Equal(t, want, textOf([]byte(data)))
	}
	rapid.Check(t, func(t *rapid.T) {
		// Long ones are cut anywhere, in the middle of an escape as well.
		unit := rapid.SampledFrom([]string{"x", "\n", "\x00", "\"", `\`, "é", "😀"}).Draw(t, "unit")
		shift := rapid.StringN(0, 12, 12).Draw(t, "shift")
		text := shift + strings.Repeat(unit, 4*maxLogText)
		for _, raw := range [][]byte{mustMarshal(text), []byte(`{"a":` + string(mustMarshal(text)) + `}`)} {
			got := textOf(raw)
			if len(got) > 4*maxLogText+utf8.UTFMax {
				t.Fatalf("%d bytes", len(got))
			}
			if raw[0] == '"' && (!strings.HasPrefix(strings.ToValidUTF8(text, "\uFFFD"), strings.TrimRight(got, "\uFFFD")) || !utf8.ValidString(got) || len(got) < maxLogText/2) {
				t.Fatalf("%d bytes: %.40q … %q", len(got), got, got[max(0, len(got)-20):])
			}
		}
	})
}

func mustMarshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
