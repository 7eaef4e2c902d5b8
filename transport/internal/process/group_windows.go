package process

import (
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// processGroup is a job object. What the child starts belongs to it, too. With
// JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE everything in it ends when the last handle is
// closed, as it is when this process is killed.
type processGroup struct {
	process *os.Process
	job     windows.Handle
}

// startInGroup starts the command and assigns it to a job object of its own.
func startInGroup(cmd *exec.Cmd, _ bool) (*processGroup, error) {
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
	return &processGroup{process: cmd.Process, job: job}, nil
}

// openBeforeExec does nothing here: a start that hangs blocks its own thread only.
func openBeforeExec(*exec.Cmd) {}

func (g *processGroup) waitExit() *os.ProcessState {
	state, _ := g.process.Wait() // nil after an error
	return state
}

// terminate does nothing: Windows has no request to end that every program receives.
func (g *processGroup) terminate() {}

func (g *processGroup) kill() {
	_ = windows.TerminateJobObject(g.job, 1)
	_ = g.process.Kill()
}

// awaitEmpty returns at once: the rest of the job is killed when its first process
// has exited.
func (g *processGroup) awaitEmpty(<-chan struct{}) {}

// reap calls wait and closes the job object.
func (g *processGroup) reap(wait func()) {
	wait()
	_ = windows.CloseHandle(g.job)
}

// exitCause describes an exit status; state is nil if waiting for it failed.
func exitCause(state *os.ProcessState) *supervisor.Cause {
	if state == nil {
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server process ended, exit status unknown"}
	}
	code := state.ExitCode()
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code,
		Message: fmt.Sprintf("server process ended with exit status %d", code)}
}
