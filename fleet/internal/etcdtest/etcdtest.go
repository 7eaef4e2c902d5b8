// Package etcdtest starts an etcd for tests.
package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Variable names the program etcd, if it is neither in PATH nor where .ci/etcd puts it.
const Variable = "MCPVISOR_ETCD"

// Program returns the path of etcd. It skips the test if etcd is not installed.
func Program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(Variable); path != "" {
		return path
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path
	}
	for dir := "."; ; dir = filepath.Join("..", dir) {
		path := filepath.Join(dir, "bin", "etcd", "usr", "bin", "etcd")
		if _, err := os.Stat(path); err == nil {
			path, err = filepath.Abs(path)
			require.NoError(t, err)
			return path
		}
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil || len(dir) > 40 {
			t.Skip("etcd is not installed; .ci/etcd fetches it from Debian, or set " + Variable)
		}
	}
}

// Member is one member of a cluster.
type Member struct {
	Endpoint string // http://127.0.0.1:port
	args     []string
	log      string // the file of its stderr
	program  string
	cmd      *exec.Cmd
}

// Start runs an etcd of one member, with an empty database, until the test ends.
func Start(t *testing.T) *Member {
	t.Helper()
	return StartCluster(t, 1)[0]
}

// StartCluster runs a cluster with an empty database until the test ends.
func StartCluster(t *testing.T, members int) []*Member {
	t.Helper()
	program := Program(t)
	heartbeat, election := "50", "500"
	if members > 1 { // a busy machine must not lose its leader
		heartbeat, election = "100", "1000"
	}
	all := make([]*Member, members)
	peers, cluster := make([]string, members), make([]string, members)
	for i := range all {
		peers[i] = "http://" + freeAddress(t)
		cluster[i] = fmt.Sprintf("member%d=%s", i, peers[i])
	}
	for i := range all {
		client := "http://" + freeAddress(t)
		all[i] = &Member{Endpoint: client, log: filepath.Join(t.TempDir(), "log"), program: program, args: []string{
			"--name", fmt.Sprint("member", i), "--initial-cluster", strings.Join(cluster, ","),
			"--data-dir", t.TempDir(), "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--logger", "zap", "--log-level", "fatal", "--heartbeat-interval", heartbeat, "--election-timeout", election,
		}}
		all[i].start(t)
		t.Cleanup(all[i].Kill)
	}
	for _, s := range all {
		s.wait(t)
	}
	return all
}

// Run starts the member, again after [Member.Kill], and waits until it is healthy: it has a leader.
func (s *Member) Run(t *testing.T) {
	t.Helper()
	s.start(t)
	s.wait(t)
}

// RunAll starts those members that were killed, and waits until all are healthy.
func RunAll(t *testing.T, servers ...*Member) {
	t.Helper()
	for _, s := range servers {
		s.start(t)
	}
	for _, s := range servers {
		s.wait(t)
	}
}

func (s *Member) start(t *testing.T) {
	t.Helper()
	if s.cmd != nil { // it runs: another process could not use its data, and Kill would not end this one
		return
	}
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	s.cmd.Stderr = log
	require.NoError(t, s.cmd.Start())
}

func (s *Member) wait(t *testing.T) {
	t.Helper()
	if !assert.Eventually(t, s.healthy, 30*time.Second, 50*time.Millisecond, "etcd does not answer") {
		said, _ := os.ReadFile(s.log)
		require.FailNow(t, "etcd has said: "+string(said[max(0, len(said)-4096):]))
	}
}

func (s *Member) healthy() bool {
	_, err := s.ask(http.MethodGet, "/health")
	return err == nil
}

// Leads reports whether the member is the leader of its cluster.
func (s *Member) Leads() bool {
	body, err := s.ask(http.MethodPost, "/v3/maintenance/status")
	if err != nil {
		return false
	}
	var status struct {
		Leader string `json:"leader"`
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
	}
	return json.Unmarshal(body, &status) == nil && status.Leader != "" && status.Leader == status.Header.Member
}

func (s *Member) ask(method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.Endpoint+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd answers %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

// Kill ends the member as kill -9 does.
func (s *Member) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return fmt.Sprint(l.Addr())
}
