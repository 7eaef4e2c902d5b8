package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// servers are the servers of the demo, and the directory of their state.
type servers struct {
	dir    string
	remote *mcptest.HTTPServer // the server over HTTP, in this process
}

// serverNames are the servers that are processes.
var serverNames = []string{"calc", "files", "flaky", "legacy", "stuck"}

// stableAfter is how long a server must be ready until its retry budget is full again.
const stableAfter = time.Second

// probe checks the server that hangs: after 300 ms without a message it must answer one of two
// requests, each within 700 ms.
var probe = mcpvisor.Probe{Interval: 300 * time.Millisecond, Timeout: 700 * time.Millisecond, Failures: 2}

// The retry policy of all servers but legacy: 500 ms, 1 s, 2 s.
const (
	retries   = 3
	baseDelay = 500 * time.Millisecond
)

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "mcpvisor-demo-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir}
	for _, name := range append(serverNames, "remote") {
		if err := os.Mkdir(s.stateDir(name), 0o700); err != nil {
			return nil, err
		}
	}
	s.remote = mcptest.NewHTTP(mcptest.Script{Name: "remote", StateDir: s.stateDir("remote"), Tools: []mcptest.ToolDef{{Name: "fetch", Text: "hello from afar"}, {Name: "count"}}})
	return s, nil
}

// stateDir is where a server writes down its executions and processes.
func (s *servers) stateDir(name string) string { return filepath.Join(s.dir, name) }

// specs returns the specs of the servers.
func (s *servers) specs() []mcpvisor.ServerSpec {
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
		// The first process works on a call, and exits in the middle of the answer.
		"flaky": {Tools: []mcptest.ToolDef{{Name: "commit", As: "count"}},
			Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "commit", Do: mcptest.ActionExit, Code: 3}}},
		// A call makes it stop reading: it lives, and answers no request.
		"stuck": {Tools: []mcptest.ToolDef{{Name: "think"}, {Name: "count"}},
			Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "think", Do: mcptest.ActionHangAll}}},
		"legacy": {Versions: []string{"2025-11-25"}, Tools: []mcptest.ToolDef{{Name: "convert"}, {Name: "search"}}},
	}
	var specs []mcpvisor.ServerSpec
	for _, name := range serverNames {
		script := scripts[name]
		script.Name, script.StateDir = name, s.stateDir(name)
		spec := mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(script), Policy: retry}
		switch name {
		case "legacy":
			spec.Policy = supervisor.NoRetry()
		case "stuck":
			spec.Probe = probe
		}
		specs = append(specs, spec)
	}
	return append(specs, mcpvisor.ServerSpec{Name: "remote", HTTP: &mcpvisor.HTTP{URL: s.remote.URL}, Policy: retry})
}

// close ends the server over HTTP, and returns all processes that the others have started.
func (s *servers) close() (processes []int) {
	s.remote.Close()
	for _, name := range serverNames {
		processes = append(processes, mcptest.PIDs(s.stateDir(name))...)
	}
	return processes
}
