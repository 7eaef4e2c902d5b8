//go:build linux

package fleettest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
)

// Options say what a fleet is made of.
type Options struct {
	Etcd     int // members; default 1
	Nodes    int // default 3, named a, b, c …
	TTL      time.Duration
	NoGuard  bool
	InMemory bool // servers in the processes of the nodes
	Labels   bool // each node has its id as the label "node"
	// Faulty: faults in the evidence do not fail the test.
	Faulty bool
	// Env is added to the environment of the nodes.
	Env []string
}

// Fleet is a fleet of processes, until the end of the test.
type Fleet struct {
	t    *testing.T
	o    Options
	dir  string
	Etcd []*etcdtest.Member
	// Nodes are those that were started, by id; the process of one may have ended.
	Nodes map[string]*Node
	// Authority signs the certificates of the nodes.
	Authority *certs.Authority

	servers []Server
	began   time.Duration

	mu     sync.Mutex // guards the fields below
	pauses []Pause
	killed map[int]time.Duration
}

// Node is one node with its links. Its process can be started again.
type Node struct {
	ID string
	// Stores are the links to the members of etcd, Peer that of other nodes to this one, whose
	// sources are their ids.
	Stores []*Proxy
	Peer   *Proxy

	fleet  *Fleet
	config NodeConfig
	stop   time.Duration // when its process was stopped; 0: it was not

	mu      sync.Mutex
	process *process // guarded by mu; nil: none
}

// process is one process of a node.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it is reaped

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan reply
}

// Start starts etcd and the nodes, and returns when these have joined. At the end of the test it
// ends all, and requires that the evidence is in order and that no process is left.
func Start(t *testing.T, o Options) *Fleet {
	t.Helper()
	o.Etcd, o.Nodes = cmp.Or(o.Etcd, 1), cmp.Or(o.Nodes, 3)
	f := &Fleet{
		t: t, o: o, dir: t.TempDir(), Etcd: etcdtest.StartCluster(t, o.Etcd), Nodes: map[string]*Node{},
		began: boottime.Now(), killed: map[int]time.Duration{},
	}
	var err error
	f.Authority, err = certs.NewAuthority("test")
	require.NoError(t, err)
	t.Cleanup(f.end)
	all := make([]*Node, o.Nodes)
	for i := range all {
		all[i] = f.Add(string(rune('a' + i)))
	}
	for _, n := range all {
		n.begin()
	}
	for _, n := range all {
		n.joined()
	}
	return f
}

// Add makes a node that is not started.
func (f *Fleet) Add(id string) *Node {
	f.t.Helper()
	n := &Node{ID: id, fleet: f}
	l, err := new(net.ListenConfig).Listen(f.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	listen := l.Addr().String()
	require.NoError(f.t, l.Close())
	n.Peer = StartProxy(f.t, listen, f.nodeOf)
	n.config = NodeConfig{
		ID: id, Dir: f.dir, Listen: listen, Address: n.Peer.Address, TTL: f.o.TTL, Guard: !f.o.NoGuard, InMemory: f.o.InMemory,
	}
	if f.o.Labels {
		n.config.Labels = map[string]string{"node": id}
	}
	for _, member := range f.Etcd {
		p := StartProxy(f.t, strings.TrimPrefix(member.Endpoint, "http://"), nil)
		n.Stores = append(n.Stores, p)
		n.config.Endpoints = append(n.config.Endpoints, "http://"+p.Address)
	}
	n.config.Cert, n.config.Key, err = f.Authority.Issue(id)
	require.NoError(f.t, err)
	n.config.Authority, _, err = f.Authority.PEM()
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Nodes[id] = n
	return n
}

// nodeOf names the node that has opened a connection.
func (f *Fleet) nodeOf(conn net.Conn) string {
	f.mu.Lock()
	nodes := slices.Collect(maps.Values(f.Nodes))
	f.mu.Unlock()
	ids := map[int]string{}
	for _, n := range nodes {
		if pid := n.PID(); pid != 0 {
			ids[pid] = n.ID
		}
	}
	return ids[ownerOf(conn, slices.Collect(maps.Keys(ids)))]
}

// Start starts the process of the node, and returns when it has joined.
func (n *Node) Start() {
	n.fleet.t.Helper()
	n.begin()
	n.joined()
}

// begin starts the process.
func (n *Node) begin() {
	t := n.fleet.t
	t.Helper()
	text, err := json.Marshal(n.config)
	require.NoError(t, err)
	path := filepath.Join(n.fleet.dir, n.ID+".config")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program())
	cmd.Env = append(os.Environ(), roleName+"="+roleNode, nodeName+"="+path, dirName+"="+n.fleet.dir, "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, n.fleet.o.Env...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, ended: make(chan struct{}), waiting: map[uint64]chan reply{0: make(chan reply, 1)}}
	p.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go p.listen(stdout)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
}

func (n *Node) logFile() string { return filepath.Join(n.fleet.dir, n.ID+".log") }

// joinTimeout bounds the start of a node.
const joinTimeout = 40 * time.Second

func (n *Node) joined() {
	n.fleet.t.Helper()
	_, err := n.current().await(n.fleet.t.Context(), 0, joinTimeout)
	require.NoError(n.fleet.t, err, "node %s", n.ID)
}

// current is the process of the node; it must have one.
func (n *Node) current() *process {
	n.fleet.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.NotNil(n.fleet.t, n.process, "node %s has no process", n.ID)
	return n.process
}

// PID is the process of the node; 0: none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0
	}
	return n.process.cmd.Process.Pid
}

// listen takes the replies of the process, and reaps it.
func (p *process) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 64<<10), 256<<20)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		p.mu.Lock()
		waiting := p.waiting[r.Number]
		p.mu.Unlock()
		if waiting != nil {
			waiting <- r
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

// send sends a command, and returns its number.
func (p *process) send(op string, payload any) (uint64, error) {
	text, err := json.Marshal(payload)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	line, err := json.Marshal(command{Number: p.last, Op: op, Payload: text})
	if err != nil {
		return 0, err
	}
	p.waiting[p.last] = make(chan reply, 1)
	_, err = p.stdin.Write(append(line, '\n'))
	return p.last, err
}

// await returns the reply of a command.
func (p *process) await(ctx context.Context, number uint64, timeout time.Duration) (json.RawMessage, error) {
	p.mu.Lock()
	waiting := p.waiting[number]
	p.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-waiting:
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r.Result, nil
	case <-p.ended:
		return nil, errors.New("its process has ended")
	case <-timer.C:
		return nil, fmt.Errorf("no reply within %v", timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask has a node do something, and returns the result.
func ask[T any](n *Node, op string, payload any) (T, error) {
	var result T
	p := n.current()
	number, err := p.send(op, payload)
	if err != nil {
		return result, err
	}
	text, err := p.await(n.fleet.t.Context(), number, opTimeout+time.Minute)
	if err != nil {
		return result, fmt.Errorf("node %s, %s: %w", n.ID, op, err)
	}
	return result, json.Unmarshal(text, &result)
}

// must is ask, where an error fails the test.
func must[T any](n *Node, op string, payload any) T {
	n.fleet.t.Helper()
	result, err := ask[T](n, op, payload)
	require.NoError(n.fleet.t, err)
	return result
}

// Apply makes the servers those of the fleet.
func (f *Fleet) Apply(servers []Server) {
	f.t.Helper()
	f.servers = servers
	must[uint64](f.Nodes["a"], "apply", servers)
}

// Names are the names of the servers; of the exclusive or the shared ones only.
func (f *Fleet) Names(which ...bool) (names []string) {
	for _, s := range f.servers {
		if len(which) == 0 || slices.Contains(which, s.Exclusive) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Kill ends the process of the node as kill -9 does, and returns when.
func (n *Node) Kill() time.Duration {
	n.fleet.t.Helper()
	p := n.current()
	now := boottime.Now()
	require.NoError(n.fleet.t, p.cmd.Process.Kill())
	<-p.ended
	n.mu.Lock()
	n.process = nil
	n.mu.Unlock()
	n.fleet.mu.Lock()
	defer n.fleet.mu.Unlock()
	n.fleet.killed[p.cmd.Process.Pid] = boottime.Now()
	if n.stop != 0 {
		n.fleet.pauses = append(n.fleet.pauses, Pause{p.cmd.Process.Pid, n.stop, boottime.Now()})
		n.stop = 0
	}
	return now
}

// Stop stops the process of the node, and returns when. Its servers and its guard continue.
func (n *Node) Stop() time.Duration {
	n.fleet.t.Helper()
	require.NoError(n.fleet.t, n.current().cmd.Process.Signal(syscall.SIGSTOP))
	n.stop = boottime.Now()
	return n.stop
}

// Continue takes [Node.Stop] back, and returns when.
func (n *Node) Continue() time.Duration {
	n.fleet.t.Helper()
	p := n.current()
	n.fleet.mu.Lock()
	n.fleet.pauses = append(n.fleet.pauses, Pause{p.cmd.Process.Pid, n.stop, boottime.Now()})
	n.fleet.mu.Unlock()
	n.stop = 0
	now := boottime.Now()
	require.NoError(n.fleet.t, p.cmd.Process.Signal(syscall.SIGCONT))
	return now
}

// Leave lets the node hand everything over and leave, and its process end.
func (n *Node) Leave() {
	n.fleet.t.Helper()
	must[any](n, "leave", nil)
	must[any](n, "close", nil)
	n.Kill()
}

// CutStore swallows what the node and etcd send each other.
func (n *Node) CutStore() {
	for _, p := range n.Stores {
		p.Cut(AnySource)
	}
}

// HealStore takes [Node.CutStore] back.
func (n *Node) HealStore() {
	for _, p := range n.Stores {
		p.Heal(AnySource)
	}
}

// Evidence is what the fleet has left so far.
func (f *Fleet) Evidence() *Evidence {
	f.t.Helper()
	e, err := ReadEvidence(f.dir)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Slack = callSlack
	e.Pauses = slices.Clone(f.pauses)
	maps.Copy(e.Killed, f.killed)
	return e
}

// callSlack is how long after its context a call may end on a busy machine.
const callSlack = 3 * time.Second

// end ends all processes and checks the evidence.
func (f *Fleet) end() {
	defer func() {
		f.killAll()
		for _, n := range f.Nodes {
			for _, p := range append(n.Stores, n.Peer) {
				p.Close()
			}
		}
	}()
	if f.t.Failed() {
		f.killAll()
		f.printLogs()
		return
	}
	for _, n := range f.Nodes {
		if n.PID() == 0 {
			continue
		}
		if n.stop != 0 {
			n.Continue()
		}
		n.Kill()
	}
	entry := dirName + "=" + f.dir
	deadline := time.Now().Add(f.o.TTL + 10*time.Second)
	for len(processesOf(entry)) > 0 && time.Now().Before(deadline) && !f.o.NoGuard {
		time.Sleep(20 * time.Millisecond)
	}
	var orphans []string
	if !f.o.NoGuard {
		for _, pid := range processesOf(entry) {
			orphans = append(orphans, describe(pid))
		}
	}
	var faults []string
	if !f.o.Faulty {
		faults = f.Evidence().Check()
	}
	if len(orphans)+len(faults) > 0 {
		f.t.Errorf("processes that are left: %d: %s\nfaults: %d:\n%s", len(orphans), strings.Join(orphans[:min(len(orphans), 10)], ", "),
			len(faults), strings.Join(faults[:min(len(faults), 20)], "\n"))
		f.printLogs()
	}
}

// killAll ends what is left.
func (f *Fleet) killAll() {
	for _, n := range f.Nodes {
		if n.PID() != 0 {
			n.Kill()
		}
	}
	for range 100 { // what a process starts meanwhile is found the next time
		pids := processesOf(dirName + "=" + f.dir)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// printLogs prints the last lines of what the nodes have said.
func (f *Fleet) printLogs() {
	for id, n := range f.Nodes {
		text, err := os.ReadFile(n.logFile())
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		f.t.Logf("node %s said last:\n%s", id, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// runEtcd starts all members again, which were killed.
func (f *Fleet) runEtcd() {
	f.t.Helper()
	etcdtest.RunAll(f.t, f.Etcd...)
}
