package plaintext

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell reads the word as the text.
func TestShellWord(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	for text, word := range map[string]string{"path=/tmp": "path=/tmp", "name=…": "name=…", "location=New York": "'location=New York'", "": "''", "~": "'~'",
		"it's": `'it'\''s'`, "a;$(id)`id`\"\\": "'a;$(id)`id`\"\\'", "a\nb": "'a\nb'", "*?[x]": "'*?[x]'", "#": "'#'", "ü": "ü"} {
		require.Equal(t, word, ShellWord(text))
		out, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s "+word).Output()
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
}
