package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
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
		{`(?i)^a.*\s(?i:b)$`, "A! B", true},
	} {
		translated, err := Translate(c.pattern)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.matches, regexp.MustCompile(translated).MatchString(c.text), "%s %q", c.pattern, c.text)
		require.Equal(t, c.matches, new(Cache).Compile(c.pattern).Matches(c.text), "%s %q", c.pattern, c.text)
	}
	for _, p := range []string{`\Aa`, `a\z`, `\Qa.b\E`, `\a`, `^[[:alpha:]]$`, `[[:^space:]]`, `[]a]`, `[^]a]`, `\x{41}`, `\101`, `\pL`, `(?s).`, `(?m)^a`, `(?U)a`, `(?=a)`, `[`, `\`} {
		_, err := Translate(p)
		require.Error(t, err, p)
		require.Error(t, new(Cache).Compile(p).Err, p)
	}
}

// What is counted before a pattern is compiled is what the compiled program has.
func TestSteps_counts_the_program(t *testing.T) {
	for _, p := range []string{``, `a`, `abc`, `a{3}`, `a{0,9}`, `(ab|c){2,}`, `(a|b|)*?c+`, `[^a-z]{5,7}$`, `(?:(?:a{1,9})?x{9}){0,9}`, `\pL{20}`, `(?i)strasse{7}`,
		`((((a?){9})?)*){9}`, `(?:){1000}`, `(?:a?b?){100}`, `.{1000}`, `^(?:[\w.-]+@(?:[a-z]{2,20}\.){1,5}[a-z]{2,})?$`} {
		parsed, err := syntax.Parse(p, syntax.Perl)
		require.NoError(t, err)
		program, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		n, err := Steps(p, 1<<20)
		require.NoError(t, err)
		require.LessOrEqual(t, len(program.Inst), n+3, p)
		require.GreaterOrEqual(t, 3*len(program.Inst)+1000, n, p)
	}
	_, err := Steps(`(?:a?b?){100}`, 300)
	require.ErrorContains(t, err, "too large")
	_, err = Steps(`(`, 300)
	require.Error(t, err)
}

// bombs are patterns whose cost is out of all proportion to their length.
var bombs = map[string]string{
	"repetitions":    strings.Repeat(`.{1000}`, MaxBytes/7),
	"options":        strings.Repeat(`(?:a?){1000}`, MaxBytes/12),
	"nested":         strings.Repeat(`(?:`, 200) + `a` + strings.Repeat(`{2})`, 9) + strings.Repeat(`?)`, 191),
	"classes":        `[` + strings.Repeat(`\PL`, MaxBytes/3) + `]`,
	"class list":     strings.Repeat(`\pL`, MaxBytes/3),
	"folded ranges":  `(?i)[` + strings.Repeat("B-𞤀", MaxBytes/6-2) + `]`,
	"folded group":   `(?-i:(?i:[` + strings.Repeat(`\x{42}-\x{1e900}`, MaxBytes/16-3) + `]))`,
	"folded \\S":     `(?i)` + strings.Repeat(`\S`, MaxBytes/2-2),
	"named, folded":  `(?P<i>(?i)[` + strings.Repeat("B-𞤀", MaxBytes/6-3) + `])`,
	"space":          strings.Repeat(`\S`, MaxBytes/2),
	"dots":           strings.Repeat(`.`, MaxBytes),
	"alternatives":   strings.Repeat(`a|`, MaxBytes/2),
	"repeated class": strings.Repeat(`\p{L}`, maxUnicodeClasses) + `{1000}`,
	"captures":       strings.Repeat(`(`, MaxBytes/2) + strings.Repeat(`)`, MaxBytes/2),
	"long":           strings.Repeat(`a`, 1<<20),
}

// No pattern takes much memory to be refused, or to be compiled.
func TestSteps_and_Cache_of_bombs(t *testing.T) {
	for name, p := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Steps(p, 5000)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "steps of %s", name)
		runtime.ReadMemStats(&before)
		new(Cache).Compile(p)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "compiling %s", name)
	}
}

// A text that takes long to parse is not parsed.
func TestTranslate_of_bombs(t *testing.T) {
	for _, p := range []string{bombs["folded ranges"], bombs["folded group"], bombs["named, folded"], `(?i)[B-𞤀]`, `(?i)\S`, `(?i:\x{42})`, bombs["classes"], bombs["class list"], bombs["space"], strings.Repeat(`\S`, 100), bombs["long"]} {
		_, err := Translate(p)
		require.ErrorIs(t, err, ErrTooLarge, "%.50s", p)
	}
}

func TestCache_keeps_patterns_within_a_bound(t *testing.T) {
	var c Cache
	_, known := c.Get("a")
	require.False(t, known)
	first := c.Compile("a")
	again, known := c.Get("a")
	require.True(t, known)
	require.Same(t, first, again)
	require.Error(t, c.Compile("(?=a)").Err)
	_, known = c.Get("(?=a)")
	require.True(t, known, "what cannot be used is known as well")

	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 5000 {
		compiled := c.Compile(fmt.Sprintf(`^[a-z%d]{1,40}x|y{%d}[^\s]`, i, i%100))
		require.NoError(t, compiled.Err)
		require.True(t, compiled.Matches("xyyz") || i%100 > 2)
		c.Compile(strings.Repeat("[", 700) + fmt.Sprint(i))
		require.LessOrEqual(t, c.bytes, maxCacheBytes)
	}
	require.Less(t, len(c.compiled), 1000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2*maxCacheBytes))
	runtime.KeepAlive(&c)
}

// Without regard to case, a class takes as long as thousands of characters, and keeps a large
// table.
func TestSteps_classes_without_case(t *testing.T) {
	for _, p := range []string{`(?i)[\pL]`, `(?i:\p{Lu})`, `\PL(?i)`} {
		_, err := Steps(p, 1<<20)
		require.ErrorIs(t, err, ErrTooLarge, p)
		require.ErrorIs(t, new(Cache).Compile(p).Err, ErrTooLarge, p)
	}
	_, err := Steps(`[\pL\p{Lu}]`, 1<<20)
	require.NoError(t, err)
}

// A cache keeps nothing of the schema that a pattern is part of, nor do its errors.
func TestCache_keeps_no_schema(t *testing.T) {
	const schemaBytes = 1 << 20
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var c Cache
	before := heap()
	for i := range 32 {
		schema := fmt.Sprintf("a{%d(", i) + strings.Repeat("x", schemaBytes)
		require.Error(t, c.Compile(schema[:strings.IndexByte(schema, '(')+1]).Err)
	}
	require.Less(t, int64(heap())-int64(before), int64(8*schemaBytes))
	_, known := c.Get("a{31(")
	require.True(t, known)
	runtime.KeepAlive(&c)
}
