package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// servers is the client of the three servers, and the directory of their state.
type servers struct {
	dir    string
	client *facade.Client
}

// stableAfter is how long a server must be ready until its retry budget is full again.
const stableAfter = time.Second

// The retry policy of calc and files: 500 ms, 1 s, 2 s.
const (
	retries   = 3
	baseDelay = 500 * time.Millisecond
)

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "mcpvisor-demo-")
	if err != nil {
		return nil, err
	}
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	return &servers{dir: dir, client: c}, nil
}

// stateDir is where a server writes down its executions and processes.
func (s *servers) stateDir(name string) string { return filepath.Join(s.dir, name) }

// specs returns the specs of the three servers.
func (s *servers) specs() ([]mcpvisor.ServerSpec, error) {
	retry := supervisor.Retry(retries, baseDelay, supervisor.WithStableAfter(stableAfter))
	scripts := map[string]mcptest.Script{
		"calc": {Tools: []mcptest.ToolDef{{Name: "add"}, {Name: "count"},
			{Name: "div", Text: "division by zero", IsError: true}}},
		"files": {Tools: []mcptest.ToolDef{{Name: "read", Text: "let it crash"}, {Name: "count"}, {Name: "slow", As: "count"}, {Name: "search"}},
			// The first process executes slow and does not answer it. The third and the fourth
			// start fail.
			Faults: []mcptest.Fault{
				{At: mcptest.StageAnswer, Tool: "slow", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour},
				{At: mcptest.StageStart, Starts: []int{3, 4}, Do: mcptest.ActionStderrLine, Text: "NOTES_DIR is not set"},
				{At: mcptest.StageStart, Starts: []int{3, 4}, Do: mcptest.ActionExit, Code: 1},
			}},
		"legacy": {Versions: mcptest.LegacyVersions(), Tools: []mcptest.ToolDef{{Name: "convert"}, {Name: "search"}}},
	}
	var specs []mcpvisor.ServerSpec
	for _, name := range []string{"calc", "files", "legacy"} {
		script := scripts[name]
		script.Name, script.StateDir = name, s.stateDir(name)
		if err := os.Mkdir(script.StateDir, 0o700); err != nil {
			return nil, err
		}
		policy := retry
		if name == "legacy" {
			policy = supervisor.NoRetry
		}
		specs = append(specs, mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(script), Policy: policy})
	}
	return specs, nil
}

// pid returns the process of a server that is ready, or 0.
func (s *servers) pid(name string) int {
	if st, ok := s.client.ServerStatus(name); ok && st.State == supervisor.StateReady && st.Session != nil {
		return st.Session.PID
	}
	return 0
}

// kill ends the process of a server as kill -9 does. It calls announce before, so
// that the kill is printed before its effects.
func (s *servers) kill(name string, announce func(pid int)) error {
	pid := s.pid(name)
	if pid == 0 {
		return fmt.Errorf("%s has no process to kill", name)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	announce(pid)
	return process.Kill()
}

// liveProcesses returns the processes that are alive, and how many all servers have
// started.
func (s *servers) liveProcesses() (alive []int, started int) {
	for _, name := range []string{"calc", "files", "legacy"} {
		for _, pid := range mcptest.PIDs(s.stateDir(name)) {
			started++
			if mcptest.Alive(pid) {
				alive = append(alive, pid)
			}
		}
	}
	return alive, started
}

// close stops all servers.
func (s *servers) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return s.client.Close(ctx)
}
