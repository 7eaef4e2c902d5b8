package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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
	require.Contains(t, b.await("  reload: "), "  reload: add comes; replace changes; remove goes; 1 unchanged")
	require.Regexp(t, `  reloaded in \S+, 3 servers$`, b.await("  reloaded in "))
	b.drain()
	for n := range 4 { // each changes another server
		comes := entry(mcptest.Script{Name: fmt.Sprint(n)})
		b.write(map[string]any{"stays": stays, "changes": changes, "comes": comes})
		code, out, errs := b.command("reload")
		require.Equal(t, cli.ExitOK, code, out+errs)
	}
	close(stop)
	calls.Wait()
	close(failed)
	require.Empty(t, failed)

	code, out, errs := b.command("--wait", "ready", "status")
	require.Equal(t, cli.ExitOK, code, out+errs)
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
	code, _, errs := b.command("reload")
	require.Equal(t, cli.ExitUsage, code, errs)
	require.Regexp(t, `mcpvisor: config .*c\.json:1:\d+: .*; mcpvisor run \(pid \d+\) keeps its servers as they are\n$`, errs)
	after, errs := b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	require.Regexp(t, `"kind":"warning","message":"config .*c\.json:1:\d+: .*; mcpvisor run \(pid \d+\) keeps its servers as they are"`, errs)

	one := servers["one"]
	servers["one"] = map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}}
	b.write(servers)
	code, out, errs := b.command("reload")
	require.Equal(t, cli.ExitUnavailable, code, errs)
	require.Regexp(t, `(?m)^one +keep +.*MCPVISOR_TEST_NOT_SET is not set.*\n1 server unchanged, `, out)
	after, _ = b.status(cli.ExitUnavailable)
	require.Equal(t, before.pids(), after.pids())
	require.Regexp(t, `its entry cannot be used, so it runs by the earlier one: .*MCPVISOR_TEST_NOT_SET`, after.Servers[0].Outdated)

	servers["one"] = one
	b.write(servers)
	code, out, errs = b.command("reload")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `^2 servers unchanged, reloaded in `, out)
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
	code, out, errs := b.command("reload")
	require.Equal(t, cli.ExitOK, code, out+errs)
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
	code, out, errs := b.command("reload", "--dry-run")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `^SERVER +CHANGE +NOTE *\none +replace *\n1 server unchanged\n$`, out)
	after, _ := b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	code, out, errs = b.command("--json", "reload")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `"action": "replace"`, out)
	code, _, errs = b.command("--wait", "ready", "status")
	require.Equal(t, cli.ExitOK, code, errs)
	after, _ = b.status(cli.ExitOK)
	require.NotEqual(t, before.pids()["one"], after.pids()["one"])
	require.Equal(t, before.pids()["two"], after.pids()["two"])
}

// The commands that change the file change what runs.
func TestAdd_and_remove_beside_a_run(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready  ")
	b.drain()
	p := mcptest.Stdio(mcptest.Script{})
	args := []string{"add", "two"}
	for name, value := range p.Env {
		args = append(args, "--env", name+"="+value)
	}
	code, out, errs := b.command(append(append(args, "--", p.Command), p.Args...)...)
	require.Equal(t, cli.ExitOK, code, out+errs)
	require.Regexp(t, `(?m)^mcpvisor run \(pid \d+\) has read it(: add two)?\nnext: mcpvisor status two\n$`, errs)
	code, out, errs = b.command("--wait", "ready", "status")
	require.Equal(t, cli.ExitOK, code, out+errs)
	require.Regexp(t, `(?m)^two +ready `, out)
	code, _, errs = b.command("remove", "one")
	require.Equal(t, cli.ExitOK, code, errs)
	after, _ := b.status(cli.ExitOK)
	require.Len(t, after.Servers, 1)
	require.Equal(t, "two", after.Servers[0].Name)

	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".cursor"), 0o700))
	require.NoError(t, os.Rename(configFile(t, mcptest.Script{}), filepath.Join(home, ".cursor", "mcp.json")))
	code, out, errs = b.command("import", "--write", "cursor")
	require.Equal(t, cli.ExitOK, code, out+errs)
	require.Regexp(t, `(?m)^mcpvisor run \(pid \d+\) has read it`, errs)
	code, out, errs = b.command("--wait", "ready", "status")
	require.Equal(t, cli.ExitOK, code, out+errs)
	require.Regexp(t, `(?m)^one +ready `, out)
}

// What the run prints has no reader, and it reloads anyway.
func TestReload_does_not_wait_for_the_output(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready  ")
	for n := range 5 {
		b.write(map[string]any{"one": entry(mcptest.Script{Name: strings.Repeat("x", n+1)})})
		code, out, errs := b.command("reload")
		require.Equal(t, cli.ExitOK, code, out+errs)
	}
}
