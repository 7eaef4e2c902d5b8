package pattern

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGlob(t *testing.T) {
	for _, row := range []struct {
		glob, text string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "é", true}, {"?", "é", true}, {"??", "é", false}, {"*?", "é", true}, {"*??", "é", false},
		{"*??x", "ééx", true}, {"*??x", "éx", false}, {"write_*", "write_file", true}, {"write_*", "rewrite_file", false}, {"*a*b*c", "xxaxbbxxc", true},
		{"*a*b*c", "xxaxbbxx", false}, {"a", "A", false}, {"*\x80?", "\x80\xff", true}, {strings.Repeat("*a", 100) + "b", strings.Repeat("a", 2000), false},
	} {
		require.Equal(t, row.want, Glob(row.glob, row.text), "%q %q", row.glob, row.text)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { Glob("*é*?", "aééb") }))
}
