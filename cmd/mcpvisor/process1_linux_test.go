package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// processOne is a `mcpvisor run` that is process 1 of a process namespace, as in a
// container.
type processOne struct {
	t     *testing.T
	cmd   *exec.Cmd
	mark  string // is in the environment of everything that it starts
	lines *bufio.Scanner
	errs  bytes.Buffer // of the run and of unshare; complete after Wait
	pid   int          // of the run, outside of the namespace
}

// startProcessOne starts it with one server, whose processes include an orphan that has left
// the process group.
func startProcessOne(t *testing.T) *processOne {
	t.Helper()
	namespace := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command("unshare", append(namespace, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no process namespaces here: %v %s", err, bytes.TrimSpace(out))
	}
	dir := shortDir(t)
	program := filepath.Join(t.TempDir(), "mcpvisor") // TestMain runs main under this name
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	p := &processOne{t: t, mark: "MCPVISOR_TEST_PROCESS_ONE=" + dir}
	server := entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild, Text: "detached"}}})
	name, value, _ := strings.Cut(p.mark, "=")
	env, ok := server["env"].(map[string]string)
	require.True(t, ok)
	env[name] = value
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p.cmd = exec.CommandContext(ctx, "unshare", append(namespace, program, "--config", serversFile(t, map[string]any{"s": server}), "run")...)
	p.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.lines = bufio.NewScanner(out)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
	require.NoError(t, err)
	p.await(", pid 1")
	if len(bytes.TrimSpace(children)) == 0 { // it was read before the fork
		children, err = os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
		require.NoError(t, err)
	}
	p.pid, err = strconv.Atoi(strings.Fields(string(children))[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(p.pid, syscall.SIGKILL) }) // the namespace ends with it
	return p
}

func (p *processOne) await(mark string) {
	p.t.Helper()
	for p.lines.Scan() {
		if strings.Contains(p.lines.Text(), mark) {
			return
		}
	}
	require.Fail(p.t, "it has ended", "before %q", mark)
}

// marked returns the processes that carry the mark, on the whole machine.
func (p *processOne) marked() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(p.mark)) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombies counts the dead children of the run that it has not reaped.
func (p *processOne) zombies() (n int) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	require.NoError(p.t, err)
	for _, child := range strings.Fields(string(children)) {
		if stat, err := os.ReadFile("/proc/" + child + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			n++
		}
	}
	return n
}

// As process 1 run adopts orphans. It leaves none of them behind, neither alive nor dead,
// when a server ends and when it ends itself.
func TestRun_as_process_1(t *testing.T) {
	p := startProcessOne(t)
	p.await("  ready: ")
	before := p.marked()
	require.Len(t, before, 2, "the server, and what it has started")
	for _, pid := range before {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the server first, or its grandchild
	}
	p.await("  down: ")
	p.await("  ready: ")
	require.Len(t, p.marked(), 2)
	require.Zero(t, p.zombies(), "what was adopted is reaped before the server is ready again")

	require.NoError(t, syscall.Kill(p.pid, syscall.SIGTERM))
	p.await("stopped 1 server")
	require.NoError(t, p.cmd.Wait(), "%s", &p.errs)
	require.Empty(t, p.marked())
}
