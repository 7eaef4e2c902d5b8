package transport

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func newStdioDialer(spec mcpvisor.ServerSpec, opts Options) Dialer {
	hidden := veilOf(spec.Stdio, spec.Secrets...)
	d := newPipedDialer(spec, opts, func() (process, *supervisor.Cause) {
		return startChild(spec.Stdio, spec.Limits.MaxStderrLines, hidden)
	})
	d.veil = hidden
	return d
}

// killGrace is how long a killed process may take to disappear before it is
// given up as unkillable (a process stuck in the kernel).
const killGrace = 5 * time.Second

// child is an operating system process in a group of its own. All three pipes
// are ours, as *os.File: nothing in os/exec copies, so nothing in it waits for
// a grandchild that holds a pipe open.
type child struct {
	cmd     *exec.Cmd
	group   *processGroup
	stdin   *os.File
	stdout  *os.File
	errPipe *os.File
	tail    *stderrTail
	lineage string
	errDone chan struct{}
	exited  chan struct{}
	cause   *supervisor.Cause // of the exit; valid after exited
	gone    chan struct{}     // nothing is left of it in the process table
	left    error             // save for this; valid after gone
	once    sync.Once
	stays   error // what Release returns, set once

	ending            chan struct{} // our shutdown has begun
	killing           chan struct{} // the time of the group is over
	endOnce, killOnce sync.Once

	mu     sync.Mutex
	reaped bool // the group's id is not ours any more
}

func startChild(s *mcpvisor.Stdio, lines int, hidden veil) (*child, *supervisor.Cause) {
	if s.Dir != "" {
		if st, err := os.Stat(s.Dir); err != nil || !st.IsDir() {
			return nil, &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err,
				Message: fmt.Sprintf("working directory %q does not exist or is no directory; create it or change Dir", s.Dir)}
		}
	}
	cmd := exec.Command(s.Command, s.Args...)
	if cmd.Err != nil {
		return nil, spawnCause(s.Command, cmd.Err)
	}
	cmd.Dir, cmd.Env = s.Dir, childEnv(s)
	c := &child{cmd: cmd, tail: newStderrTail(lines, hidden),
		errDone: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
		ending: make(chan struct{}), killing: make(chan struct{})}
	if !s.KeepDaemons {
		if c.lineage = newLineage(); c.lineage != "" {
			cmd.Env = append(cmd.Env, lineageEntry(c.lineage))
		}
	}
	openBeforeExec(cmd)
	var theirs []*os.File
	pipe := func(read bool) (mine, other *os.File, err error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		if read {
			r, w = w, r
		}
		theirs = append(theirs, r)
		return w, r, nil
	}
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	var in, out, errw *os.File
	var err error
	if c.stdin, in, err = pipe(false); err == nil {
		if c.stdout, out, err = pipe(true); err == nil {
			c.errPipe, errw, err = pipe(true)
		}
	}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errw
		c.group, err = startInGroup(cmd, c.lineage)
	}
	closeAll(theirs...)
	if err != nil {
		closeAll(c.stdin, c.stdout, c.errPipe)
		return nil, spawnCause(s.Command, err)
	}
	go func() {
		defer close(c.errDone)
		_, _ = io.Copy(c.tail, c.errPipe)
	}()
	go c.reap()
	return c, nil
}

// reap waits for the exit, kills what is left of the group while its id is
// still ours, and gives stderr a moment to arrive. Then, when the end is known, it
// looks for those that have left the group, and reaps the process.
//
// After a crash the group is killed at once, so that the end is seen at once. In
// our own shutdown a wrapper may end before the server behind it, which has the
// whole time.
func (c *child) reap() {
	late := time.AfterFunc(forkTime, c.markDescendants)
	status := c.group.waitExit()
	late.Stop()
	select {
	case <-c.ending:
		c.group.awaitEmpty(c.lineage, c.killing)
	default:
	}
	c.group.kill()
	t := time.NewTimer(lastWords)
	select {
	case <-c.errDone:
	case <-t.C:
	}
	t.Stop()
	c.cause = exitCause(status)
	close(c.exited)
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	if c.lineage != "" {
		c.left = endLineage(c.lineage)
	}
	c.group.reaping()
	_ = c.cmd.Wait()
	c.group.reaped()
	close(c.gone)
}

// forkTime is how long a fork may take that has begun when the server was marked.
const forkTime = 100 * time.Millisecond

// markDescendants marks what the server has started, as long as its number is ours.
func (c *child) markDescendants() {
	c.signal(func() { markDescendants(c.PID(), c.lineage) })
}

func (c *child) Stdin() io.WriteCloser   { return c.stdin }
func (c *child) Stdout() io.ReadCloser   { return c.stdout }
func (c *child) Widen()                  { widenPipe(c.stdout) }
func (c *child) PID() int                { return c.cmd.Process.Pid }
func (c *child) Exited() <-chan struct{} { return c.exited }
func (c *child) Exiting() bool           { return isExiting(c.PID()) }

func (c *child) Exit() *supervisor.Cause {
	select {
	case <-c.exited:
		cause := *c.cause
		cause.Stderr = c.tail.lines()
		return &cause
	default:
		return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server is running", Stderr: c.tail.lines()}
	}
}

// Terminate follows the shutdown of the specification (MCP, lifecycle,
// shutdown, stdio): close stdin, then SIGTERM, then SIGKILL, each to the group. It
// has ended when all of the group has.
func (c *child) Terminate(grace time.Duration) {
	c.endOnce.Do(func() { close(c.ending) })
	c.markDescendants()
	_ = c.stdin.Close()
	for _, step := range []struct {
		act  func()
		wait time.Duration
	}{{func() {}, grace / 2}, {c.group.terminate, grace - grace/2}, {c.killGroup, killGrace}} {
		c.signal(step.act)
		t := time.NewTimer(step.wait)
		select {
		case <-c.exited:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

func (c *child) killGroup() {
	c.killOnce.Do(func() { close(c.killing) })
	c.group.kill()
}

// signal sends a signal to the group, unless its id may be somebody else's by
// now.
func (c *child) signal(send func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		send()
	}
}

func (c *child) Release() error {
	c.once.Do(func() {
		_ = c.stdin.Close()
		_ = c.stdout.Close()
		_ = c.errPipe.Close()
		<-c.errDone
		select {
		case <-c.exited:
		default:
			if isDead(c.PID()) { // and only what is left of its group was waited for
				c.killOnce.Do(func() { close(c.killing) })
				<-c.exited
			}
		}
		select {
		case <-c.exited:
			<-c.gone
			c.stays = c.left
		default:
			c.stays = fmt.Errorf("process %d (%s) is still running after SIGKILL", c.PID(), c.cmd.Path)
		}
	})
	return c.stays
}
