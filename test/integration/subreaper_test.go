//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// forksDaemon starts a grandchild that leaves the process group of its server.
var forksDaemon = mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"}

// reaperRole is an environment variable that makes this binary a host that adopts
// orphans: as a subreaper, or as process 1 of a process namespace. Its value is the
// mark of the processes that the host starts.
const reaperRole = "MCPVISOR_INTEGRATION_REAPER"

// runReaper runs the host and returns its exit status.
func runReaper() int {
	if err := reapOnlyOurs(os.Getenv(reaperRole)); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func reapOnlyOurs(mark string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	// The host has a child of its own that has exited and is not waited for, and an
	// orphan of its own. Both are zombies.
	own := exec.Command("/bin/sh", "-c", "sh -c 'sleep 0.01' & exit 7")
	if err := own.Start(); err != nil {
		return err
	}
	countZombies := func() (zombies int) {
		for _, child := range children() {
			if strings.HasSuffix(child, " Z") {
				zombies++
			}
		}
		return zombies
	}
	for countZombies() < 2 {
		pause(context.Background(), pollInterval)
	}

	w := &fixture{mark: mark}
	spec := w.stdio(mcptest.Script{Faults: []mcptest.Fault{forksDaemon, {At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild}}})
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	c, err := facade.New()
	if err != nil {
		return err
	}
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: spec, Policy: supervisor.Retry(10, time.Millisecond), Timeouts: mcpvisor.Timeouts{Shutdown: shutdownTimeout}}); err != nil {
		return err
	}
	for range 3 {
		st, _ := c.ServerStatus("s")
		if err := syscall.Kill(st.Session.PID, syscall.SIGKILL); err != nil {
			return err
		}
		for {
			if now, _ := c.ServerStatus("s"); now.Session != nil && now.Session.PID != st.Session.PID && now.State == supervisor.StateReady {
				break
			}
			pause(ctx, pollInterval)
		}
	}
	if err := c.Close(ctx); err != nil {
		return err
	}
	if left := children(); len(left) != 2 {
		return fmt.Errorf("children after Close, of which two are the host's own: %v", left)
	}
	var exit *exec.ExitError
	if err := own.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		return fmt.Errorf("the host's own child: %w", err)
	}
	if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil {
		return fmt.Errorf("the host's own orphan: %w", err)
	}
	if left := children(); len(left) != 0 {
		return fmt.Errorf("children at the end: %v", left)
	}
	return nil
}

// A host that adopts orphans gets no zombies of servers, and the runtime does not reap
// the host's own children.
func TestSubreaper(t *testing.T) {
	for name, flags := range map[string]uintptr{"subreaper": 0, "process_1": syscall.CLONE_NEWPID | syscall.CLONE_NEWNS} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			host := exec.Command(os.Args[0])
			if flags != 0 {
				if os.Getuid() != 0 {
					t.Skip("needs root, for a process namespace")
				}
				host = exec.Command("/bin/sh", "-c", `mount -t proc proc /proc && exec "$0"`, os.Args[0])
				host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Unshareflags: syscall.CLONE_NEWNS}
			}
			host.Env = append(os.Environ(), reaperRole+"="+w.mark, markVar+"="+w.mark)
			out, err := host.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}
