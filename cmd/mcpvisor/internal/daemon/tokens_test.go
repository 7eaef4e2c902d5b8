package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway"
)

func TestReadTokens(t *testing.T) {
	ci, other := gateway.HashToken("ci"), gateway.HashToken("other")
	for _, c := range []struct {
		name, text string
		tokens     int
		problem    string // empty: the file can be used
	}{
		{"two tokens", "ci " + ci + " p1\nother " + other + "\n", 2, ""},
		{"a last line that is cut after the hash", "other " + other + "\nci " + ci, 0, "does not end in a newline"},
		{"an empty file", "", 0, "is empty"},
		{"comments only revoke all tokens", "# none\n\n", 0, ""},
		{"a comment that is cut", "# no", 0, "does not end in a newline"},
		{"one hash in two lines, in other letters", "ci " + ci + " p1\n\nx " + strings.ToUpper(ci) + "\n", 0, ":3 has the hash of line 1"},
		{"upper case", "ci " + strings.ToUpper(ci) + "\n", 1, ""},
		{"a hash that is not hexadecimal", "ci " + ci[:63] + "g\n", 0, ":1 is not a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			tokens, err := readTokens(path)
			require.Len(t, tokens, c.tokens)
			if c.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.problem)
			}
		})
	}
}
