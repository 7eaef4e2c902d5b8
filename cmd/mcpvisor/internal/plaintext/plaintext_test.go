package plaintext

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "412ms": 412*time.Millisecond + 999*time.Microsecond, "3.2s": 3290 * time.Millisecond, "47s": 47*time.Second + 900*time.Millisecond,
		"12m08s": 12*time.Minute + 8*time.Second, "3h12m": 3*time.Hour + 12*time.Minute, "4d07h": 103 * time.Hour, "999d23h": 1000*24*time.Hour - 1,
	} {
		require.Equal(t, want, Duration(d))
	}
	require.Equal(t, "0s", Duration(999*time.Microsecond))
}

func TestJSON(t *testing.T) {
	const text = "{\"a\":\"x\u009by\x7f\u202e\U000E0041é\"}\n"
	got := JSON(text)
	require.Equal(t, "{\"a\":\"x\\u009by\\u007f\\u202e\\udb40\\udc41é\"}\n", got)
	var before, after any
	require.NoError(t, json.Unmarshal([]byte(text), &before))
	require.NoError(t, json.Unmarshal([]byte(got), &after))
	require.Equal(t, before, after, "the value is the same")
}

func TestTook(t *testing.T) {
	for want, d := range map[string]time.Duration{"0s": -1, "256µs": 256 * time.Microsecond, "4.1ms": 4100 * time.Microsecond, "27ms": 27 * time.Millisecond, "3.2s": 3290 * time.Millisecond} {
		require.Equal(t, want, Took(d))
	}
}

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
