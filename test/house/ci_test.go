package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// ciPattern finds what the steps of CI run or skip: the value of -run, and the list slow.
	ciPattern = regexp.MustCompile(`-run ('[^']*'|\S+)|slow=\(([^)]*)\)`)
	testName  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// Each name of a test in .ci/run is that of a test: go test does not fail if -run or -skip names none.
func TestCINamesTests(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	require.NoError(t, err)
	files, err := exec.Command("git", "-C", root, "ls-files", "*_test.go").Output()
	require.NoError(t, err)
	var names []string
	for file := range strings.FieldsSeq(string(files)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	named := 0
	for _, m := range ciPattern.FindAllStringSubmatch(string(script), -1) {
		pattern := strings.Trim(m[1], `'`)
		if m[2] != "" {
			pattern = "^(" + strings.Join(strings.Fields(m[2]), "|") + ")$"
		}
		before, all, _ := strings.Cut(pattern, "(")
		all, after, _ := strings.Cut(all, ")")
		for one := range strings.SplitSeq(all, "|") {
			of := regexp.MustCompile(before + one + after)
			require.True(t, slices.ContainsFunc(names, of.MatchString), "no test is named %s", of)
			named++
		}
	}
	require.Greater(t, named, 20)
}
