package guard

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/internal/procfs"
)

// testTicket is what the guard of a test gives back: it writes to a file which of the processes live.
type testTicket struct {
	File     string
	Failures int // of release before it succeeds
}

func releaseForTest() Release {
	attempts := 0
	return func(_ context.Context, ticket []byte) error {
		var t testTicket
		if err := json.Unmarshal(ticket, &t); err != nil {
			return err
		}
		if attempts++; attempts <= t.Failures {
			return errors.New("the store does not answer")
		}
		text := "attempt " + strconv.Itoa(attempts)
		servers, _ := os.ReadFile(t.File + ".servers")
		for _, field := range strings.Fields(string(servers)) {
			if pid, err := strconv.Atoi(field); err == nil && lives(pid) {
				text += ", while process " + field + " lives"
			}
		}
		// In one step, so that the test reads all of it.
		if err := os.WriteFile(t.File+".new", []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(t.File+".new", t.File)
	}
}

// errOK is what a test node answers.
var errOK = errors.New("ok")

const testNodeName = "MCPVISOR_TEST_NODE"

func TestMain(m *testing.M) {
	Main(releaseForTest())
	if ticket := os.Getenv(testNodeName); ticket != "" {
		runTestNode([]byte(ticket))
	}
	goleak.VerifyTestMain(m)
}

// runTestNode is the node of a test, in a process of its own. It obeys lines of its stdin, and
// answers each with a line.
func runTestNode(ticket []byte) {
	lost := new(atomic.Bool)
	g, err := Start(context.Background(), Config{Ticket: ticket, Deadline: boottime.Now() + time.Hour, OnLost: func(error) { lost.Store(true) }})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	name, value := g.Env()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "guard":
			pid := 0
			g.mu.Lock()
			if g.process != nil {
				pid = g.process.cmd.Process.Pid
			}
			g.mu.Unlock()
			fmt.Println(pid)
		case "deadline": // from now
			d, _ := time.ParseDuration(argument)
			g.SetDeadline(boottime.Now() + d)
			fmt.Println(cmp.Or(g.Confirm(context.Background()), errOK))
		case "start", "bare": // a script, with or without the entry; the first line of its output is the answer
			cmd := exec.Command("/bin/sh", "-c", argument)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if command == "start" {
				cmd.Env = append(os.Environ(), name+"="+value)
			}
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				fmt.Println(err)
				continue
			}
			line, _ := bufio.NewReader(stdout).ReadString('\n')
			fmt.Println(cmd.Process.Pid, strings.TrimSpace(line))
		case "hold":
			pid, _ := strconv.Atoi(argument)
			g.Hold(pid)
			fmt.Println("ok")
		case "lost":
			fmt.Println(lost.Load())
		case "close":
			g.Close()
			fmt.Println("ok")
		}
	}
	select {} // the test kills it
}

// testNode is the process of a node.
type testNode struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Writer
	stdout *bufio.Reader
	file   string
	ended  chan error
}

func startNode(t *testing.T, failures int) *testNode {
	t.Helper()
	n := &testNode{t: t, file: filepath.Join(t.TempDir(), "released"), ended: make(chan error, 1)}
	ticket, err := json.Marshal(testTicket{n.file, failures})
	require.NoError(t, err)
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env = append(os.Environ(), testNodeName+"="+string(ticket))
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	n.cmd.Stderr = os.Stderr
	stdin, err := n.cmd.StdinPipe()
	require.NoError(t, err)
	n.stdin = stdin
	stdout, err := n.cmd.StdoutPipe()
	require.NoError(t, err)
	n.stdout = bufio.NewReader(stdout)
	require.NoError(t, n.cmd.Start())
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		entry := testNodeName + "=" + string(ticket) // its guard has it, too
		require.Eventually(t, func() bool {
			all, err := procfs.PIDs()
			require.NoError(t, err)
			return !slices.ContainsFunc(all, func(pid int) bool { return procfs.HasEntry(pid, entry) && lives(pid) })
		}, 20*time.Second, 10*time.Millisecond, "something of the node lives")
	})
	return n
}

// ask has the node do something.
func (n *testNode) ask(format string, args ...any) string {
	n.t.Helper()
	_, err := fmt.Fprintf(n.stdin, format+"\n", args...)
	require.NoError(n.t, err)
	line, err := n.stdout.ReadString('\n')
	require.NoError(n.t, err)
	return strings.TrimSpace(line)
}

// start starts a server, and returns its pid, and that which it prints.
func (n *testNode) start(command, script string) (pid, other int) {
	n.t.Helper()
	answer := n.ask("%s %s", command, script)
	_, err := fmt.Sscan(answer, &pid, &other)
	require.NoError(n.t, err, answer)
	n.t.Cleanup(func() {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_ = syscall.Kill(other, syscall.SIGKILL)
	})
	return pid, other
}

func (n *testNode) signal(sig syscall.Signal) {
	n.t.Helper()
	require.NoError(n.t, n.cmd.Process.Signal(sig))
}

func lives(pid int) bool {
	st := procfs.ReadStat(pid)
	return st.Exists() && !st.Dead
}

// requireGone waits until the processes are gone.
func requireGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !lives(pid) }, 20*time.Second, time.Millisecond, "process %d lives", pid)
	}
}

// Scripts of servers that ignore the end of their stdin and polite signals. Each prints a pid: its
// own, or that of a process that it has started.
const (
	stubborn  = `trap "" TERM HUP INT; echo $$; while :; do sleep 600; done`
	hasLeft   = `trap "" TERM HUP INT; setsid sh -c 'trap "" TERM HUP INT; echo $$; while :; do sleep 600; done' & wait`
	noEntry   = `trap "" TERM HUP INT; env -i PATH="$PATH" sh -c 'trap "" TERM HUP INT; echo $$; while :; do sleep 600; done' & wait`
	leftNoEnv = `trap "" TERM HUP INT; env -i PATH="$PATH" setsid sh -c 'echo $$; while :; do sleep 600; done' & wait`
)

// TestGuard_stopped_node: the servers of a node that was stopped end at the deadline, and so does
// what has left their groups, or has no entry in its environment. After it continues, the node finds
// nothing of them.
func TestGuard_stopped_node(t *testing.T) {
	n := startNode(t, 0)
	all := []int{}
	for _, script := range []string{stubborn, hasLeft, noEntry, leftNoEnv} {
		pid, other := n.start("start", script)
		all = append(all, pid, other)
	}
	pid, other := n.start("bare", noEntry) // nothing has the entry
	n.ask("hold %d", pid)
	all = append(all, pid, other)
	stranger, _ := n.start("bare", stubborn)
	n.ask("deadline 300ms")
	for _, pid := range all {
		require.True(t, lives(pid))
	}
	require.NoError(t, syscall.Kill(-n.cmd.Process.Pid, syscall.SIGSTOP)) // its group: the guard is not in it
	requireGone(t, all...)
	require.True(t, lives(stranger), "a process that is no server was killed")
	require.NoFileExists(t, n.file, "the lease of a node that lives is not given back")
	n.signal(syscall.SIGCONT)
	require.Equal(t, "ok", n.ask("deadline 1h"))
	again, _ := n.start("start", stubborn) // the node has a lease again
	require.Never(t, func() bool { return !lives(again) }, 3*idleScan, idleScan)
}

// TestGuard_late_process: what appears after the deadline is killed, too.
func TestGuard_late_process(t *testing.T) {
	n := startNode(t, 0)
	n.ask("deadline 1ms")
	for range 3 {
		requireGone(t, first(n.start("start", stubborn)))
		time.Sleep(2 * tick) // so that the guard has found nothing in between
	}
}

func first(pid, _ int) int { return pid }

// TestGuard_renewed: a deadline that is moved in time ends nothing.
func TestGuard_renewed(t *testing.T) {
	n := startNode(t, 0)
	pid, _ := n.start("start", stubborn)
	until := time.Now().Add(time.Second)
	for time.Now().Before(until) {
		require.Equal(t, "ok", n.ask("deadline 20s"))
		require.True(t, lives(pid))
	}
}

// TestGuard_dead_node: when the node dies, its servers are killed, and the lease is given back when
// all are gone, not before; a store that does not answer is asked again.
func TestGuard_dead_node(t *testing.T) {
	n := startNode(t, 0)
	all := []int{}
	for range 5 {
		for _, script := range []string{stubborn, hasLeft, leftNoEnv} {
			pid, other := n.start("start", script)
			all = append(all, pid, other)
		}
	}
	require.NoError(t, os.WriteFile(n.file+".servers", []byte(strings.Trim(fmt.Sprint(all), "[]")), 0o600))
	guard, err := strconv.Atoi(n.ask("guard"))
	require.NoError(t, err)
	n.signal(syscall.SIGKILL)
	require.Equal(t, "attempt 1", n.released())
	requireGone(t, guard)
}

// TestGuard_store_does_not_answer: the lease is given back at a later attempt.
func TestGuard_store_does_not_answer(t *testing.T) {
	n := startNode(t, 2)
	pid, _ := n.start("start", stubborn)
	n.signal(syscall.SIGKILL)
	require.Equal(t, "attempt 3", n.released())
	requireGone(t, pid)
}

// released waits until the lease is given back, and returns what the guard found then.
func (n *testNode) released() string {
	n.t.Helper()
	var text []byte
	require.Eventually(n.t, func() (ok bool) {
		var err error
		text, err = os.ReadFile(n.file)
		return err == nil
	}, 20*time.Second, time.Millisecond)
	return string(text)
}

// TestGuard_replaced: a guard that dies or hangs is replaced, and the new one knows all.
func TestGuard_replaced(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			n := startNode(t, 0)
			pid, other := n.start("bare", noEntry)
			n.ask("hold %d", pid)
			old, err := strconv.Atoi(n.ask("guard"))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(old, sig))
			n.ask("deadline 1h") // a message that a guard that hangs does not answer
			require.Eventually(t, func() bool { return !lives(old) }, 20*time.Second, time.Millisecond)
			require.Eventually(t, func() bool {
				now := n.ask("guard")
				return now != "0" && now != strconv.Itoa(old)
			}, 20*time.Second, time.Millisecond)
			require.Equal(t, "false", n.ask("lost"))
			require.True(t, lives(pid), "the servers continue meanwhile")
			n.ask("deadline 200ms")
			n.signal(syscall.SIGSTOP)
			requireGone(t, pid, other)
		})
	}
}

// TestGuard_close: after a goodbye the guard is gone, and nothing is killed or given back.
func TestGuard_close(t *testing.T) {
	n := startNode(t, 0)
	pid, _ := n.start("start", stubborn)
	guard, err := strconv.Atoi(n.ask("guard"))
	require.NoError(t, err)
	require.Equal(t, "ok", n.ask("close"))
	requireGone(t, guard)
	require.True(t, lives(pid))
	n.signal(syscall.SIGKILL)
	require.NoFileExists(t, n.file)
}

// TestStart_refuses: a configuration that cannot work is refused.
func TestStart_refuses(t *testing.T) {
	_, err := Start(t.Context(), Config{})
	require.Error(t, err)
	_, err = Start(t.Context(), Config{Deadline: 1, OnLost: func(error) {}, Ticket: make([]byte, maxTicket+1)})
	require.Error(t, err)
}

// TestServers_hold: a pid that is no child of the node belongs to another program.
func TestServers_hold(t *testing.T) {
	s := newServers(os.Getpid())
	s.entry = tokenName + "=x"
	s.hold(os.Getppid())
	s.hold(1)
	s.hold(0)
	s.hold(-1)
	require.Empty(t, s.leaders)
	child := exec.Command("sleep", "600")
	require.NoError(t, child.Start())
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	s.hold(child.Process.Pid)
	require.Len(t, s.leaders, 1)
	s.forget(child.Process.Pid)
	require.Empty(t, s.leaders)
}

// TestGuard_lost: a guard that cannot be replaced is reported, once.
func TestGuard_lost(t *testing.T) {
	lost := make(chan error, 2)
	g, err := Start(t.Context(), Config{Deadline: boottime.Now() + time.Hour, OnLost: func(err error) { lost <- err }})
	require.NoError(t, err)
	g.program = filepath.Join(t.TempDir(), "nothing")
	require.NoError(t, g.process.cmd.Process.Kill())
	require.ErrorContains(t, <-lost, "no such file")
	g.SetDeadline(boottime.Now() + time.Hour)
	g.Hold(os.Getpid())
	g.Close()
	require.Empty(t, lost)
}

// TestServers_find: a member of a held group is found although its parent is gone and its
// environment has nothing.
func TestServers_find(t *testing.T) {
	s := newServers(os.Getpid())
	s.entry = tokenName + "=x"
	server := exec.Command("sh", "-c", `(sleep 600 >/dev/null & echo $!); sleep 600 >/dev/null`)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	var orphan int
	_, err = fmt.Fscan(stdout, &orphan)
	require.NoError(t, err)
	s.hold(server.Process.Pid)
	require.Eventually(t, func() bool {
		st := procfs.ReadStat(orphan)
		return st.Exists() && st.Parent != server.Process.Pid
	}, 20*time.Second, time.Millisecond)
	found, err := s.find(s.groups())
	require.NoError(t, err)
	require.Contains(t, found, orphan)
	require.Contains(t, found, server.Process.Pid)
	n, err := s.kill()
	require.NoError(t, err)
	require.Positive(t, n)
	requireGone(t, orphan, server.Process.Pid)
	require.Error(t, server.Wait())
	require.False(t, s.leaders[server.Process.Pid].exists(), "it is reaped: its id may belong to another process")
	found, err = s.find(s.groups())
	require.NoError(t, err)
	require.Empty(t, found)
	s.forget(server.Process.Pid)
}

// TestServers_held_first: what is held ends, with its descendants, even while the search of all processes does
// not; and what the search finds counts until it is gone.
func TestServers_held_first(t *testing.T) {
	s := newServers(os.Getpid())
	s.entry = tokenName + "=x"
	s.pids = func() ([]int, error) { return nil, errors.New("the machine is busy") }
	server := exec.Command("sh", "-c", leftNoEnv)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	var below int
	_, err = fmt.Fscan(stdout, &below)
	require.NoError(t, err)
	defer func() { _ = syscall.Kill(below, syscall.SIGKILL) }()
	s.hold(server.Process.Pid)
	_, err = s.kill()
	require.ErrorContains(t, err, "busy")
	requireGone(t, server.Process.Pid, below)
	require.Error(t, server.Wait())
	s.forget(server.Process.Pid)
}

// TestServers_dying: a process that was killed counts until it is gone, although it has no
// environment any longer.
func TestServers_dying(t *testing.T) {
	s := newServers(os.Getppid())
	s.entry = tokenName + "=x"
	child := exec.Command("sleep", "600") // stands for one that exits slowly
	require.NoError(t, child.Start())
	s.dying[child.Process.Pid] = procfs.ReadStat(child.Process.Pid).Start
	n, err := s.kill()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Error(t, child.Wait())
	n, err = s.kill()
	require.NoError(t, err)
	require.Zero(t, n)
	s.dying[1] = "another start"
	found, err := s.find(s.groups())
	require.NoError(t, err)
	require.Empty(t, found)
}

// TestGuard_closed_while_it_is_replaced: Close returns whenever the process of the guard has died.
func TestGuard_closed_while_it_is_replaced(t *testing.T) {
	for i, began := 0, time.Now(); i < 60 && time.Since(began) < 6*time.Second; i++ {
		g, err := Start(t.Context(), Config{Deadline: boottime.Now() + time.Hour, OnLost: func(error) {}})
		require.NoError(t, err)
		g.mu.Lock()
		process := g.process
		g.mu.Unlock()
		require.NoError(t, process.cmd.Process.Kill())
		time.Sleep(time.Duration(i) * 50 * time.Microsecond) // another moment each time
		closed := make(chan struct{})
		go func() { g.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Fatalf("Close does not return, %d × 50 µs after the end", i)
		}
	}
}
