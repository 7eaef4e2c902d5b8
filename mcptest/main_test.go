package mcptest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/role"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// command makes the process of a spec with nothing in its environment but what
// the spec brings.
func command(spec *mcpvisor.Stdio) *exec.Cmd {
	cmd := exec.Command(spec.Command, spec.Args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func TestMainReturnsInAnOrdinaryProcess(t *testing.T) {
	require.Empty(t, os.Getenv(role.Env))
	Main()
}

// For what can only be asked again and again.
const (
	eventually = 30 * time.Second
	tick       = 5 * time.Millisecond
)
