package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The steps of .ci/run that show a part of what tests print show all of it for tests that fail.
func TestFilteredOutput(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script, err := filepath.Abs(filepath.Join("..", "..", ".ci", "filtered"))
	require.NoError(t, err)
	show := func(text string, code string) (shown string, ok bool) {
		t.Helper()
		cmd := exec.Command(bash, script, "-E", "^(ok|FAIL)|--- FAIL", "--", "sh", "-c", `printf '%s' "$1"; exit $2`, "sh", text, code)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		logs, globbed := filepath.Glob(filepath.Join(cmd.Dir, "bin", "*"))
		require.NoError(t, globbed)
		if err == nil {
			require.Empty(t, logs)
			return string(out), true
		}
		require.Len(t, logs, 1)
		whole, read := os.ReadFile(logs[0])
		require.NoError(t, read)
		require.Equal(t, text, string(whole))
		return string(out), false
	}
	shown, ok := show("=== RUN   TestA\n    a_test.go:1: noise\n--- PASS: TestA (0.00s)\nok  \tpkg\n", "0")
	require.True(t, ok)
	require.Equal(t, "ok  \tpkg\n", shown)

	shown, ok = show("ok  \tpkg\t0.1s [no tests to run]\n", "0")
	require.False(t, ok)
	require.Contains(t, shown, "a package has no test that -run names")

	shown, ok = show("=== RUN   TestA\n    quiet\n=== RUN   TestB\n=== RUN   TestB/one\n    reason of one\n=== RUN   TestB/two\n    quiet too\n=== NAME  TestB\n    reason of B\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/one (0.00s)\n    --- PASS: TestB/two (0.00s)\n=== RUN   TestC\n    quiet as well\n--- PASS: TestC (0.00s)\nFAIL\nFAIL\tpkg\n", "1")
	require.False(t, ok)
	require.Contains(t, shown, "reason of one\n")
	require.Contains(t, shown, "reason of B\n")
	require.NotContains(t, shown, "quiet")

	for _, text := range []string{"# pkg\nfile.go:1: does not compile\nFAIL\tpkg [build failed]\n", "=== RUN   TestA\npanic: why\n\ngoroutine 1\nFAIL\tpkg\n"} {
		shown, ok = show(text, "1")
		require.False(t, ok)
		require.Contains(t, shown, text)
	}
}
