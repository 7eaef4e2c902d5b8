package argcheck

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pattern matches what it matches in ECMA-262.
func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		matches       bool
	}{
		{`^[\w\s-]+$`, "a\u00a0b-c", true},
		{`^[\w\s-]+$`, "a+b", false},
		{`^[\s-a]+$`, "\v-a\u3000", true},
		{`^[\s-a]+$`, "_", false},
		{`^\s*$`, " \t\r\n\v\f\ufeff\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000\u00a0", true},
		{`\s`, "\u0085\u200b\u180e\x1c", false},
		{`\S`, "\u00a0\v\ufeff", false},
		{`[\S\n]`, "\u2003", false},
		{`^[^\s]\S$`, "\u200b😀", true},
		{`^[^\S]$`, "\u2003", true},
		{`^a.b$`, "a\rb", false},
		{`^a.b$`, "a\u2028b", false},
		{`^a.b$`, "a😀b", true},
		{`^[.]\.$`, "..", true},
		{`^[.]\.$`, "x.", false},
		{`^[\]\\a]+$`, `]\\a`, true},
		{`^(?:a|(?<n>b))\x41\d{2}\p{Lu}\/\-$`, "bA12É/-", true},
	} {
		translated, ok := translate(c.pattern)
		require.True(t, ok, c.pattern)
		require.Equal(t, c.matches, regexp.MustCompile(translated).MatchString(c.text), "%s %q", c.pattern, c.text)
		schema, err := json.Marshal(map[string]any{"properties": map[string]any{"a": map[string]any{"pattern": c.pattern}}})
		require.NoError(t, err)
		args, err := json.Marshal(map[string]any{"a": c.text})
		require.NoError(t, err)
		broken := compiled(t, string(schema)).Check(args)
		require.Equal(t, c.matches, broken == nil, "%s %q", c.pattern, c.text)
		if broken != nil {
			require.Contains(t, broken.Reason, strconv.Quote(c.pattern), "the words of the schema")
		}
	}
	for _, p := range []string{`\Aa`, `a\z`, `\Qa.b\E`, `\a`, `^[[:alpha:]]$`, `[[:^space:]]`, `[]a]`, `[^]a]`, `\x{41}`, `\101`, `\pL`, `(?s).`, `(?m)^a`, `(?U)a`, `(?=a)`, `[`, `\`} {
		_, ok := translate(p)
		require.False(t, ok, p)
	}
}
