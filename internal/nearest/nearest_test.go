package nearest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	known := []string{"command", "args", "env", "url", "headers", "timeouts", "Timeout"}
	require.Equal(t, []string{"command"}, Names("comand", known))
	require.Equal(t, []string{"timeouts", "Timeout"}, Names("timeuts", known))
	require.Equal(t, []string{"args"}, Names("ARGS", known)[:1])
	require.Empty(t, Names("completely-different", known))
	require.Len(t, Names("a1", []string{"a2", "a3", "a4", "a5"}), 3)
	require.Equal(t, []string{"ab", "abcd"}, Names("abc", []string{"ab", "abcd", "axyd"}))
	require.Empty(t, Names("", nil))
	require.Equal(t, []string{"args2"}, Names("args", []string{"args", "args2"}), "the name itself is no suggestion: it has come since the caller looked for it")
	require.Equal(t, []string{"abcdefghijkx"}, Names("abcdefghijkl", []string{"abcdefghixxx", "abcdefghijkx", "abcdefghyyyl"}), "more than twice as far is too far")
}

func TestAmongSpellings(t *testing.T) {
	spellings := func(yield func(string, string) bool) {
		_ = yield("mcp__fs__echo", "fs/echo") && yield("echo", "fs/echo") && yield("etcho", "other/etcho")
	}
	require.Equal(t, []string{"fs/echo", "other/etcho"}, AmongSpellings("ecko", spellings), "a name has the distance of its nearest spelling")
}

// levenshtein returns the edit distance by the textbook algorithm.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func TestDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, r.IntN(14))
		for i := range b {
			b[i] = byte('a' + r.IntN(3))
		}
		return string(b)
	}
	for range 20_000 {
		a, b, limit := word(), word(), r.IntN(maxDistance+1)
		want := levenshtein(a, b)
		got, steps := distance(a, strings.ToUpper(b), limit)
		require.LessOrEqual(t, steps, len(a)*len(b))
		if want <= limit {
			require.Equal(t, want, got, "%q %q within %d", a, b, limit)
		} else {
			require.Greater(t, got, limit, "%q %q", a, b)
		}
	}
}

func TestSearch(t *testing.T) {
	endless := func(name string, asked *int) func(func(string, string) bool) {
		return func(yield func(string, string) bool) {
			for yield(name, name) {
				*asked++
			}
		}
	}
	t.Run("returns_partial_result_when_its_steps_are_spent", func(t *testing.T) {
		asked := 0
		names, left := search("ecko", endless("echo", &asked), 1000)
		require.Equal(t, []string{"echo"}, names)
		require.Negative(t, left)
		require.Less(t, asked, 1000/stepsPerName)
	})
	t.Run("ignores_names_that_are_too_long", func(t *testing.T) {
		asked := 0
		names, _ := search(strings.Repeat("x", maxNameBytes+1), endless("x", &asked), maxSteps)
		require.Empty(t, names)
		require.Zero(t, asked)
	})
}

// Names that differ only at their end cost most. Long ones spend the steps of a search; 10,000
// short ones are all compared.
func TestSearch_counts_steps(t *testing.T) {
	for size, spent := range map[int]bool{20: false, maxNameBytes: true} {
		compared := 0
		_, left := search(strings.Repeat("x", size-8)+"????????", func(yield func(string, string) bool) {
			for i := range 10_000 {
				name := strings.Repeat("x", size-8) + fmt.Sprintf("%08d", i*7919)
				if compared++; !yield(name, name) {
					return
				}
			}
		}, maxSteps)
		require.Equal(t, spent, left < 0, "%d bytes", size)
		require.Equal(t, spent, compared < 10_000, "%d bytes", size)
		require.Greater(t, left, -maxNameBytes*(maxNameBytes+maxDistance)-stepsPerName)
	}
}
