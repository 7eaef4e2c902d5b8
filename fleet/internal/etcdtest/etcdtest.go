// Package etcdtest starts an etcd for tests.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Variable names the program etcd, if it is neither in PATH nor where .ci/etcd puts it.
const Variable = "MCPVISOR_ETCD"

// Program returns the path of etcd; it skips the test if there is none.
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

// Server is one member that is a cluster.
type Server struct {
	Endpoint string // http://127.0.0.1:port
	args     []string
	program  string
	cmd      *exec.Cmd
}

// Start runs an etcd with an empty database until the test ends.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{program: Program(t)}
	client, peer := "http://"+freeAddress(t), "http://"+freeAddress(t)
	s.Endpoint = client
	s.args = []string{
		"--data-dir", t.TempDir(), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--log-level", "error", "--heartbeat-interval", "50", "--election-timeout", "500",
	}
	s.Run(t)
	t.Cleanup(s.Kill)
	return s
}

// Run starts the member, again after [Server.Kill], and waits until it is healthy.
func (s *Server) Run(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.program, s.args...)
	s.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	s.cmd.Stderr = os.Stderr
	require.NoError(t, s.cmd.Start())
	require.Eventually(t, s.healthy, 30*time.Second, 50*time.Millisecond, "etcd does not answer")
}

func (s *Server) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Kill ends the member as kill -9 does.
func (s *Server) Kill() {
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
