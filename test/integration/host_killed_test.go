//go:build linux

package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// hostRole is an environment variable that makes this binary a host of servers. Its
// value is the mark of the processes that the host starts.
const hostRole = "MCPVISOR_INTEGRATION_HOST"

// hostedServers returns the servers of the host. None of them ends by itself.
func hostedServers(mark string) []mcpvisor.ServerSpec {
	w := &fixture{mark: mark}
	script := func(faults ...mcptest.Fault) *mcpvisor.Stdio { return w.stdio(mcptest.Script{Faults: faults}) }
	wrapped := script()
	wrapped.Command, wrapped.Args = "/bin/sh", []string{"-c", `"$0"; exit $?`, wrapped.Command}
	return []mcpvisor.ServerSpec{
		{Name: "polite", Stdio: script()},
		{Name: "stubborn", Stdio: script(mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown})},
		{Name: "unreading", Stdio: script(mcptest.Fault{At: mcptest.StageCall, Do: mcptest.ActionHangAll})},
		{Name: "wrapped", Stdio: wrapped},
		// Two grandchildren that ignore SIGTERM, one of them in a session of its own.
		{Name: "family", Stdio: script(mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild},
			mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"})},
	}
}

// runHost starts the servers, prints "ready", and waits to be killed.
func runHost() int {
	c, err := facade.New()
	if err == nil {
		err = c.Register(context.Background(), hostedServers(os.Getenv(hostRole))...)
	}
	if err != nil {
		fmt.Println("the host cannot start its servers:", err)
		return 1
	}
	go func() { _, _ = c.CallTool(context.Background(), "unreading/echo", nil) }()
	for {
		if st, _ := c.ServerStatus("unreading"); st.Calls.InFlight == 1 {
			break
		}
		pause(context.Background(), pollInterval)
	}
	fmt.Println("ready")
	select {}
}

func TestKill_host(t *testing.T) {
	w := newFixture(t)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), hostRole+"="+w.mark, markVar+"="+w.mark)
	stdout, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "ready\n" {
		_ = host.Process.Kill()
	}
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	// The host, its five servers, the shell around one of them, and two grandchildren.
	require.Len(t, processes(w.mark), 9)

	require.NoError(t, host.Process.Kill())
	require.Error(t, host.Wait())
	waitUntil(w.within(), t, "the servers have ended with their host", func() bool { return len(processes(w.mark)) == 0 })
}
