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

// reaperRole, in the environment, makes this binary a host to which orphans fall:
// a subreaper, or, if it runs in a process namespace of its own, process 1. Its value
// is the mark of what it starts.
const reaperRole = "MCPVISOR_INTEGRATION_REAPER"

// runReaper crashes servers that have daemons, and looks at its children.
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
	// A child of the host's own that has ended and is not waited for yet, and an
	// orphan that the host's own program has left.
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
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: spec, Policy: supervisor.Retry(10, time.Millisecond)}); err != nil {
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

// A host to which orphans fall gets no zombies of servers, and its own children are
// left to it.
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
