package nearest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
		want, got := levenshtein(a, b), distance(a, strings.ToUpper(b), limit)
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
	t.Run("returns_partial_result_when_time_is_up", func(t *testing.T) {
		asked, looks := 0, 0
		names := search("ecko", endless("echo", &asked), func() bool { looks++; return looks > 3 })
		require.Equal(t, []string{"echo"}, names)
		require.Less(t, asked, 5*clockInterval)
	})
	t.Run("ignores_names_that_are_too_long", func(t *testing.T) {
		asked := 0
		require.Empty(t, search(strings.Repeat("x", maxNameBytes+1), endless("x", &asked), func() bool { return false }))
		require.Zero(t, asked)
	})
}

// Without bounds, a name of 900 characters took half a minute against 10,000 names.
func TestNames_time_is_bounded(t *testing.T) {
	for _, size := range []int{40, maxNameBytes, 900} {
		names := make([]string, 10_000)
		for i := range names {
			names[i] = strings.Repeat("x", size-8) + fmt.Sprintf("%08d", i*7919)
		}
		began := time.Now()
		Names(strings.Repeat("x", size-8)+"????????", names)
		require.Less(t, time.Since(began), time.Second, "%d bytes", size)
	}
}
