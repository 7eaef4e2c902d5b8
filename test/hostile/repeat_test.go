package hostile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"a":                          "a",
		repeated("ab", 3):            "ababab",
		"x" + repeated("y", 0) + "z": "xz",
		repeated("<"+repeated("-", 2)+">", 2) + "!":    "<--><-->!",
		repeated("é", 2) + repeated("[", 2) + "]":      "éé[[]",
		repeated(repeated(repeated("a", 2)+"b", 2), 2): "aabaabaabaab",
		repeated("a", 1) + "\n" + repeated("b\n", 2):   "a\nb\nb\n",
	} {
		require.Equal(t, want, expand(text))
	}
}
