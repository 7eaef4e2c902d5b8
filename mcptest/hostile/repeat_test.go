package hostile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"a":                                  "a",
		many("ab", 3):                        "ababab",
		"x" + many("y", 0) + "z":             "xz",
		many("<"+many("-", 2)+">", 2) + "!":  "<--><-->!",
		many("é", 2) + many("[", 2) + "]":    "éé[[]",
		many(many(many("a", 2)+"b", 2), 2):   "aabaabaabaab",
		many("a", 1) + "\n" + many("b\n", 2): "a\nb\nb\n",
	} {
		require.Equal(t, want, expand(text))
	}
}
