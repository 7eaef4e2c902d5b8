package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// command runs a command on the configuration of a background run.
func (b *background) command(args ...string) (code int, out, errs string) {
	b.t.Helper()
	var stdout, stderr strings.Builder
	code = run(b.t.Context(), append([]string{"--config", b.config}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// exits is command with an exit code that it must have.
func (b *background) exits(want int, args ...string) (out, errs string) {
	b.t.Helper()
	code, out, errs := b.command(args...)
	require.Equal(b.t, want, code, out+errs)
	return out, errs
}

// recorded is an entry of a server that writes down its processes.
func recorded(t *testing.T, faults ...mcptest.Fault) (dir string, e map[string]any) {
	t.Helper()
	dir = t.TempDir()
	return dir, entry(mcptest.Script{StateDir: dir, Faults: faults})
}

// A command of a configuration that is running uses its servers, and starts none.
func TestAttach(t *testing.T) {
	dir, server := recorded(t)
	b := startReady(t, map[string]any{"one": server}, "run")
	require.Len(t, mcptest.PIDs(dir), 1)
	for args, want := range map[string]string{
		"call one/echo {\"text\":\"hello\"}":        `^hello$`,
		"call mcp__one__echo {\"text\":\"hello\"}":  `^hello$`,
		"--json call one/echo {\"text\":\"a<b\"}":   `^\{"content":\[\{.*a<b`,
		"call one/add a=2 b=3":                      `^\{"sum":5\}$`,
		"tools":                                     `(?m)^one/echo +`,
		"tools one":                                 `(?m)^one/add  \(read-only, idempotent\)\n`,
		"tools one/add":                             `^one/add  .*\n.*\n  PARAMETER .*\n  a +number +yes `,
		"--json tools mcp__one__add":                `"name": "one/add"`,
		"--json tools":                              `"definition": \{`,
		"resources":                                 `(?m)^one +mcptest://`,
		"prompts":                                   `(?m)^one/greet +`,
		"prompt one greet name=Ada":                 `Ada`,
		"read one mcptest://text":                   `.`,
		"--json read one mcptest://text":            `"contents": \[`,
		"status":                                    `(?m)^SERVER +STATE +FOR +RESTARTS +PID +MEMORY +TOOLS +TOKENS +CALLS +IN FLIGHT +NOTE\none +ready +\S+ +0 +\d+ +\S+ +\d+ +\d+ +\d+ +0 *\n$`,
		"--json status":                             `"run": \{`,
		"--wait 10s --json prompt one greet name=x": `"messages": \[`,
	} {
		t.Run(args, func(t *testing.T) {
			out, errs := b.exits(cli.ExitOK, strings.Split(args, " ")...)
			require.Regexp(t, want, out)
			if strings.Contains(args, "--json") {
				require.Empty(t, errs)
			} else {
				require.Regexp(t, `^(\S+ answered in \S+\n)?$`, errs)
			}
		})
	}
	require.Len(t, mcptest.PIDs(dir), 1, "no command has started a process")

	_, errs := b.exits(cli.ExitOK, "doctor")
	require.Regexp(t, `^mcpvisor run \(pid \d+\) continues; doctor starts copies of its servers, because it must see a start\n$`, errs)
	require.Len(t, mcptest.PIDs(dir), 2)

	out, errs := b.exits(cli.ExitOK, "--fresh", "call", "one/echo", `{"text":"own"}`)
	require.Equal(t, "own", out)
	require.Contains(t, errs, "started own copies of 1 server ")
	require.Len(t, mcptest.PIDs(dir), 3, "--fresh has started one")

	b.stop()
	_, errs = b.exits(cli.ExitOK, "call", "one/echo", `{"text":"x"}`)
	require.Contains(t, errs, "started own copies")
}

// Errors have the exit codes, kinds and texts that they have without a running run.
func TestAttach_errors(t *testing.T) {
	servers := goodAndBad()
	servers["odd"] = map[string]any{"comand": "x"}
	b := startRun(t, servers, "run")
	b.await("  bad   evicted")
	for args, want := range map[string]struct {
		code int
		errs string
	}{
		"call good/ecco":            {cli.ExitUsage, `"kind":"unknown_tool","outcome":"not_sent","server":"good".*did you mean good/echo`},
		"call ecco":                 {cli.ExitUsage, `name tools as server/tool, as in bad/ecco \(servers: bad, good, odd\)`},
		"call lost/echo":            {cli.ExitUsage, `"kind":"unknown_server"`},
		"call bad/echo":             {cli.ExitUnavailable, `"kind":"evicted","outcome":"not_sent","server":"bad".*exit status 7`},
		"call good/fail":            {cli.ExitFailed, `"kind":"failed","outcome":"answered","server":"good","message":"good/fail reports an error"`},
		"read good x://none":        {cli.ExitFailed, `"kind":"rpc","outcome":"answered","server":"good"`},
		"prompt lost greet":         {cli.ExitUsage, `"kind":"unknown_server"`},
		"call good/add a=1 c=2":     {cli.ExitUsage, `"kind":"usage","outcome":"not_sent","server":"good","message":"good/add was not called: c is not a parameter`},
		"status goud":               {cli.ExitUsage, `"kind":"unknown_server".*no server \\"goud\\"; did you mean good`},
		"call goud/echo":            {cli.ExitUsage, `"kind":"unknown_server".*did you mean good`},
		"logs od":                   {cli.ExitUsage, `"kind":"unknown_server".*did you mean odd`},
		"start goud":                {cli.ExitUsage, `"kind":"unknown_server".*did you mean good`},
		"inspect goud":              {cli.ExitUsage, `"kind":"unknown_server".*did you mean good`},
		"tools lost":                {cli.ExitUsage, `"kind":"unknown_server"`},
		"tools bad":                 {cli.ExitUnavailable, `"server":"bad","message":"server bad is (backoff|evicted): server process ended with exit status 7`},
		"tools bad/x":               {cli.ExitUnavailable, `"server":"bad","message":"server bad is (backoff|evicted): server process ended with exit status 7`},
		"tools good/ecco":           {cli.ExitUsage, `"kind":"unknown_tool","outcome":"not_sent","server":"good","message":"there is no tool \\"good/ecco\\"; did you mean good/echo\?"`},
		"logs lost":                 {cli.ExitUsage, `"kind":"unknown_server"`},
		"restart good lost":         {cli.ExitUsage, `"kind":"unknown_server"`},
		"status":                    {cli.ExitUnavailable, `^$`},
		"call good/echo {\"text\":": {cli.ExitUsage, `not valid JSON`},
	} {
		t.Run(args, func(t *testing.T) {
			code, out, errs := b.command(append([]string{"--json"}, strings.Split(args, " ")...)...)
			require.Equal(t, want.code, code, out+errs)
			require.Regexp(t, want.errs, errs)
		})
	}
	out, _ := b.exits(cli.ExitUnavailable, "status")
	require.Regexp(t, `(?m)^bad +(evicted|backoff) .*exit status 7`, out)
	require.Regexp(t, `(?m)^odd +not configured +- +0 +- +- +0 +0 +0 +0 +`, out)
	_, errs := b.exits(cli.ExitUnavailable, "restart", "bad")
	require.Regexp(t, `^(waiting for .*\n)?mcpvisor: server bad is (backoff|evicted) after the restart: .*exit status 7`, errs)
}

// A restart starts a new process, and says which.
func TestRestart(t *testing.T) {
	dir, server := recorded(t)
	b := startRun(t, map[string]any{"one": server, "two": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")
	out, _ := b.exits(cli.ExitOK, "restart", "one", "two", "one")
	require.Regexp(t, `^one is ready after \S+, pid \d+\ntwo is ready after \S+, pid \d+\n$`, out)
	pids := mcptest.PIDs(dir)
	require.Len(t, pids, 2)
	require.Contains(t, out, "pid "+jsonText(t, pids[1]))

	out, _ = b.exits(cli.ExitOK, "--json", "restart", "one")
	var answer struct{ Restarted []restarted }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, mcptest.PIDs(dir)[2], answer.Restarted[0].PID)
}

// A restart ends the calls in flight and says so; with --drain it waits for them. None of them has crashed.
func TestRestart_calls_in_flight(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{}), "two": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")
	c, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer c.Close()
	type result struct {
		code      int
		out, errs string
	}
	begin := func(args ...string) <-chan result {
		ended := make(chan result, 1)
		go func() {
			code, out, errs := b.command(args...)
			ended <- result{code, out, errs}
		}()
		require.Eventually(t, func() bool {
			calls, err := c.Calls(t.Context(), 0)
			return err == nil && len(calls.InFlight) == 1 && !calls.InFlight[0].Queued
		}, time.Minute, 5*time.Millisecond)
		return ended
	}
	call := begin("call", "one/slow_progress", `{"steps":100,"ms":10}`)
	out, errs := b.exits(cli.ExitOK, "restart", "two", "one", "--drain")
	require.NotContains(t, errs, "call")
	require.Contains(t, out, "one is ready")
	r := <-call
	require.Equal(t, cli.ExitOK, r.code, r.errs)

	call = begin("call", "one/hang")
	_, errs = b.exits(cli.ExitOK, "restart", "two")
	require.NotContains(t, errs, "call", "it is one of another server")
	_, errs = b.exits(cli.ExitOK, "restart", "one")
	require.Contains(t, errs, "the restart ends 1 call in flight, which may have been executed; --drain waits for calls")
	r = <-call
	require.Equal(t, cli.ExitFailed, r.code)
	require.Contains(t, r.errs, "asked to restart")
	require.NotContains(t, r.errs, "crash")
	require.NotContains(t, b.stop(), "crash")
}

// On a terminal a restart that would end calls asks first.
func TestRestart_asks(t *testing.T) {
	program := buildProgram(t) // before the call, which ends after a minute
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	c, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer c.Close()
	ended := make(chan int, 1)
	go func() {
		code, _, _ := b.command("call", "one/hang")
		ended <- code
	}()
	require.Eventually(t, func() bool {
		calls, err := c.Calls(t.Context(), 0)
		return err == nil && len(calls.InFlight) == 1
	}, time.Minute, 5*time.Millisecond)
	term := newTerminal(t, shortDir(t), "XDG_RUNTIME_DIR="+os.Getenv("XDG_RUNTIME_DIR")+" "+program+" --config "+b.config+" restart one; cat")
	term.await(`(?s)the restart ends 1 call in flight, .*Restart\? \[y/N\]`)
	term.press("n", "Enter")
	term.await("nothing was restarted")
	require.Empty(t, ended)
	b.exits(cli.ExitOK, "restart", "one")
	require.Equal(t, cli.ExitFailed, <-ended)
}

// logs and restart do not start servers.
func TestLogs_needs_a_run(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, server := recorded(t)
	path := serversFile(t, map[string]any{"one": server})
	for _, command := range []string{"logs", "restart"} {
		out := toolExits(t, cli.ExitUnavailable, "-c", path, command, "one")
		require.Regexp(t, `^mcpvisor: no mcpvisor run of .*c\.json is running, and `+command+` needs one; start it with: mcpvisor --config .*c\.json run\n$`, out)
	}
	require.Empty(t, mcptest.PIDs(dir))
}

func TestLogs(t *testing.T) {
	says := func(text string) mcptest.Fault {
		return mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: text}
	}
	_, server := recorded(t, says("first line"), says("second \x1b[31mline"))
	b := startRun(t, map[string]any{"one": server, "second": entry(mcptest.Script{Faults: []mcptest.Fault{says("third")}})}, "run")
	b.await("(2 of 2 ready)")
	out, _ := b.exits(cli.ExitOK, "logs", "one")
	require.Equal(t, "first line\nsecond line\n", out)
	_, out, _ = b.command("logs", "one", "-n", "1")
	require.Equal(t, "second line\n", out)
	_, out, _ = b.command("--json", "logs", "one", "-n", "1")
	require.JSONEq(t, `{"server":"one","epoch":1,"line":"second line"}`, out)
	out, _ = b.exits(cli.ExitOK, "logs")
	require.Equal(t, "one     first line\none     second line\nsecond  third\n", out)
	_, out, _ = b.command("--json", "logs", "-n", "1")
	require.Equal(t, 2, strings.Count(out, "\n"), out)
}

// A second run of the same configuration fails, and starts no server.
func TestRun_twice(t *testing.T) {
	dir, server := recorded(t)
	b := startReady(t, map[string]any{"one": server}, "run")
	out, errs := b.exits(cli.ExitFailed, "run")
	require.Empty(t, out)
	require.Regexp(t, `^mcpvisor: another mcpvisor run \(pid \d+\) has this configuration; mcpvisor status shows its servers, and an interrupt ends it\n$`, errs)
	require.Len(t, mcptest.PIDs(dir), 1)
}

// A run whose socket cannot be made says so, and runs anyway.
func TestRun_without_socket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a directory has no meaning on Windows")
	}
	runtimeDir := shortDir(t)
	dir := filepath.Join(runtimeDir, "mcpvisor")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o755))
	b := startRunIn(t, runtimeDir, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready: ")
	b.stop()
	require.Zero(t, b.code)
	require.Regexp(t, `^other commands cannot attach to this run: .* is open to other users \(mode 0755\); run: chmod 700 `, b.errs.String())
}

// A call that waits for a server which starts is made when the server is ready.
func TestAttach_waits_for_a_start(t *testing.T) {
	slow := mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionDelay, Delay: 300 * time.Millisecond}
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{Faults: []mcptest.Fault{slow}})}, "run")
	b.await("1 server of ")
	for { // until it is registered; a slow machine may find that it is ready already
		if _, out, _ := b.command("--json", "status"); regexp.MustCompile(`"state": "(connecting|discovering|ready)"`).MatchString(out) {
			break
		}
	}
	out, _ := b.exits(cli.ExitOK, "call", "one/echo", `{"text":"late"}`)
	require.Equal(t, "late", out)
}

// status --wait waits for a run that has not started yet, and for its servers.
func TestStatus_wait_ready(t *testing.T) {
	slow := mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionDelay, Delay: 200 * time.Millisecond}
	servers := map[string]any{"one": entry(mcptest.Script{}), "two": entry(mcptest.Script{Faults: []mcptest.Fault{slow}})}
	runtimeDir := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	path := serversFile(t, servers)
	type result struct {
		code      int
		out, errs string
	}
	waited := make(chan result, 1)
	go func() {
		var out, errs strings.Builder
		code := run(t.Context(), []string{"-c", path, "--wait", "ready", "status", "--timeout", "1m"}, strings.NewReader(""), &out, &errs)
		waited <- result{code, out.String(), errs.String()}
	}()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"-c", path, "run"}, strings.NewReader(""), io.Discard, io.Discard) }()
	r := <-waited
	interrupt()
	require.Zero(t, <-ended)
	require.Equal(t, cli.ExitOK, r.code, r.out+r.errs)
	require.Regexp(t, `(?m)^one +ready .*\ntwo +ready `, r.out)
}

func TestStatus_wait(t *testing.T) {
	servers := goodAndBad()
	servers["odd"] = map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}}
	b := startRun(t, servers, "run")
	for args, want := range map[string]int{
		"--wait any status":                 cli.ExitOK,
		"--wait any status good":            cli.ExitOK,
		"--wait ready status good":          cli.ExitOK,
		"--wait ready status":               cli.ExitUnavailable, // at once: one was given up
		"--wait any status bad":             cli.ExitUnavailable,
		"--wait ready status odd":           cli.ExitUnavailable,
		"--wait ready status --timeout 1ms": cli.ExitUnavailable,
	} {
		code, out, errs := b.command(strings.Split(args, " ")...)
		require.Equal(t, want, code, args+"\n"+out+errs)
	}
	out, _ := b.exits(cli.ExitUnavailable, "status", "odd", "good")
	require.Regexp(t, `(?m)^good +ready .*\nodd +not configured .*environment variable MCPVISOR_TEST_NOT_SET is not set`, out)
	require.NotRegexp(t, `(?m)^bad`, out)
	_, errs := b.exits(cli.ExitUsage, "status", "lost")
	require.Contains(t, errs, `"lost"`)
	b.stop()
	_, errs = b.exits(cli.ExitUnavailable, "--wait", "any", "status", "--timeout", "60ms")
	require.Contains(t, errs, "no mcpvisor run of ")
	b.exits(cli.ExitOK, "--fresh", "--wait", "any", "status")
}

// Commands that start copies start none of an exclusive server that mcpvisor run has.
func TestAttach_exclusive(t *testing.T) {
	dir := t.TempDir()
	exclusive := entry(mcptest.Script{StateDir: dir})
	exclusive["exclusive"] = true
	b := startRun(t, map[string]any{"one": exclusive, "two": entry(mcptest.Script{})}, "run")
	b.await("(2 of 2 ready)")
	b.exits(cli.ExitOK, "call", "one/echo", `{"text":"attached"}`)
	_, errs := b.exits(cli.ExitUsage, "--fresh", "call", "one/echo", `{"text":"own"}`)
	require.Contains(t, errs, "server one is exclusive, and mcpvisor run (pid ")
	_, out, errs := b.command("doctor")
	require.Contains(t, out+errs, "not started, because it is exclusive and mcpvisor run has it")
	_, out, errs = b.command("--fresh", "tools")
	require.Contains(t, out, "two/echo", errs)
	require.NotContains(t, out, "one/echo")
	require.Len(t, mcptest.PIDs(dir), 1)
}

// A command that is attached names the problem of an entry that is no server, and a wait that
// ends at once prints what there is.
func TestAttach_explains(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{}), "bad": map[string]any{"args": []string{"x"}}}, "run")
	for _, args := range [][]string{{"call", "bad/x"}, {"read", "bad", "x://1"}, {"prompt", "bad", "p"}} {
		_, errs := b.exits(cli.ExitUnavailable, args...)
		require.Regexp(t, `: server "bad" has neither "command" nor "url"; .*c\.json:1\)`, errs)
	}
	_, out, errs := b.command("--wait", "any", "status", "--timeout", "1ns")
	require.Contains(t, out, "not configured")
	require.NotContains(t, errs, "canceled")

	_, errs = b.exits(cli.ExitFailed, "call", "one/hang", "--timeout", "50ms")
	require.Contains(t, errs, "raise --timeout")
	require.NotContains(t, errs, `"timeouts"`)
	for _, timeout := range []string{"0", "0s", "5", "-1s"} {
		_, errs = b.exits(cli.ExitUsage, "call", "one/hang", "--timeout="+timeout)
		require.Contains(t, errs, "must be a duration such as 30s, and more than 0")
	}
}

// tools declares to servers what call declares: that it can ask the user of a terminal. Some
// servers list other tools for that.
func TestTools_declare_forms(t *testing.T) {
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: t.Context(), In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Sources: cli.NewSources([]string{configFile(t, mcptest.Script{})})}}}
	require.NoError(t, (&toolsCmd{}).Run(inv))
	require.True(t, inv.Forms)
}

// A followed stderr continues with the next process, and ends with an interrupt or with the
// end of the run.
func TestLogs_follow(t *testing.T) {
	server := entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "listening"}}})
	b := startReady(t, map[string]any{"one": server}, "run")
	for _, ends := range []string{"interrupt", "end of the run"} {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r, w := io.Pipe()
		var errs strings.Builder
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"-c", b.config, "logs", "-f", "one"}, strings.NewReader(""), w, &errs)
			_ = w.Close()
		}()
		lines := bufio.NewScanner(r)
		require.True(t, lines.Scan())
		require.Equal(t, "listening", lines.Text())
		code, _, failed := b.command("restart", "one")
		require.Equal(t, cli.ExitOK, code, failed)
		require.True(t, lines.Scan())
		require.Equal(t, "listening", lines.Text(), "the next process")
		if ends == "interrupt" {
			interrupt()
		} else {
			b.stop()
		}
		require.False(t, lines.Scan())
		require.Equal(t, cli.ExitOK, <-ended, errs.String())
		require.Regexp(t, `(?m)^--- start \d, pid \d+ ---$`, errs.String())
	}
}

// goodAndMute are a server, and one that has not answered and has 10 minutes to do so.
func goodAndMute() map[string]any {
	return map[string]any{"good": entry(mcptest.Script{}), "mute": entryWith(map[string]any{"timeouts": map[string]any{"start": "10m"}}, hangingStart...)}
}

// A list of a running run has what its servers offer now, and names the server that does not answer in time.
func TestList_beside_a_mute_server(t *testing.T) {
	b := startRun(t, goodAndMute(), "run")
	b.await("good  ready")
	for command, has := range map[string]string{"tools": "good/echo", "resources": "mcptest://text", "prompts": "good/greet", "--json tools": `"good/echo"`} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a start may take 95 s
		var out, errs strings.Builder
		code := run(ctx, append([]string{"-c", b.config, "--wait", "1s"}, strings.Fields(command)...), strings.NewReader(""), &out, &errs)
		cancel()
		require.Equal(t, cli.ExitOK, code, errs.String())
		require.Contains(t, out.String(), has)
		require.Contains(t, errs.String(), "server mute is connecting: not ready in time; raise --wait if it is slow to start")
	}
}

// An interrupted list prints what the servers offer that are ready: those of a run, and copies.
func TestList_interrupted(t *testing.T) {
	b := startRun(t, goodAndMute(), "run")
	b.await("good  ready")
	for _, options := range []string{"--json", "--json --fresh"} {
		for delay := time.Second; ; delay *= 2 { // until the interrupt comes after good is ready
			require.Less(t, delay, 3*time.Minute)
			ctx, interrupt := context.WithCancel(t.Context())
			timer := time.AfterFunc(delay, interrupt)
			var out, errs strings.Builder
			code := run(ctx, append(strings.Fields(options), "-c", b.config, "--wait", "10m", "tools"), strings.NewReader(""), &out, &errs)
			timer.Stop()
			require.Equal(t, cli.ExitFailed, code, errs.String())
			var list struct {
				Tools []struct{ Name string } `json:"tools"`
			}
			require.NoError(t, json.Unmarshal([]byte(out.String()), &list), "%s\n%s", out.String(), errs.String())
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			require.JSONEq(t, `{"kind":"canceled","message":"interrupted before the servers were ready"}`, lines[len(lines)-1])
			if len(list.Tools) > 0 {
				require.Contains(t, errs.String(), `"server":"mute"`)
				break
			}
		}
	}
}

func TestWaitEnds(t *testing.T) {
	server := func(name string, state supervisor.State) mcpvisor.ServerStatus {
		return mcpvisor.ServerStatus{Name: name, State: state}
	}
	one, retrying, gone := server("one", supervisor.StateReady), server("two", supervisor.StateBackoff), server("two", supervisor.StateEvicted)
	for _, c := range []struct {
		servers    []mcpvisor.ServerStatus
		ready, any bool
	}{
		{nil, false, false}, // none is registered yet
		{[]mcpvisor.ServerStatus{one}, false, true},
		{[]mcpvisor.ServerStatus{one, retrying}, false, true},
		{[]mcpvisor.ServerStatus{retrying}, false, false},
		{[]mcpvisor.ServerStatus{one, server("two", supervisor.StateReady)}, true, true},
		{[]mcpvisor.ServerStatus{one, gone}, true, true},
		{[]mcpvisor.ServerStatus{gone}, true, false},
		{[]mcpvisor.ServerStatus{server("one", supervisor.StateUnauthorized), gone}, true, true},
		{[]mcpvisor.ServerStatus{server("other", supervisor.StateReady), retrying}, false, false},
		{[]mcpvisor.ServerStatus{one, server("two", supervisor.StateAsleep)}, true, true},
		{[]mcpvisor.ServerStatus{server("one", supervisor.StateResting), retrying}, false, true},
		{[]mcpvisor.ServerStatus{one, server("two", supervisor.StateStopped)}, true, true},
		{[]mcpvisor.ServerStatus{server("one", supervisor.StateStopped), server("two", supervisor.StateStopped)}, true, true},
		{[]mcpvisor.ServerStatus{retrying, {Name: "one", State: supervisor.StateWaiting, WaitsFor: []string{"two"}}}, false, false},
		{[]mcpvisor.ServerStatus{server("two", supervisor.StateStopped), {Name: "one", State: supervisor.StateWaiting, WaitsFor: []string{"two"}}}, true, true},
	} {
		require.Equal(t, c.ready, waitEnds(waitReady, []string{"one", "two"}, c.servers), "ready: %v", c.servers)
		require.Equal(t, c.any, waitEnds(waitAny, []string{"one", "two"}, c.servers), "any: %v", c.servers)
	}
}

// The note of a server that is not ready says what it waits for, and why it went down.
func TestRunningReason(t *testing.T) {
	now := time.Now()
	soon := now.Add(2 * time.Second)
	cause := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "no such program"}
	for want, s := range map[string]mcpvisor.ServerStatus{
		"starting, 3.0s, waits for its first answer":                          {State: supervisor.StateConnecting},
		"starting, 3.0s, waits for its first answer: no such program":         {State: supervisor.StateConnecting, LastCause: cause},
		"starting, 3.0s, waits for its lists of tools, resources and prompts": {State: supervisor.StateDiscovering},
		"next try in 2.0s: no such program":                                   {State: supervisor.StateBackoff, LastCause: cause, RetryAt: &soon},
		"":                                                                    {State: supervisor.StateReady, LastCause: cause},
		"waits for db (stopped), gone (not registered)":                       {State: supervisor.StateWaiting, LastCause: cause, WaitsFor: []string{"db", "gone"}},
		"waits for its group":                                                 {State: supervisor.StateWaiting},
		"it starts when it is wanted":                                         {State: supervisor.StateAsleep, LastCause: cause},
		"its work is done; it starts when it is wanted":                       {State: supervisor.StateResting, LastCause: cause},
		"mcpvisor start one starts it, and a reload does not":                 {Name: "one", State: supervisor.StateStopped, LastCause: cause},
	} {
		s.Since = now.Add(-3 * time.Second)
		require.Equal(t, want, runningReason(s, []mcpvisor.ServerStatus{{Name: "db", State: supervisor.StateStopped}}, now))
	}
}

// status of a run shows it for a server that is starting.
func TestStatus_starting(t *testing.T) {
	b := startRun(t, map[string]any{"one": entryWith(nil, hangingStart...)}, "run")
	b.await("1 server of ")
	for { // until it is registered
		if _, out, _ := b.command("--json", "status"); strings.Contains(out, `"state": "connecting"`) {
			require.Regexp(t, `"reason": "starting, \S+, waits for its first answer"`, out)
			return
		}
	}
}

// The row of a server counts the processes that run beside it.
func TestStatus_counts_copies(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: t.Context(), Out: &out, Err: &out}}}
	require.NoError(t, inv.printRunning([]statusEntry{{ServerStatus: mcpvisor.ServerStatus{Name: "a", State: supervisor.StateReady, Session: &mcpvisor.SessionInfo{PID: 7}, Copies: []int{8, 9}}}}))
	require.Contains(t, out.String(), " 7 and 2 more ")
}
