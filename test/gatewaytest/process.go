// Package gatewaytest holds what the storms of the gateway have in common: a `mcpvisor run` that is
// killed and comes back, hosts without an SDK, and a ledger of what callers were told about their calls.
package gatewaytest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// Process is a process of `mcpvisor run --mcp` that comes back at the same address.
type Process struct {
	t       *testing.T
	args    []string
	env     []string
	address string
	cmd     *exec.Cmd

	mu     sync.Mutex    // guards the fields below
	starts int           // so far
	up     chan struct{} // closed while it is up
}

// Start starts a run of a configuration. Its socket and its session key are in dir, whose path must be
// short. The test ends it.
func Start(t *testing.T, program, config, dir string) *Process {
	t.Helper()
	p := &Process{t: t, address: "127.0.0.1:" + freePort(t), env: append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "STATE_DIRECTORY="+dir), up: make(chan struct{})}
	p.args = []string{program, "--config", config, "run", "--mcp", p.address}
	t.Cleanup(p.Stop)
	p.Restart()
	return p
}

// freePort returns a port that the system does not give to connections, so that no program takes it
// while the run is down.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			_, port, _ := net.SplitHostPort(l.Addr().String())
			require.NoError(t, l.Close())
			return port
		}
	}
}

// URL is the address of the MCP server.
func (p *Process) URL() string { return "http://" + p.address + "/mcp" }

// Restart starts the process, after Kill or Stop, and returns when it serves. Its servers may still start then.
func (p *Process) Restart() {
	p.t.Helper()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	var errs testutil.LockedBuffer
	cmd.Env, cmd.Stderr = p.env, &errs
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.cmd = cmd
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(p.t, err, "%s", errs.String())
		if strings.HasPrefix(line, "MCP server: ") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	close(p.up)
}

// Kill ends the process by SIGKILL, and returns when it has ended.
func (p *Process) Kill() { p.end((*os.Process).Kill) }

// Stop ends the process by an interrupt, if it runs, and returns when it has ended.
func (p *Process) Stop() {
	p.end(func(process *os.Process) error { return process.Signal(os.Interrupt) })
}

func (p *Process) end(by func(*os.Process) error) {
	if p.cmd == nil {
		return
	}
	p.mu.Lock()
	p.up = make(chan struct{})
	p.mu.Unlock()
	_ = by(p.cmd.Process)
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Await returns how often the process was started, when it is up.
func (p *Process) Await() (starts int) {
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	select {
	case <-up:
	case <-p.t.Context().Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}
