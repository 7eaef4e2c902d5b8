//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// log is what the runs that hosts have started have printed.
func (h *household) log() string {
	files, err := filepath.Glob(filepath.Join(h.dir, "mcpvisor", "*.log"))
	require.NoError(h.t, err)
	require.Len(h.t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(h.t, err)
	return string(text)
}

// requireStarted requires that hosts have started so many runs, each of which has served.
func (h *household) requireStarted(n int) {
	h.t.Helper()
	require.Equal(h.t, n, strings.Count(h.log(), "c.json, pid "), h.log())
	require.NotContains(h.t, h.log(), "another mcpvisor run", "a run was started in vain")
}

// Of hosts that find no run at the same time, one starts a run: first, and after each kill.
func TestStdio_hosts_start_one_run(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	const hosts = 8
	var sessions [hosts]*mcp.ClientSession
	atOnce := func(f func(i int)) {
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
	}
	atOnce(func(i int) { sessions[i], _, _ = h.host() })
	for n := 1; n <= 3; n++ {
		atOnce(func(i int) { echo(t, sessions[i], "all") })
		h.requireStarted(n)
		kill(t, h.run())
	}
}

// After an upgrade that removes the program of a host's command, the host starts a run by the path that it was
// started by, or else by PATH.
func TestStdio_after_an_upgrade(t *testing.T) {
	t.Parallel()
	for name, upgrade := range map[string]func(t *testing.T, bin, v2 string){
		"link": func(t *testing.T, bin, v2 string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(bin, "mcpvisor")))
			require.NoError(t, os.Symlink(v2, filepath.Join(bin, "mcpvisor")))
		},
		"PATH": func(t *testing.T, bin, v2 string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(bin))
			require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(bin), "path"), 0o700))
			require.NoError(t, os.Symlink(v2, filepath.Join(filepath.Dir(bin), "path", "mcpvisor")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
			h.t = t
			dir, built := t.TempDir(), h.program
			bin, v1 := filepath.Join(dir, "bin"), filepath.Join(dir, "v1")
			require.NoError(t, os.Mkdir(bin, 0o700))
			program, err := os.ReadFile(built)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(v1, program, 0o700))
			h.program = filepath.Join(bin, "mcpvisor")
			require.NoError(t, os.Symlink(v1, h.program))
			h.env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH")}
			session, _, _ := h.host()
			echo(t, session, "before")

			upgrade(t, bin, built)
			require.NoError(t, os.Remove(v1))
			kill(t, h.run())
			echo(t, session, "after")
		})
	}
}

// userRun is a mcpvisor run that the user has started.
type userRun struct {
	*exec.Cmd
	t         *testing.T
	out, errs *syncBuffer
	ended     chan struct{}
}

func (h *household) user(args ...string) *userRun {
	h.t.Helper()
	u := &userRun{t: h.t, out: new(syncBuffer), errs: new(syncBuffer), ended: make(chan struct{})}
	u.Cmd = exec.Command(h.program, append([]string{"--config", h.file, "run"}, args...)...)
	u.Env, u.Stdout, u.Stderr = append(os.Environ(), "XDG_RUNTIME_DIR="+h.dir), u.out, u.errs
	require.NoError(h.t, u.Start())
	go func() {
		defer close(u.ended)
		_ = u.Wait()
	}()
	h.t.Cleanup(func() { u.end(os.Interrupt) })
	return u
}

// end ends the run by a signal, and returns when it has ended.
func (u *userRun) end(signal os.Signal) {
	_ = u.Process.Signal(signal)
	<-u.ended
}

// await waits until a stream has a text.
func await(t *testing.T, stream *syncBuffer, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(stream.String(), text) }, time.Minute, 10*time.Millisecond, "%q", text)
}

const takingOver = "which a host has started; its calls in flight"

// slowCall begins a call that is answered after about 2 s, and returns when it has begun.
func slowCall(t *testing.T, session *mcp.ClientSession, progress <-chan struct{}) (result chan *mcp.CallToolResult) {
	t.Helper()
	result = make(chan *mcp.CallToolResult, 1)
	params := &mcp.CallToolParams{Name: "fixture__slow_progress", Arguments: map[string]any{"steps": 200, "ms": 10}}
	params.SetProgressToken("p")
	go func() {
		answer, err := session.CallTool(t.Context(), params)
		if err != nil {
			answer = &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
		}
		result <- answer
	}()
	<-progress
	return result
}

func requireDone(t *testing.T, result <-chan *mcp.CallToolResult) {
	t.Helper()
	answer := <-result
	require.False(t, answer.IsError, "%v", answer.Content[0].(*mcp.TextContent).Text)
}

// A run of the user takes over from one that a host has started: calls in flight end with their results, calls that come
// meanwhile wait, a host may attach meanwhile, and no list changes. A second run of the user is refused.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	first, _, changed := h.host()
	_, err := first.ListTools(t.Context(), nil)
	require.NoError(t, err)
	second, _, _ := h.host()
	echo(t, second, "before")
	began := h.run()
	slow := slowCall(t, first, h.progress)

	u := h.user("--http", "127.0.0.1:0")
	await(t, u.errs, takingOver)
	third, _, _ := h.host()
	echo(t, third, "attached meanwhile")
	echo(t, second, "waited")
	requireDone(t, slow)
	awaitEnd(t, began)
	require.Equal(t, u.Process.Pid, h.run())
	require.Contains(t, u.out.String(), "page:")
	echo(t, first, "after")
	require.Empty(t, changed)
	h.requireStarted(1)

	again := h.user("--http", "127.0.0.1:0")
	<-again.ended
	require.Contains(t, again.errs.String(), "another mcpvisor run (pid "+strconv.Itoa(u.Process.Pid))
	echo(t, first, "not disturbed")

	u.end(syscall.SIGKILL)
	echo(t, first, "after the kill") // by a run of the hosts, which the user's next one ends
	h.requireStarted(2)
	u = h.user("--http", "127.0.0.1:0")
	await(t, u.out, "page:")
	echo(t, first, "taken over again")
	require.Equal(t, u.Process.Pid, h.run())
	h.requireStarted(2)
}

// Of two runs of the user that take over at the same time one is refused.
func TestTakeOver_twice_at_once(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	session, _, _ := h.host()
	slow := slowCall(t, session, h.progress)
	one, two := h.user(), h.user()
	select {
	case <-one.ended:
		one, two = two, one
	case <-two.ended:
	}
	require.Contains(t, two.errs.String(), "another mcpvisor run (pid "+strconv.Itoa(one.Process.Pid))
	requireDone(t, slow)
	echo(t, session, "after")
	require.Equal(t, one.Process.Pid, h.run())
	h.requireStarted(1)
}

// If the run of the user does not take over, or fails afterwards, the hosts have a run of their own again.
func TestTakeOver_fails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		kill  bool
		calls bool // the run of the host has ended
	}{
		"killed while it waits":          {kill: true, calls: true},
		"after the end of the other run": {args: []string{"--journal", "/dev/null/journal"}, calls: true},
		"before it asks":                 {args: []string{"--http", "192.0.2.1:1", "--token-file", "/dev/null/token"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
			session, _, _ := h.host()
			began := h.run()
			slow := slowCall(t, session, h.progress)
			u := h.user(c.args...)
			if c.kill {
				await(t, u.errs, takingOver)
				require.NoError(t, u.Process.Kill())
			}
			<-u.ended
			requireDone(t, slow)
			if c.calls {
				awaitEnd(t, began)
			}
			echo(t, session, "after")
			require.NotContains(t, h.log(), "another mcpvisor run")
			require.Equal(t, c.calls, began != h.run())
		})
	}
}

// What the environment of the user lacks is named before the run of the host ends.
func TestTakeOver_names_what_is_missing(t *testing.T) {
	t.Parallel()
	server := entry(mcptest.Script{})
	server["env"].(map[string]string)["TOKEN"] = "${MCPVISOR_TEST_HOST_TOKEN}"
	h := newHousehold(t, map[string]any{"fixture": server, "other": entry(mcptest.Script{})})
	h.env = []string{"MCPVISOR_TEST_HOST_TOKEN=secret-of-host"}
	session, _, _ := h.host()
	echo(t, session, "before")
	u := h.user()
	await(t, u.errs, takingOver)
	require.Regexp(t, `(?m)^server fixture runs in mcpvisor run \(pid \d+\), and will not run here: .*MCPVISOR_TEST_HOST_TOKEN is not set.*\n.*taking over`, u.errs.String())
	require.NotContains(t, u.errs.String(), "server other")
	await(t, u.out, "(1 of 2 ready)")
	u.end(os.Interrupt)
	require.Eventually(t, func() bool { // by a run with the environment of the host
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fixture__echo", Arguments: map[string]any{"text": "back"}})
		return err == nil && !result.IsError
	}, time.Minute, 10*time.Millisecond)
}
