package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/certs"
)

// process is a node process.
type process struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// nodes are the nodes of one cluster. Their folder has their logs and certificates.
type nodes struct {
	config    nodeConfig
	authority *certs.Authority
	all       map[string]*process
}

func newNodes(c nodeConfig) *nodes {
	check(os.Mkdir(c.Folder, 0o700))
	n := &nodes{config: c, authority: must(certs.NewAuthority("bench")), all: map[string]*process{}}
	cert, _, err := n.authority.PEM()
	check(err)
	check(os.WriteFile(filepath.Join(c.Folder, "authority.pem"), cert, 0o600))
	return n
}

// start starts a node, and waits until all nodes see all.
func (n *nodes) start(id string) {
	cert, key, err := n.authority.Issue(id, "127.0.0.1")
	check(err)
	check(os.WriteFile(filepath.Join(n.config.Folder, id+".pem"), slices.Concat(cert, key), 0o600))
	c := n.config
	c.Node = id
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), c.variable())
	cmd.Stderr = must(os.Create(filepath.Join(c.Folder, id+".stderr")))
	n.all[id] = &process{cmd: cmd, in: json.NewEncoder(must(cmd.StdinPipe())), out: json.NewDecoder(bufio.NewReader(must(cmd.StdoutPipe())))}
	check(cmd.Start())
	n.read(id) // it has joined
	for id := range n.all {
		for end := now() + answerLimit; n.ask(id, question{Op: "members"}).Members != len(n.all); time.Sleep(20 * time.Millisecond) {
			if now() > end {
				panic("node " + id + " does not see the others")
			}
		}
	}
}

// answerLimit is how long a node may take for an answer; then it is killed.
const answerLimit = time.Minute

func (n *nodes) read(id string) (a answer) {
	p := n.all[id]
	late := time.AfterFunc(answerLimit, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.out.Decode(&a); err != nil {
		panic(fmt.Errorf("node %s does not answer: %w", id, err))
	}
	if a.Error != "" {
		panic(errors.New("node " + id + ": " + a.Error))
	}
	return a
}

func (n *nodes) ask(id string, q question) answer {
	check(n.all[id].in.Encode(q))
	return n.read(id)
}

// kill ends a node as kill -9 does. It returns when that was.
func (n *nodes) kill(id string) (at time.Duration) {
	p := n.all[id]
	delete(n.all, id)
	at = now()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return at
}

// close ends all nodes.
func (n *nodes) close() {
	for id := range n.all {
		n.kill(id)
	}
}

func (n *nodes) lives() []*life { return readLives(n.config.Folder) }

// resident is the resident memory of the largest node in MB.
func (n *nodes) resident() (largest float64) {
	for _, p := range n.all {
		_, after, _ := strings.Cut(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))), "VmRSS:")
		largest = max(largest, float64(must(strconv.Atoi(strings.Fields(after)[0])))/1000)
	}
	return largest
}

// etcdProgram finds etcd as the tests of module fleet do: by MCPVISOR_ETCD, in PATH, and where
// .ci/etcd puts it.
func etcdProgram() (path string, err error) {
	if path = os.Getenv("MCPVISOR_ETCD"); path != "" {
		return path, nil
	}
	for _, path := range []string{"etcd", "bin/etcd/usr/bin/etcd", "../../bin/etcd/usr/bin/etcd"} {
		if path, err := exec.LookPath(path); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("etcd is not installed; .ci/etcd fetches it from Debian, or set MCPVISOR_ETCD")
}

// startEtcd starts one member that is a cluster, with its data in a folder. stop ends it.
func startEtcd(ctx context.Context, folder string) (endpoint string, stop func()) {
	client, peer := "http://"+freeAddress(), "http://"+freeAddress()
	cmd := exec.CommandContext(ctx, must(etcdProgram()), "--data-dir", folder, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error")
	cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	check(cmd.Start())
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for range 300 {
		if response, err := http.Get(client + "/health"); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return client, stop
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	panic("etcd does not answer")
}

func freeAddress() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
