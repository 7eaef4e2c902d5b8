//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
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
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// household are hosts that share the servers of one configuration.
type household struct {
	t                  *testing.T
	program, dir, file string
	env                []string      // of hosts, beside that of the test
	progress           chan struct{} // gets a value for each progress of a call, as far as there is room
}

func newHousehold(t *testing.T, servers map[string]any) *household {
	t.Helper()
	return &household{t: t, program: buildProgram(t), dir: shortDir(t), file: serversFile(t, servers), progress: make(chan struct{}, 1)}
}

// stdio is mcpvisor stdio as a host starts it.
func (h *household) stdio(args ...string) *exec.Cmd {
	cmd := exec.Command(h.program, append([]string{"--config", h.file, "stdio"}, args...)...)
	cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+h.dir), h.env...)
	return cmd
}

// host starts mcpvisor stdio as a host does. changed counts the changes of the list of tools.
func (h *household) host(args ...string) (session *mcp.ClientSession, errs *syncBuffer, changed chan struct{}) {
	h.t.Helper()
	changed = make(chan struct{}, 100)
	cmd := h.stdio(args...)
	errs = new(syncBuffer)
	cmd.Stderr = errs
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(_ context.Context, _ *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			select {
			case h.progress <- struct{}{}:
			default:
			}
		}})
	session, err := client.Connect(h.t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(h.t, err, "%s", errs)
	h.t.Cleanup(func() { _ = session.Close() })
	return session, errs, changed
}

// run returns the process id of the mcpvisor run that serves; 0 if none does.
func (h *household) run() int {
	files, err := filepath.Glob(filepath.Join(h.dir, "mcpvisor", "*.pid"))
	require.NoError(h.t, err)
	require.LessOrEqual(h.t, len(files), 1)
	if len(files) == 0 {
		return 0
	}
	text, err := os.ReadFile(files[0])
	require.NoError(h.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// kill kills a run, and returns when it has ended: a message that it could still have received
// may have been read.
func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	awaitEnd(t, pid)
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, time.Minute, 10*time.Millisecond)
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func echo(t *testing.T, session *mcp.ClientSession, text string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fixture__echo", Arguments: map[string]any{"text": text}})
	require.NoError(t, err)
	require.False(t, result.IsError, "%v", result.Content[0].(*mcp.TextContent).Text)
	require.Equal(t, text, result.Content[0].(*mcp.TextContent).Text)
}

// Hosts share one mcpvisor run, which the first of them starts. When it is killed, each host
// keeps its session, and hears of no change. It ends when the last host has gone.
func TestStdio_run_is_killed(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	first, errs, changed := h.host()
	echo(t, first, "first")
	pid := h.run()
	require.NotZero(t, pid)
	second, _, _ := h.host()
	echo(t, second, "second")
	require.Equal(t, pid, h.run(), "one run for both")
	before, err := first.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, before.Tools)

	for range 2 {
		kill(t, pid)
		echo(t, first, "after the kill")
		echo(t, second, "after the kill")
		require.NotEqual(t, pid, h.run())
		pid = h.run()
	}
	after, err := first.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before.Tools, after.Tools)
	require.Empty(t, changed, "no list has changed: %s", errs)
	require.Equal(t, 2, strings.Count(errs.String(), "connected again"), "%s", errs)

	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	awaitEnd(t, pid)
}

// A configuration that cannot be used is the error of initialize, and what mcpvisor run has
// printed about it.
func TestStdio_run_cannot_start(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{})
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	_, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: h.stdio()}, nil)
	require.ErrorContains(t, err, "mcpvisor run has ended: ")
	require.ErrorContains(t, err, "has no usable server")
}

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
			testutil.WriteProgram(t, v1, program)
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

// questionsOf are what a server may ask, with what the answer of answering has.
var questionsOf = []struct{ method, params, want string }{
	{"elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`, `"name":"the host"`},
	{"elicitation/create", `{"mode":"url","message":"?","url":"https://example.org/login","elicitationId":"e1"}`, `"action":"accept"`},
	{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`, `"model":"the host"`},
	{"roots/list", `{}`, `"uri":"file:///of/the/host"`},
}

// answering are the options of a host that answers everything.
func answering() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			result := &mcp.ElicitResult{Action: "accept"}
			if r.Params.Mode != "url" {
				result.Content = map[string]any{"name": "the host"}
			}
			return result, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "the host", Role: "assistant", Content: &mcp.TextContent{Text: "hi"}}, nil
		},
	}
}

// open opens a session with the version, and a root.
func open(t *testing.T, transport mcp.Transport, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, opts)
	client.AddRoots(&mcp.Root{URI: "file:///of/the/host", Name: "r"})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// consult lets the server ask, and returns what it was answered.
func consult(t *testing.T, session *mcp.ClientSession, tool, method, params string) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"method": method, "params": json.RawMessage(params)}})
	require.NoError(t, err)
	return result.Content[0].(*mcp.TextContent).Text
}

// asksEverything is a server before 2026-07-28.
var asksEverything = mcptest.Script{Versions: []string{"2025-11-25"}}

// A server before 2026-07-28 may ask the host whose call it is, through each command, whatever version the host
// speaks. What the host does not answer is refused, with the reason.
func TestQuestions_through_commands(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		const refused, none = "no client was asked", `{"roots":[]}` // servers of many clients have no roots; a wrapped one is told of its client
		check := func(t *testing.T, tool, roots string, start func() mcp.Transport) {
			t.Helper()
			session := open(t, start(), version, answering())
			for _, q := range questionsOf {
				require.Contains(t, consult(t, session, tool, q.method, q.params), q.want)
			}
			require.NoError(t, session.Close())
			silent := open(t, start(), version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			for _, q := range questionsOf {
				want := refused
				if q.method == "roots/list" {
					want = roots
				}
				require.Contains(t, consult(t, silent, tool, q.method, q.params), want, q.method)
			}
			require.NoError(t, silent.Close())
		}
		t.Run("stdio "+version, func(t *testing.T) {
			h := newHousehold(t, map[string]any{"fixture": entry(asksEverything)})
			check(t, "fixture__consult", none, func() mcp.Transport { return &mcp.CommandTransport{Command: h.stdio()} })
		})
		t.Run("wrap "+version, func(t *testing.T) {
			check(t, "consult", refused, func() mcp.Transport { return &mcp.CommandTransport{Command: wrapCommand(t, asksEverything)} })
		})
		t.Run("run "+version, func(t *testing.T) {
			t.Setenv("STATE_DIRECTORY", t.TempDir())
			b := startRun(t, map[string]any{"fixture": entry(asksEverything)}, "run", "--mcp", "127.0.0.1:0")
			url := mcpURL(b)
			b.await(" ready: ")
			check(t, "fixture__consult", none, func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1} })
		})
	}
}

// mcpvisor run is killed while a host of 2026-07-28 answers: the host is told that the call may have been executed,
// and the new run does not send it.
func TestQuestions_run_is_killed(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	script := asksEverything
	script.StateDir = state
	h := newHousehold(t, map[string]any{"fixture": entry(script)})
	opts := answering()
	var kills int
	opts.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		kills++
		pid := h.run()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return nil, err
		}
		awaitEnd(t, pid)
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := open(t, &mcp.CommandTransport{Command: h.stdio()}, "2026-07-28", opts)
	text := consult(t, session, "fixture__consult", questionsOf[0].method, questionsOf[0].params)
	require.Contains(t, text, "was interrupted. Whether it had an effect is not known")
	require.Equal(t, 1, kills, "the call was made once")
	require.NotContains(t, text, "decline")
}

// A server that asks while no call is in flight, as for the roots at the begin of its session, reaches the one host of
// mcpvisor wrap. When the roots of the host change, the server is told, and asks again.
func TestQuestions_of_a_wrapped_server_without_a_call(t *testing.T) {
	answered := make(chan []*mcp.Root, 1)
	failed := make(chan error, 1)
	ask := func(ctx context.Context, session *mcp.ServerSession) {
		go func() { // the session does not wait for it
			result, err := session.ListRoots(context.WithoutCancel(ctx), nil)
			if err != nil {
				failed <- err
				return
			}
			answered <- result.Roots
		}()
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler:      func(ctx context.Context, r *mcp.InitializedRequest) { ask(ctx, r.Session) },
		RootsListChangedHandler: func(ctx context.Context, r *mcp.RootsListChangedRequest) { ask(ctx, r.Session) },
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	host.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	cmd := exec.Command(buildProgram(t), "wrap", web.URL)
	session, err := host.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	requireRoots := func(n int) {
		t.Helper()
		select {
		case roots := <-answered:
			require.Len(t, roots, n)
			require.Equal(t, "file:///work", roots[0].URI)
		case err := <-failed:
			require.NoError(t, err)
		case <-time.After(endTimeout * slowdown):
			require.FailNow(t, "no client was asked")
		}
	}
	requireRoots(1)
	host.AddRoots(&mcp.Root{URI: "file:///work2", Name: "work2"})
	requireRoots(2)
}
