package role

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test binary that does not call mcptest.Main would start itself again and again.
func TestStdio_without_Main(t *testing.T) {
	if os.Getenv(Env) != "" {
		Stdio("server", nil)
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^TestStdio_without_Main$")
	again.Env = append(os.Environ(), Env+"=server")
	out, err := again.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, exitNoMain, exit.ExitCode())
	require.Contains(t, string(out), "call mcptest.Main first in TestMain")
}
