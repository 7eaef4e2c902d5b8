package house

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsApply: the patches that plant bugs for the storm and the simulation fit the code. The script
// test/mutants runs them; it takes too long for each change.
func TestMutantsApply(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	patches, err := filepath.Glob(filepath.Join(root, "test/*/testdata/mutants/*.patch"))
	require.NoError(t, err)
	require.Greater(t, len(patches), 10, "the patches are found")
	for _, patch := range patches {
		patch, err := filepath.Abs(patch)
		require.NoError(t, err)
		check := exec.CommandContext(t.Context(), git, "apply", "--check", "-C1", "--recount", "--whitespace=nowarn", patch)
		check.Dir = root
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s does not fit the code; adapt it: %s", filepath.Base(patch), out)
	}
}
