package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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

// scripts are what the servers do. The last one is served over HTTP, and the others are processes.
var scripts = []mcptest.Script{
	{Name: "calc", Tools: []mcptest.ToolDef{{Name: "add"}, {Name: "count"}, {Name: "div", Text: "division by zero", IsError: true}}},
	{Name: "files", Tools: []mcptest.ToolDef{{Name: "read", Text: "let it crash"}, {Name: "count"}, {Name: "slow", As: "count"}, {Name: "search"}},
		// The first process executes slow and does not answer it. The third and the fourth
		// start fail.
		Faults: []mcptest.Fault{
			{At: mcptest.StageAnswer, Tool: "slow", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour},
			{At: mcptest.StageStart, Starts: []int{3, 4}, Do: mcptest.ActionStderrLine, Text: "NOTES_DIR is not set"},
			{At: mcptest.StageStart, Starts: []int{3, 4}, Do: mcptest.ActionExit, Code: 1},
		}},
	// The first process works on a call, and exits in the middle of the answer.
	{Name: "flaky", Tools: []mcptest.ToolDef{{Name: "commit", As: "count"}},
		Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "commit", Do: mcptest.ActionExit, Code: 3}}},
	{Name: "legacy", Versions: []string{"2025-11-25"}, Tools: []mcptest.ToolDef{{Name: "convert"}, {Name: "search"}}},
	// A call makes it stop reading: it lives, and answers no request.
	{Name: "stuck", Tools: []mcptest.ToolDef{{Name: "think"}, {Name: "count"}},
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "think", Do: mcptest.ActionHangAll}}},
	{Name: "remote", Tools: []mcptest.ToolDef{{Name: "fetch", Text: "hello from afar"}, {Name: "count"}}},
}

// servers are the servers of the demo, and the directory of their state.
type servers struct {
	dir    string
	specs  []mcpvisor.ServerSpec
	remote *mcptest.HTTPServer // the server over HTTP, in this process
}

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "mcpvisor-demo-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir}
	for _, script := range scripts {
		script.StateDir = s.stateDir(script.Name)
		if err := os.Mkdir(script.StateDir, 0o700); err != nil {
			return nil, err
		}
		spec := mcpvisor.ServerSpec{Name: script.Name, Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(retries, baseDelay, supervisor.WithStableAfter(stableAfter))}
		switch script.Name {
		case "legacy":
			spec.Policy = supervisor.NoRetry()
		case "stuck":
			spec.Probe = probe
		case "remote":
			s.remote = mcptest.NewHTTP(script)
			spec.Stdio, spec.HTTP = nil, &mcpvisor.HTTP{URL: s.remote.URL}
		}
		s.specs = append(s.specs, spec)
	}
	return s, nil
}

// stateDir is where a server writes down its executions and processes.
func (s *servers) stateDir(name string) string { return filepath.Join(s.dir, name) }

// close ends the server over HTTP, and returns all processes that the others have started.
func (s *servers) close() (processes []int) {
	s.remote.Close()
	for _, spec := range s.specs {
		processes = append(processes, mcptest.PIDs(s.stateDir(spec.Name))...)
	}
	return processes
}
