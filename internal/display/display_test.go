package display

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// evil holds one character of each class that must not reach a terminal.
const evil = "a\x1b]0;title\x07b\x9bc\u009b31md\x7f\u2028e\tf\u202eg\u2066h\u200fi\u061cj\U000E0041k\n"

func TestText(t *testing.T) {
	require.Equal(t, "a]0;titleb\uFFFDc31mde\tfghijk\n", Text(evil))
	require.Equal(t, "שלום 👩\u200d👩\u200d👧 می\u200cخواهم", Text("שלום 👩\u200d👩\u200d👧 می\u200cخواهم"), "what a script needs stays")
}

func TestLine(t *testing.T) {
	require.Equal(t, "a]0;titleb\uFFFDc31md e fghijk", Line(evil))
}

func TestLine_of_server_text(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"grüß\u3000wide 👩‍💻":     "grüß\u3000wide 👩‍💻",
		"\x1b]0;owned\a\x1b[2J":  "]0;owned[2J",
		"one\r\nlevel=info two":  "one  level=info two",
		"\u009b31mred":           "31mred",
		"a\u2028b\u2029c":        "a b c",
		"user\u202egpj.exe":      "usergpj.exe",
		" \x00bad \xff\xfe utf ": "bad \uFFFD utf",
	} {
		require.Equal(t, want, Line(text), "%q", text)
	}
}

func TestLine_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := Line(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text"))
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || Line(got) != got {
			t.Fatalf("%q", got)
		}
	})
}

func TestPrefix(t *testing.T) {
	require.Equal(t, "abc", Prefix("abc", 3))
	require.Equal(t, "日", Prefix("日本", 5), "no half of a character")
	require.Empty(t, Prefix("日本", 2))
	require.Empty(t, Prefix("abc", 0))
}

func TestShorten(t *testing.T) {
	require.Equal(t, "abc", Shorten("abc", 3))
	for size := 20; size < 30; size++ {
		got := Shorten(strings.Repeat("日本", 30), size)
		require.LessOrEqual(t, len(got), size)
		require.True(t, utf8.ValidString(got))
		require.Contains(t, got, "(cut)")
	}
}

func TestCount(t *testing.T) {
	require.Equal(t, "0 tools, 1 prompt, 2 resources", Count(0, "tool")+", "+Count(uint64(1), "prompt")+", "+Count(2, "resource"))
}

func TestWithoutColors_keeps_what_only_looks_like_a_color(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m": "red", "\x1b[1;38;5;9mred\x1b[K": "red", "[31mred[39m": "red", "rate[5m]": "rate[5m]", "\x1b[": "\x1b[", "[": "[", "a[3": "a[3", "[x]": "[x]", "": "",
	} {
		require.Equal(t, want, WithoutColors(text), "%q", text)
	}
}
