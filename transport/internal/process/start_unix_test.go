//go:build unix

package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// A relative command with a slash begins at Stdio.Dir, by default the host's directory.
// The cause shows where it was looked for.
func TestStart_relative_command(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	here, err := os.Getwd()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stdio mcpvisor.Stdio
		want  string
	}{
		"host's directory": {mcpvisor.Stdio{Command: "./absent"}, filepath.Join(here, "absent") + `" (it begins at the host's working directory); give its full path, or set Stdio.Dir`},
		"Dir":              {mcpvisor.Stdio{Command: "bin/absent", Dir: dir}, filepath.Join(dir, "bin", "absent") + `" (it begins at Stdio.Dir); give its full path, or correct Stdio.Dir`},
	} {
		child, cause := Start(&c.stdio, 1, 0, nil)
		require.Nil(t, child, name)
		require.Equal(t, supervisor.CauseConfig, cause.Kind, name)
		require.True(t, cause.Permanent, name)
		require.Contains(t, cause.Message, c.want, name)
	}
	_, cause := Start(&mcpvisor.Stdio{Command: "mcpvisor-absent"}, 1, 0, nil)
	require.Equal(t, `command "mcpvisor-absent" not found; install it, or give its full path`, cause.Message)
	for _, command := range []string{"mcpvisor-absent -y", "./mcpvisor-absent /tmp/x y"} {
		_, cause = Start(&mcpvisor.Stdio{Command: command}, 1, 0, nil)
		require.Equal(t, `command "`+command+`" not found; it names the program alone, so put its arguments into Stdio.Args`, cause.Message)
	}
	_, cause = Start(&mcpvisor.Stdio{Command: dir}, 1, 0, nil)
	require.Equal(t, `command "`+dir+`" is a directory; name the program in it`, cause.Message)
}

// The interpreter of a script is looked for where the script is.
func TestStart_relative_script_without_interpreter(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteProgram(t, filepath.Join(dir, "script"), []byte("#!/absent/interpreter\n"))
	_, cause := Start(&mcpvisor.Stdio{Command: "./script", Dir: dir}, 1, 0, nil)
	require.NotNil(t, cause)
	require.Contains(t, cause.Message, "names an interpreter in its first line that was not found")
}
