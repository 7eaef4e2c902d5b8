package mcptest

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"

	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

// command returns the process of a specification, with only its own environment.
func command(spec *mcpvisor.Stdio) *exec.Cmd {
	cmd := exec.Command(spec.Command, spec.Args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

func TestMain_returns_without_a_role(t *testing.T) {
	require.Empty(t, os.Getenv(role.Env))
	Main()
}

// Bounds of polling, where no channel signals the change.
const (
	eventually = 30 * time.Second
	tick       = 5 * time.Millisecond
)
