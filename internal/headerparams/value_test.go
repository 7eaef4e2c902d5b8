package headerparams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"list_directory":   "list_directory",
		"file:///a b":      "file:///a b",
		" outer":           "=?base64?IG91dGVy?=",
		"line\nbreak":      "=?base64?bGluZQpicmVhaw==?=",
		"grüß":             "=?base64?Z3LDvMOf?=",
		"=?base64?YQ==?=":  "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
		"=?base64?no end ": "=?base64?PT9iYXNlNjQ/bm8gZW5kIA==?=",
	} {
		require.Equal(t, want, Value(text))
	}
}

func TestParamValue(t *testing.T) {
	for raw, want := range map[string]string{`"a"`: "a", `true`: "true", `42`: "42", `-7`: "-7", `1e3`: "1000", `9007199254740991`: "9007199254740991"} {
		got, ok := paramValue([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{``, `null`, `1.5`, `9007199254740993`, `{}`, `[1]`} {
		_, ok := paramValue([]byte(raw))
		require.False(t, ok, raw)
	}
}
