package transport

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

func TestStderrTail(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":          {"", nil},
		"unfinished":       {"a\nb", []string{"a", "b"}},
		"first and last":   {"1\n2\n3\n4\n5\n", []string{"1", "… 2 lines are left out …", "4", "5"}},
		"last, unfinished": {"1\n2\n3\n4", []string{"1", "… 1 line is left out …", "3", "4"}},
		"as many as fit":   {"1\n2\n3", []string{"1", "2", "3"}},
		"empty lines":      {"a\n\n \t \r\n\nb\r\n", []string{"a", "b"}},
		"tab":              {"a\tb\n", []string{"a b"}},
		"escapes":          {"\x1b[31mred\x1b[0m \x07bell\n", []string{"[31mred[0m bell"}},
		"C1 controls":      {"a\u009b31m\u0085b\x7f\n", []string{"a31mb"}},
		"NUL":              {"a\x00b\n", []string{"ab"}},
		"no UTF-8":         {"gr\xfc\xdfe\n", []string{"gr\uFFFDe"}},
		"UTF-8":            {"größe €\n", []string{"größe €"}},
		"long":             {strings.Repeat("x", 1000) + "\nb\n", []string{strings.Repeat("x", stderrLineMax), "b"}},
		"long, unfinished": {strings.Repeat("y", 1000), []string{strings.Repeat("y", stderrLineMax)}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, single := newStderrTail(3, nil), newStderrTail(3, nil)
			n, err := whole.Write([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, len(c.text), n)
			for i := range len(c.text) {
				_, _ = single.Write([]byte(c.text[i : i+1]))
			}
			require.Equal(t, c.want, whole.lines())
			require.Equal(t, c.want, single.lines(), "byte by byte")
		})
	}
}

// TestStderrTailKeepsLittle: neither many lines nor one without an end fill the
// memory of the host.
func TestStderrTailKeepsLittle(t *testing.T) {
	tail := newStderrTail(3, nil)
	for range 1000 {
		_, _ = tail.Write([]byte("a line\n"))
	}
	require.LessOrEqual(t, len(tail.ring), 3)
	for range 1000 {
		_, _ = tail.Write([]byte(strings.Repeat("x", 1000)))
	}
	require.LessOrEqual(t, len(tail.partial), stderrLineTaken)
}

// A line of which cleaning leaves
// nothing must not push out one that says something.
func TestStderrTailDropsBlankLines(t *testing.T) {
	tail := newStderrTail(2, nil)
	_, _ = tail.Write([]byte("first\nsecond\n\x1b\x07\u009b\n \t\u2003\u2028\n\u202e\u200f\n\x00\r\n"))
	require.Equal(t, []string{"first", "second"}, tail.lines())
}

// TestStderrTailCleansOnRead: the cost of cleaning belongs to who reads the
// lines, not to a server that floods its stderr.
func TestStderrTailCleansOnRead(t *testing.T) {
	cleaned := 0
	tail := newStderrTail(3, func(text string) string { cleaned++; return text })
	flood := []byte(strings.Repeat("\x1b[31ma line of a flood\x1b[0m\n", 1000))
	_, _ = tail.Write(flood) // the buffers of the ring
	require.Zero(t, cleaned)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = tail.Write(flood) }))
	lines := tail.lines()
	require.Len(t, lines, 4)
	require.Equal(t, "[31ma line of a flood[0m", lines[0])
	require.Regexp(t, `^… \d+ lines are left out …$`, lines[1])
	require.Equal(t, []string{"[31ma line of a flood[0m", "[31ma line of a flood[0m"}, lines[2:])
	require.LessOrEqual(t, cleaned, 4)
}

func BenchmarkStderrFlood(b *testing.B) {
	tail := newStderrTail(20, nil)
	flood := []byte(strings.Repeat("\x1b[31merror:\x1b[0m something that a server repeats for ever\n", 500))
	b.SetBytes(int64(len(flood)))
	for b.Loop() {
		_, _ = tail.Write(flood)
	}
}

// A secret is hidden before the line is cut: the half of it is one too.
func TestStderrTailIsVeiled(t *testing.T) {
	tail := newStderrTail(3, strings.NewReplacer(secretOfRounds, "***").Replace)
	for _, before := range []int{0, stderrLineMax - 5, 10} {
		_, _ = tail.Write([]byte(strings.Repeat("x", before) + secretOfRounds + "\n"))
	}
	_, _ = tail.Write([]byte(secretOfRounds)) // has no end
	for _, line := range tail.lines() {
		require.NotContains(t, line, secretOfRounds[:5])
	}
}

// TestStderrTailLongSecret: a secret that is longer than what is looked at of a
// line is hidden, and so is one that is cut in two behind it.
func TestStderrTailLongSecret(t *testing.T) {
	long, next := strings.Repeat("abcdefgh12345678", 200), strings.Repeat("ijklmnop", 8)
	nearly := long[:stderrLineTaken-60]
	for name, c := range map[string]struct {
		line string
		env  map[string]string
	}{
		"longer": {"token " + long, map[string]string{"A_TOKEN": long}},
		"cut":    {"tokens " + nearly + " " + next, map[string]string{"A_TOKEN": nearly, "B_TOKEN": next}},
	} {
		t.Run(name, func(t *testing.T) {
			tail := newStderrTail(3, veilOf(&mcpvisor.Stdio{Env: c.env}))
			_, _ = tail.Write([]byte(c.line))
			require.NotContains(t, tail.lines()[0], "abcdefgh")
			require.NotContains(t, tail.lines()[0], "ijklmnop")
		})
	}
}

// TestStderrTailProperties: whatever is written, in whatever pieces, what is
// kept is bounded, printable, and the end of it.
func TestStderrTailProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		tail, whole := newStderrTail(limit, nil), newStderrTail(limit, nil)
		piece := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 600),
			rapid.Map(rapid.StringMatching("[ab\n\r\t \x1b\u009bü]{0,30}"), func(s string) []byte { return []byte(s) }))
		var all []byte
		for _, p := range rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces") {
			all = append(all, p...)
			n, err := tail.Write(p)
			require.NoError(t, err)
			require.Equal(t, len(p), n)
		}
		_, _ = whole.Write(all)
		got := tail.lines()
		require.Equal(t, whole.lines(), got, "the pieces do not matter")
		require.LessOrEqual(t, len(got), limit+1, "and the line that counts those left out")
		for _, line := range got {
			require.NotEmpty(t, line)
			require.True(t, utf8.ValidString(line))
			require.NotContains(t, line, "\n")
			require.Equal(t, -1, strings.IndexFunc(line, unicode.IsControl), "%q", line)
			require.LessOrEqual(t, utf8.RuneCountInString(line), stderrLineMax)
		}
	})
}

// TestStderrTailIsShared: it is read while it is written.
func TestStderrTailIsShared(t *testing.T) {
	tail := newStderrTail(4, nil)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				fmt.Fprintf(tail, "writer %d line %d\n", w, i)
				_ = tail.lines()
			}
		})
	}
	writers.Wait()
	lines := tail.lines()
	require.Len(t, lines, 5)
	require.Equal(t, "… 796 lines are left out …", lines[1])
	for _, line := range slices.Delete(lines, 1, 2) {
		require.Regexp(t, `\Awriter \d line \d+\z`, line)
	}
	lines[0] = "changed"
	require.NotContains(t, tail.lines(), "changed", "it is a copy")
}
