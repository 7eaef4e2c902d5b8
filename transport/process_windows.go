package transport

import (
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// processGroup is a job object: what the child starts belongs to it too, and
// everything in it ends when the last handle is closed, also when this process
// is killed.
type processGroup struct {
	cmd *exec.Cmd
	job windows.Handle
}

func startInGroup(cmd *exec.Cmd, _ string) (*processGroup, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	if h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)); err == nil {
		_ = windows.AssignProcessToJobObject(job, h)
		_ = windows.CloseHandle(h)
	}
	return &processGroup{cmd: cmd, job: job}, nil
}

// openBeforeExec does nothing here: a process that cannot be started holds up the
// thread that starts it, and nothing else.
func openBeforeExec(*exec.Cmd) {}

func (g *processGroup) waitExit() *os.ProcessState {
	_ = g.cmd.Wait()
	return g.cmd.ProcessState
}

// terminate does nothing: Windows has no request that every program hears.
func (g *processGroup) terminate() {}

func (g *processGroup) kill() {
	_ = windows.TerminateJobObject(g.job, 1)
	_ = g.cmd.Process.Kill()
}

// awaitEmpty does nothing here: what is left in the job ends with its first process.
func (g *processGroup) awaitEmpty(string, <-chan struct{}) {}

func (g *processGroup) reaping() {}

func (g *processGroup) reaped() { _ = windows.CloseHandle(g.job) }

// exitCause puts an exit status in words; state is nil if waiting for it failed.
func exitCause(state *os.ProcessState) *supervisor.Cause {
	if state == nil {
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server process ended, exit status unknown"}
	}
	code := state.ExitCode()
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code,
		Message: fmt.Sprintf("server process ended with exit status %d", code)}
}

// widenPipe does nothing here: the size of a pipe is the system's.
func widenPipe(*os.File) {}
