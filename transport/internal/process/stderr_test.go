package process

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

	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
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
		"escapes":          {"\x1b[31mred\x1b[0m \x07bell\n", []string{"red bell"}},
		"C1 controls":      {"a\u009b31m\u0085b\x7f\n", []string{"a31mb"}},
		"NUL":              {"a\x00b\n", []string{"ab"}},
		"no UTF-8":         {"gr\xfc\xdfe\n", []string{"gr\uFFFDe"}},
		"UTF-8":            {"größe €\n", []string{"größe €"}},
		"long":             {strings.Repeat("x", 1000) + "\nb\n", []string{strings.Repeat("x", maxStderrLine), "b"}},
		"long, unfinished": {strings.Repeat("y", 1000), []string{strings.Repeat("y", maxStderrLine)}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, single := NewStderrTail(3, nil), NewStderrTail(3, nil)
			n, err := whole.Write([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, len(c.text), n)
			for i := range len(c.text) {
				_, _ = single.Write([]byte(c.text[i : i+1]))
			}
			require.Equal(t, c.want, whole.Lines())
			require.Equal(t, c.want, single.Lines(), "byte by byte")
		})
	}
}

// Neither many lines nor one without an end fill the memory of the host.
func TestStderrTail_is_bounded(t *testing.T) {
	tail := NewStderrTail(3, nil)
	for range 1000 {
		_, _ = tail.Write([]byte("a line\n"))
	}
	require.LessOrEqual(t, len(tail.ring), 3)
	for range 1000 {
		_, _ = tail.Write([]byte(strings.Repeat("x", 1000)))
	}
	require.LessOrEqual(t, len(tail.partial), maxRawStderrLine)
}

// A line of unprintable characters must not replace one with text.
func TestStderrTail_drops_blank_lines(t *testing.T) {
	tail := NewStderrTail(2, nil)
	_, _ = tail.Write([]byte("first\nsecond\n\x1b\x07\u009b\n \t\u2003\u2028\n\u202e\u200f\n\x00\r\n"))
	require.Equal(t, []string{"first", "second"}, tail.Lines())
}

// Lines are cleaned when they are read. So a server that floods its stderr costs no
// cleaning and no allocation.
func TestStderrTail_cleans_on_read(t *testing.T) {
	cleaned := 0
	tail := NewStderrTail(3, func(text string) string { cleaned++; return text })
	flood := []byte(strings.Repeat("\x1b[31ma line of a flood\x1b[0m\n", 1000))
	_, _ = tail.Write(flood) // allocates the buffers of the ring
	require.Zero(t, cleaned)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = tail.Write(flood) }))
	lines := tail.Lines()
	require.Len(t, lines, 4)
	require.Equal(t, "a line of a flood", lines[0])
	require.Regexp(t, `^… \d+ lines are left out …$`, lines[1])
	require.Equal(t, []string{"a line of a flood", "a line of a flood"}, lines[2:])
	require.LessOrEqual(t, cleaned, 4)
}

// testSecret is a value that must not be shown.
const testSecret = "hunter22"

// secretsOf returns the secrets in an environment.
func secretsOf(env map[string]string) *secret.List {
	var secrets secret.List
	for name, value := range env {
		secrets.AddEnv([]string{name + "=" + value})
	}
	return &secrets
}

func BenchmarkStderrFlood(b *testing.B) {
	tail := NewStderrTail(20, nil)
	flood := []byte(strings.Repeat("\x1b[31merror:\x1b[0m something that a server repeats\n", 500))
	b.SetBytes(int64(len(flood)))
	for b.Loop() {
		_, _ = tail.Write(flood)
	}
}

// A secret is redacted before the line is cut, so no half of it is shown.
func TestStderrTail_redacts_before_it_cuts(t *testing.T) {
	tail := NewStderrTail(3, strings.NewReplacer(testSecret, "***").Replace)
	for _, before := range []int{0, maxStderrLine - 5, 10} {
		_, _ = tail.Write([]byte(strings.Repeat("x", before) + testSecret + "\n"))
	}
	_, _ = tail.Write([]byte(testSecret)) // without a line break
	for _, line := range tail.Lines() {
		require.NotContains(t, line, testSecret[:5])
	}
}

// A secret longer than what is stored of a line is redacted, and so is one that is cut in
// two at the end of what is stored.
func TestStderrTail_redacts_long_secrets(t *testing.T) {
	long, next := strings.Repeat("abcdefgh12345678", 200), strings.Repeat("ijklmnop", 8)
	nearly := long[:maxRawStderrLine-60]
	for name, c := range map[string]struct {
		line string
		env  map[string]string
	}{
		"longer": {"token " + long, map[string]string{"A_TOKEN": long}},
		"cut":    {"tokens " + nearly + " " + next, map[string]string{"A_TOKEN": nearly, "B_TOKEN": next}},
	} {
		t.Run(name, func(t *testing.T) {
			tail := NewStderrTail(3, redact.New(secretsOf(c.env)))
			_, _ = tail.Write([]byte(c.line))
			require.NotContains(t, tail.Lines()[0], "abcdefgh")
			require.NotContains(t, tail.Lines()[0], "ijklmnop")
		})
	}
}

// Whatever is written, in whatever pieces: the kept lines are bounded and printable, and
// do not depend on the pieces.
func TestStderrTail_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		tail, whole := NewStderrTail(limit, nil), NewStderrTail(limit, nil)
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
		got := tail.Lines()
		require.Equal(t, whole.Lines(), got, "the pieces do not matter")
		require.LessOrEqual(t, len(got), limit+1, "one more line counts those that were dropped")
		for _, line := range got {
			require.NotEmpty(t, line)
			require.True(t, utf8.ValidString(line))
			require.NotContains(t, line, "\n")
			require.Equal(t, -1, strings.IndexFunc(line, unicode.IsControl), "%q", line)
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxStderrLine)
		}
	})
}

// Lines can be read while others write.
func TestStderrTail_concurrent_use(t *testing.T) {
	tail := NewStderrTail(4, nil)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				fmt.Fprintf(tail, "writer %d line %d\n", w, i)
				_ = tail.Lines()
			}
		})
	}
	writers.Wait()
	lines := tail.Lines()
	require.Len(t, lines, 5)
	require.Equal(t, "… 796 lines are left out …", lines[1])
	for _, line := range slices.Delete(lines, 1, 2) {
		require.Regexp(t, `\Awriter \d line \d+\z`, line)
	}
	lines[0] = "changed"
	require.NotContains(t, tail.Lines(), "changed", "Lines returns a copy")
}

// A snapshot has the lines that have ended, and counts all of them.
func TestStderrTail_Snapshot(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		ended bool
		want  monitor.ServerStderr
	}{
		"nothing":           {"", true, monitor.ServerStderr{}},
		"unfinished":        {"a\nb", false, monitor.ServerStderr{Total: 1, Lines: []string{"a"}}},
		"ended":             {"a\nb", true, monitor.ServerStderr{Total: 2, Lines: []string{"a", "b"}}},
		"as many as fit":    {"1\n2\n3\n", false, monitor.ServerStderr{Total: 3, Lines: []string{"1", "2", "3"}}},
		"a gap":             {"1\n2\n3\n4\n5\n6", false, monitor.ServerStderr{Total: 5, First: []string{"1"}, Lines: []string{"4", "5"}}},
		"a gap at the end":  {"1\n2\n3\n4", true, monitor.ServerStderr{Total: 4, First: []string{"1"}, Lines: []string{"3", "4"}}},
		"blank lines":       {"\n1\n\n \n2\n\n", true, monitor.ServerStderr{Total: 2, Lines: []string{"1", "2"}}},
		"a secret":          {"token s3cret!\n", false, monitor.ServerStderr{Total: 1, Lines: []string{"token ***"}}},
		"secrets later":     {"1\ntoken s3cret!\ns3cret!", true, monitor.ServerStderr{Total: 3, Lines: []string{"1", "token ***", "***"}}},
		"a secret, cut off": {"token s3cr", false, monitor.ServerStderr{}},
	} {
		t.Run(name, func(t *testing.T) {
			var secrets secret.List
			secrets.Add("s3cret!")
			tail := NewStderrTail(3, redact.New(&secrets))
			_, _ = tail.Write([]byte(c.text))
			require.Equal(t, c.want, tail.Snapshot(c.ended))
		})
	}
}

// A follower that asks again and again sees each line once, or learns that it was dropped.
func TestStderrTail_follower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tail := NewStderrTail(6, nil)
		var seen, written int64
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			for range rapid.IntRange(0, 8).Draw(t, "lines") {
				written++
				_, _ = fmt.Fprintf(tail, "line %d\n", written)
			}
			s := tail.Snapshot(false)
			lines, dropped := s.After(seen)
			seen += dropped
			for _, line := range lines {
				seen++
				require.Equal(t, fmt.Sprint("line ", seen), line)
			}
			require.Equal(t, s.Total, seen)
		}
		require.Equal(t, written, seen)
	})
}
