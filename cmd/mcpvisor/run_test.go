package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// background is a `run` command in this process.
type background struct {
	t         *testing.T
	config    string
	interrupt context.CancelFunc
	lines     chan string // what it prints; closed at its end
	code      int         // set when lines is closed
	errs      bytes.Buffer
	printed   []string
}

// startRun starts the program with args and a configuration of servers. The test ends it.
func startRun(t *testing.T, servers map[string]any, args ...string) *background {
	t.Helper()
	return startRunIn(t, shortDir(t), servers, args...)
}

// startReady is startRun until a server is ready.
func startReady(t *testing.T, servers map[string]any, args ...string) *background {
	t.Helper()
	b := startRun(t, servers, args...)
	b.await(" ready: ")
	return b
}

// shortDir returns a directory with a short path, because paths of sockets are short.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mv") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startRunIn is startRun with a directory for the socket.
func startRunIn(t *testing.T, runtimeDir string, servers map[string]any, args ...string) *background {
	t.Helper()
	return startRunOf(t, runtimeDir, serversFile(t, servers), args...)
}

// startRunOf is startRunIn with a configuration that is there.
func startRunOf(t *testing.T, runtimeDir, config string, args ...string) *background {
	t.Helper()
	before := goleak.IgnoreCurrent() // servers of the test
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	b := &background{t: t, config: config, lines: make(chan string)}
	ctx, interrupt := context.WithCancel(t.Context())
	b.interrupt = interrupt
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"--config", b.config}, args...), strings.NewReader(""), w, &b.errs)
		_ = w.Close()
	}()
	go func() {
		defer close(b.lines)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			b.lines <- scan.Text()
		}
		b.code = <-ended
	}()
	t.Cleanup(func() { b.stop() })
	return b
}

// await reads lines until one contains mark, and returns it.
func (b *background) await(mark string) string {
	b.t.Helper()
	for line := range b.lines {
		b.printed = append(b.printed, line)
		if strings.Contains(line, mark) {
			return line
		}
	}
	require.Fail(b.t, "it has ended", "%q is missing in %s\n%s", mark, strings.Join(b.printed, "\n"), b.errs.String())
	return ""
}

// stop interrupts the program. It returns all that it has printed.
func (b *background) stop() string {
	b.interrupt()
	for line := range b.lines {
		b.printed = append(b.printed, line)
	}
	return strings.Join(b.printed, "\n")
}

// goodAndBad are one server that becomes ready, and one that does not start.
func goodAndBad() map[string]any {
	return map[string]any{
		"good": entry(mcptest.Script{}),
		"bad":  entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}}}),
	}
}

func TestRun_prints_changes_until_interrupted(t *testing.T) {
	b := startRun(t, goodAndBad(), "run")
	for ready, evicted := false, false; !ready || !evicted; {
		line := b.await("  ")
		ready, evicted = ready || strings.Contains(line, " ready: "), evicted || strings.Contains(line, "evicted")
	}
	all := b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
	for _, want := range []string{`(?m)^2 servers of .*c\.json, pid \d+$`, `(?m)^\d\d:\d\d:\d\d\.\d{3}  bad   did not start: server process ended with exit status 7$`,
		`(?m)^\d\d:\d\d:\d\d\.\d{3}  good  ready: \d+ tools, .*pid \d+, started in \S+  \(1 of 2 ready\)$`, `  bad   retry 1/2 in 10ms\n`, `  bad   retry 2/2 in 20ms\n`, `  bad   evicted after 2 of 2 restarts: `,
		`(?m)^stopped 2 servers in \S+$`} {
		require.Regexp(t, want, all)
	}
	for _, unwanted := range []string{"registered", "connecting", "stable", "page:"} {
		require.NotContains(t, all, unwanted)
	}
}

func TestRun_prints_one_object_per_line(t *testing.T) {
	b := startRun(t, goodAndBad(), "--json", "run")
	b.await(`"kind":"ready"`)
	b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
	var last mcpvisor.Event
	for i, text := range b.printed {
		var ev mcpvisor.Event
		require.NoError(t, json.Unmarshal([]byte(text), &ev), text)
		if i > 0 {
			require.Equal(t, last.Seq+1, ev.Seq)
		}
		last = ev
	}
	require.Equal(t, mcpvisor.EventUnregistered, last.Kind)
}

// write replaces the configuration of a background run.
func (b *background) write(servers map[string]any) {
	b.t.Helper()
	b.writeText(jsonText(b.t, map[string]any{"mcpServers": servers}))
}

// writeText replaces it by another file of its name, as editors do.
func (b *background) writeText(text string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(b.config+".new", []byte(text), 0o600))
	require.NoError(b.t, os.Rename(b.config+".new", b.config))
}

// drain reads what the run prints from now on, and keeps it for stop.
func (b *background) drain() {
	printed := make(chan []string, 1)
	go func() {
		var all []string
		for line := range b.lines {
			all = append(all, line)
		}
		printed <- all
	}()
	b.t.Cleanup(func() {
		b.interrupt()
		<-printed
	})
}

// shown is the answer of `mcpvisor --json status`.
type shown struct {
	Servers []struct {
		Name     string           `json:"name"`
		State    supervisor.State `json:"state"`
		Reason   string           `json:"reason"`
		Outdated string           `json:"outdated"`
		Session  struct {
			PID int `json:"pid"`
		} `json:"session"`
	} `json:"servers"`
}

func (b *background) status(want int) (all shown, errs string) {
	b.t.Helper()
	code, out, errs := b.command("--json", "status")
	require.Equal(b.t, want, code, out+errs)
	require.NoError(b.t, json.Unmarshal([]byte(out), &all))
	return all, errs
}

// pids are the processes of the servers that are ready, by name.
func (all *shown) pids() map[string]int {
	pids := map[string]int{}
	for _, s := range all.Servers {
		if s.State == supervisor.StateReady {
			pids[s.Name] = s.Session.PID
		}
	}
	return pids
}

// A run takes over a changed file by itself. Servers whose entries say the same keep their
// processes, and their calls are not disturbed.
func TestRun_follows_its_file_under_load(t *testing.T) {
	stays := entry(mcptest.Script{})
	b := startRun(t, map[string]any{"stays": stays, "goes": entry(mcptest.Script{}), "changes": entry(mcptest.Script{})}, "run")
	b.await("(3 of 3 ready)")
	before, _ := b.status(cli.ExitOK)

	const callers = 16
	var calls sync.WaitGroup
	begun, stop := make(chan struct{}, callers), make(chan struct{})
	failed := make(chan string, callers)
	for i := range callers {
		calls.Go(func() {
			for n := 0; ; n++ {
				code, out, errs := b.command("call", "stays/echo", `{"text":"`+strconv.Itoa(i)+`"}`)
				if code != cli.ExitOK || out != strconv.Itoa(i) {
					failed <- out + errs
					begun <- struct{}{}
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range callers {
		<-begun
	}
	changes := entry(mcptest.Script{Name: "other"})
	b.write(map[string]any{"comes": entry(mcptest.Script{}), "changes": changes, "stays": stays})
	require.Regexp(t, `  reload: add comes; replace changes \(env\.\w+ changed\); remove goes; 1 unchanged$`, b.await("  reload: "))
	require.Regexp(t, `  changes: env\.\w+ changed; replaced$`, b.await("  changes: "))
	require.Regexp(t, `  reloaded in \S+, 3 servers$`, b.await("  reloaded in "))
	b.drain()
	for n := range 4 { // each changes another server
		comes := entry(mcptest.Script{Name: fmt.Sprint(n)})
		b.write(map[string]any{"stays": stays, "changes": changes, "comes": comes})
		b.exits(cli.ExitOK, "reload")
	}
	close(stop)
	calls.Wait()
	close(failed)
	require.Empty(t, failed)

	b.exits(cli.ExitOK, "--wait", "ready", "status")
	after, _ := b.status(cli.ExitOK)
	pids := after.pids()
	require.Len(t, pids, 3)
	require.Equal(t, before.pids()["stays"], pids["stays"])
	require.NotEqual(t, before.pids()["changes"], pids["changes"])
	require.NotContains(t, pids, "goes")
}

// What is not a configuration changes nothing, and the commands say so.
func TestRun_keeps_what_runs_if_the_file_is_broken(t *testing.T) {
	servers := map[string]any{"one": entry(mcptest.Script{}), "two": entry(mcptest.Script{})}
	b := startRun(t, servers, "run")
	b.await("(2 of 2 ready)")
	before, _ := b.status(cli.ExitOK)
	b.drain()
	b.writeText(`{"mcpServers": {"one": {"comm`)
	_, errs := b.exits(cli.ExitUsage, "reload")
	require.Regexp(t, `mcpvisor: config .*c\.json:1:\d+: .*; mcpvisor run \(pid \d+\) keeps its servers as they are\n$`, errs)
	after, errs := b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	require.Regexp(t, `"kind":"warning","message":"config .*c\.json:1:\d+: .*; mcpvisor run \(pid \d+\) keeps its servers as they are"`, errs)

	one := servers["one"]
	servers["one"] = map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}}
	b.write(servers)
	out, _ := b.exits(cli.ExitUnavailable, "reload")
	require.Regexp(t, `(?m)^one +keep +.*MCPVISOR_TEST_NOT_SET is not set.*\n1 server unchanged; `, out)
	after, _ = b.status(cli.ExitUnavailable)
	require.Equal(t, before.pids(), after.pids())
	require.Regexp(t, `its entry cannot be used, so it runs by the earlier one: .*MCPVISOR_TEST_NOT_SET`, after.Servers[0].Outdated)

	servers["one"] = one
	b.write(servers)
	out, _ = b.exits(cli.ExitOK, "reload")
	require.Regexp(t, `^2 servers unchanged; reloaded in `, out)
	after, errs = b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	require.Empty(t, errs)
}

// An entry that says overlap replaces its server when the new process is ready. If that does not start, the
// old one continues, and the views say that it is not what the file wants.
func TestReload_keeps_a_server_whose_replacement_does_not_start(t *testing.T) {
	good := entry(mcptest.Script{})
	good["overlap"] = true
	b := startRun(t, map[string]any{"one": good}, "run")
	b.await("(1 of 1 ready)")
	b.drain()
	before, _ := b.status(cli.ExitOK)
	b.write(map[string]any{"one": map[string]any{"command": "mcpvisor-test-no-such-command", "overlap": true}})
	for range 2 { // the next reload tries again
		code, out, errs := b.command("reload")
		require.NotEqual(t, cli.ExitOK, code, errs)
		require.Regexp(t, `(?m)^one +replace +.*mcpvisor-test-no-such-command`, out)
		after, _ := b.status(cli.ExitUnavailable)
		require.Equal(t, before.pids(), after.pids())
		require.Regexp(t, `its entry cannot be used, so it runs by the earlier one: .*mcpvisor-test-no-such-command`, after.Servers[0].Outdated)
	}
	next := entry(mcptest.Script{Name: "next"})
	next["overlap"] = true
	b.write(map[string]any{"one": next})
	b.exits(cli.ExitOK, "reload")
	after, _ := b.status(cli.ExitOK)
	require.Len(t, after.pids(), 1, "it is ready")
	require.NotEqual(t, before.pids(), after.pids())
}

func TestReload_dry_run_changes_nothing(t *testing.T) {
	refers := entry(mcptest.Script{})
	file := t.TempDir() + "/secret"
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	env, ok := refers["env"].(map[string]string)
	require.True(t, ok)
	env["SECRET"] = "${file:" + file + "}"
	b := startRun(t, map[string]any{"one": refers, "two": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")
	b.drain()
	before, _ := b.status(cli.ExitOK)
	require.NoError(t, os.WriteFile(file, []byte("after"), 0o600)) // which run does not follow
	out, _ := b.exits(cli.ExitOK, "reload", "--dry-run")
	require.Regexp(t, `^SERVER +CHANGE +NOTE *\none +replace +env\.SECRET changed\n1 server unchanged\n$`, out)
	after, _ := b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	out, _ = b.exits(cli.ExitOK, "--json", "reload")
	require.Regexp(t, `"action": "replace"`, out)
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	after, _ = b.status(cli.ExitOK)
	require.NotEqual(t, before.pids()["one"], after.pids()["one"])
	require.Equal(t, before.pids()["two"], after.pids()["two"])
}

// The commands that change the file change what runs.
func TestAdd_and_remove_beside_a_run(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.drain()
	p := mcptest.Stdio(mcptest.Script{})
	args := []string{"add", "two"}
	for name, value := range p.Env {
		args = append(args, "--env", name+"="+value)
	}
	_, errs := b.exits(cli.ExitOK, append(append(args, "--", p.Command), p.Args...)...)
	require.Regexp(t, `(?m)^mcpvisor run \(pid \d+\) has read it(: add two)?\nnext: mcpvisor status two\n$`, errs)
	out, _ := b.exits(cli.ExitOK, "--wait", "ready", "status")
	require.Regexp(t, `(?m)^two +ready `, out)
	b.exits(cli.ExitOK, "remove", "one")
	after, _ := b.status(cli.ExitOK)
	require.Len(t, after.Servers, 1)
	require.Equal(t, "two", after.Servers[0].Name)

	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".cursor"), 0o700))
	require.NoError(t, os.Rename(configFile(t, mcptest.Script{}), filepath.Join(home, ".cursor", "mcp.json")))
	_, errs = b.exits(cli.ExitOK, "import", "--write", "cursor")
	require.Regexp(t, `(?m)^mcpvisor run \(pid \d+\) has read it`, errs)
	out, _ = b.exits(cli.ExitOK, "--wait", "ready", "status")
	require.Regexp(t, `(?m)^one +ready `, out)
}

// What the run prints has no reader, and it reloads anyway.
func TestReload_does_not_wait_for_the_output(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	for n := range 5 {
		b.write(map[string]any{"one": entry(mcptest.Script{Name: strings.Repeat("x", n+1)})})
		b.exits(cli.ExitOK, "reload")
	}
}

// pageStatus is the answer of the page's API.
func pageStatus(t *testing.T, page string) (answer api.Status) {
	t.Helper()
	status, body := request(t, http.MethodGet, page+"api/status", "")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	return answer
}

// An entry that cannot be used is a server in every view, with its reason and its line. A
// disabled one does not count.
func TestRun_shows_entries_that_cannot_be_used(t *testing.T) {
	good := entry(mcptest.Script{})
	hasty := entry(mcptest.Script{})
	hasty["timeouts"] = map[string]any{"call": "soon"}
	servers := map[string]any{"good": good, "hasty": hasty,
		"lacks": map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}},
		"off":   map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}, "disabled": true}}
	b := startRun(t, servers, "run", "--http", "127.0.0.1:0")
	require.Regexp(t, `^3 servers of `, b.await("servers of "))
	page := pageOf(b)
	for wanted := map[string]string{"  good   ready": `\([012] of 3 ready\)`, "  lacks  evicted": `MCPVISOR_TEST_NOT_SET is not set`, "  hasty  evicted": `timeouts\.call`}; len(wanted) > 0; {
		line := b.await("  ")
		for mark, pattern := range wanted {
			if strings.Contains(line, mark) {
				require.Regexp(t, pattern, line)
				delete(wanted, mark)
			}
		}
	}
	b.drain()

	answer := pageStatus(t, page)
	require.Equal(t, []string{"good", "hasty", "lacks"}, answer.Names)
	require.Len(t, answer.Attention, 2)
	for _, a := range answer.Attention {
		require.Equal(t, api.AttentionEvicted, a.Kind)
		require.Regexp(t, `(MCPVISOR_TEST_NOT_SET is not set|"timeouts\.call").*\(.*c\.json:1\); given up$`, a.Text)
	}
	status, body := request(t, http.MethodGet, page+"readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Regexp(t, `"server": ?"lacks","state": ?"evicted","reason": ?".*MCPVISOR_TEST_NOT_SET is not set`, body)
	status, _ = request(t, http.MethodGet, page+"readyz?server=good", "")
	require.Equal(t, http.StatusOK, status)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_server_state\{.*"evicted".*"lacks".*\} 1$|^mcpvisor_server_state\{.*"lacks".*"evicted".*\} 1$`, body)
	require.Regexp(t, `(?m)^mcpvisor_config_usable{.*} 0$`, body)
	out, _ := b.exits(cli.ExitUsage, "config")
	require.Regexp(t, `(?m)^lacks +x +\S+c\.json:1 +not usable`, out)
	all, _ := b.status(cli.ExitUnavailable)
	require.Len(t, all.Servers, 3)

	servers["lacks"], servers["hasty"] = good, good
	b.write(servers)
	code, out, errs := b.command("reload") // until then they are given up, for which status does not wait
	require.Equal(t, cli.ExitOK, code, out+errs)
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	require.Empty(t, pageStatus(t, page).Attention)
	status, _ = request(t, http.MethodGet, page+"readyz", "")
	require.Equal(t, http.StatusOK, status)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_config_usable{.*} 1$`, body)

	b.writeText(`{"mcpServers": `)
	b.exits(cli.ExitUsage, "reload")
	answer = pageStatus(t, page)
	require.Len(t, answer.Attention, 1)
	require.Equal(t, api.AttentionConfiguration, answer.Attention[0].Kind)
	require.Regexp(t, `c\.json:1:\d+: .*; the servers stay as they are$`, answer.Attention[0].Text)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_config_usable{.*} 0$`, body)
	for result, n := range map[string]string{"complete": "[1-9]", "partial": "0", "refused": "[1-9]"} {
		require.Regexp(t, `(?m)^mcpvisor_config_reloads_total{.*mcpvisor_reload_result="`+result+`".*} `+n+`$`, body)
	}
}

// With --json the events of such a server name the reason, as those of any server.
func TestRun_tells_of_entries_that_cannot_be_used(t *testing.T) {
	b := startRun(t, map[string]any{"good": entry(mcptest.Script{}), "odd": map[string]any{"comand": "x"}}, "--json", "run")
	var ev mcpvisor.Event
	require.NoError(t, json.Unmarshal([]byte(b.await(`"kind":"evicted"`)), &ev))
	require.Equal(t, "odd", ev.Server)
	require.Equal(t, supervisor.CauseConfig, ev.Cause.Kind)
	require.True(t, ev.Cause.Permanent)
	require.Regexp(t, `command.*\(.*c\.json:1\)$`, ev.Cause.Message)
}

// A service manager hears when run supervises its servers, how many are ready, that it is
// alive, and that it stops.
func TestRun_notifies_the_service_manager(t *testing.T) {
	dir := shortDir(t)
	address := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Skip("no datagram sockets here: ", err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	var received []string
	awaitState := func(want string) {
		t.Helper()
		message := make([]byte, 1000)
		for {
			n, err := manager.Read(message)
			require.NoError(t, err, "%q is missing in %q", want, received)
			received = append(received, string(message[:n]))
			if strings.Contains(string(message[:n]), want) {
				return
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", "")
	b := startRunIn(t, dir, goodAndBad(), "run")
	awaitState("READY=1\nSTATUS=")
	awaitState("WATCHDOG=1")
	b.await("evicted")
	awaitState("STATUS=1 of 2 servers ready")
	b.stop()
	require.Zero(t, b.code)
	awaitState("STOPPING=1")
	require.Empty(t, b.errs.String())
}

// A manager that cannot be reached is warned of, and the servers run.
func TestRun_without_its_service_manager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	b := startRun(t, goodAndBad(), "run")
	b.await("evicted")
	b.stop()
	require.Zero(t, b.code)
	require.Contains(t, b.errs.String(), "the service manager cannot be reached")
}
