package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// hangingStart makes a start that never ends, in either era.
var hangingStart = []mcptest.Fault{{At: mcptest.StageInitialize, Do: mcptest.ActionHang}, {At: mcptest.StageDiscover, Do: mcptest.ActionHang}}

func TestDoctor(t *testing.T) {
	says := func(text string) mcptest.Fault {
		return mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: text}
	}
	exits := mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}
	refuses := mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionError, Text: "fetch failed"}
	usage := []mcptest.Fault{says("fatal: the licence is missing")}
	for i := range 60 {
		usage = append(usage, says(fmt.Sprintf("  --option-%d  does something", i)))
	}
	clock := func(name string) map[string]any { return map[string]any{"timeouts": map[string]any{name: "1s"}} }
	for name, c := range map[string]struct {
		entry map[string]any
		args  []string
		has   []string
		lacks []string
	}{
		"start clock ends": {entryWith(clock("start"), says("connect ECONNREFUSED 127.0.0.1:5432"), hangingStart[0], hangingStart[1]), nil,
			[]string{"did not finish the handshake in time", `raise "start" in "timeouts"`, "stderr   connect ECONNREFUSED", "nothing listens at 127.0.0.1:5432: start the service"}, []string{"--wait"}},
		"wait ends": {entryWith(nil, says("connect ECONNREFUSED 127.0.0.1:5432"), hangingStart[0], hangingStart[1]), []string{"--wait", "2s"},
			[]string{"not ready in time", "stderr   connect ECONNREFUSED", "raise --wait, or leave it out"}, nil},
		"hint while it waits": {entryWith(nil, hangingStart...), []string{"--wait", "3s"},
			[]string{"waiting for one (up to 3s; --wait changes that)\n"}, nil},
		"list clock ends": {entryWith(clock("list"), says("connect ECONNREFUSED 127.0.0.1:5432"), mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionHang}), nil,
			[]string{`raise "list" in "timeouts"`, "nothing listens at 127.0.0.1:5432: start the service", "stderr   connect ECONNREFUSED"}, []string{`"start"`}},
		"list is refused": {entryWith(nil, says("getaddrinfo ENOTFOUND api.example"), refuses), nil,
			[]string{"fetch failed"}, []string{"does not look like an MCP server"}},
		"handshake is refused": {entryWith(nil, says("no database"), mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionError, Text: "no database"},
			mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionError, Text: "no database"}), nil,
			[]string{"server refused the handshake: no database", "stderr   no database", "answered with this error"}, []string{"does not look like an MCP server"}},
		"error before the usage": {entryWith(nil, append(usage, exits)...), nil,
			[]string{"stderr   fatal: the licence is missing", "lines are left out", "stderr   --option-59"}, nil},
		"directory": {entryWith(map[string]any{"cwd": filepath.Join(t.TempDir(), "none")}), nil,
			[]string{`change "cwd"`, `correct "cwd"`}, []string{"Dir", "PATH"}},
		"ends at once": {entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 0}), nil,
			[]string{"exit status 0; it ended before the handshake without output; it may not be an MCP server over stdio"}, nil},
		"relative command": {map[string]any{"command": "./absent-server"}, nil,
			[]string{"absent-server\" (it begins at the host's working directory)", `set "cwd"`, "${workspaceFolder}"}, []string{`correct "cwd"`, "Stdio"}},
		"variable is not passed": {entryWith(nil, says("missing SOME_API_KEY"), exits), nil,
			[]string{"SOME_API_KEY is set in your shell and not passed to the server", `"SOME_API_KEY": "${SOME_API_KEY}"`, `"inherit_env": true`}, nil},
		"variable is passed": {entryWith(map[string]any{"inherit_env": true}, says("missing SOME_API_KEY"), exits), nil,
			[]string{"run the command by hand"}, []string{"set in your shell"}},
		"variable is not set": {entryWith(nil, says("missing OTHER_API_KEY and ERROR"), exits), nil,
			[]string{`advice   add "env": {"OTHER_API_KEY": "${OTHER_API_KEY}"}, and set OTHER_API_KEY before`}, []string{"set in your shell"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runTool(t, append([]string{"-c", serversFile(t, map[string]any{"one": c.entry})}, append(c.args, "doctor")...)...)
			for _, text := range c.has {
				require.Contains(t, out, text)
			}
			for _, text := range append(c.lacks, "Timeouts.", "Limits.") {
				require.NotContains(t, out, text)
			}
			require.Equal(t, cli.ExitUnavailable, code)
		})
	}
}

// Status shows the stderr of a server that is still starting, too.
func TestStatus_stderr(t *testing.T) {
	path := serversFile(t, map[string]any{"one": entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "waiting for a lock"}, hangingStart[0], hangingStart[1])})
	out := toolExits(t, cli.ExitUnavailable, "-c", path, "--wait", "2s", "--json", "status")
	require.Contains(t, out, `"reason": "not ready in time; raise --wait if it is slow to start; stderr: waiting for a lock"`)
}

// An interrupt ends the wait for servers. Status and doctor print what they know, and so do lists as JSON.
func TestInterrupt_during_start(t *testing.T) {
	path := serversFile(t, map[string]any{"one": entryWith(nil, hangingStart...)})
	for command, want := range map[string]string{
		"status":                "one ",
		"--json status":         `"name": "one"`,
		"doctor":                "????  one: interrupted before it was",
		"--json doctor":         `"level": "unknown"`,
		"tools":                 "",
		"call one/echo":         "",
		"--json tools":          `{"tools":[]}`,
		"--json resources":      `{"resourceTemplates":[],"resources":[]}`,
		"--json prompts":        `{"prompts":[]}`,
		"authorize --again one": "",
	} {
		t.Run(command, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var out, errs bytes.Buffer
			done := make(chan int, 1)
			go func() {
				done <- run(ctx, append([]string{"-c", path}, strings.Fields(command)...), strings.NewReader(""), &out, &errs)
			}()
			interrupt()
			require.Equal(t, cli.ExitFailed, <-done)
			require.Contains(t, errs.String(), "interrupted before the servers were ready")
			require.NotContains(t, out.String()+errs.String(), "--wait")
			if strings.HasPrefix(want, "{") {
				require.JSONEq(t, want, out.String())
				return
			}
			require.Contains(t, out.String(), want)
			require.Equal(t, want == "", out.Len() == 0)
		})
	}
}

// The states that are known are printed although another server is still starting.
func TestStatus_interrupted_with_servers_that_are_known(t *testing.T) {
	path := serversFile(t, map[string]any{"a good one": entry(mcptest.Script{}), "slow": entryWith(nil, hangingStart...),
		"broken": entryWith(nil, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7})})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: ctx, In: strings.NewReader(""), Out: &out, Err: &out, Sources: cli.NewSources([]string{path})}}}
	file, err := inv.LoadConfig()
	require.NoError(t, err)
	c, stop, err := inv.StartServers(file, file.Specs())
	require.NoError(t, err)
	defer stop()
	good := file.Servers[0].Spec.Name
	require.NoError(t, c.WaitReady(ctx, good))
	require.Error(t, c.WaitReady(ctx, "broken"))
	interrupt()
	require.ErrorIs(t, inv.AwaitStarts(c), cli.ErrInterrupted)

	require.NoError(t, new(statusCmd).print(inv, inv.entriesOf(file, c), nil, nil))
	for _, want := range []string{
		`(?m)^` + good + ` +ready .* entry "a good one" of the file$`, `(?m)^broken +failed .*exit status 7`, `(?m)^slow .*interrupted before it was ready`,
	} {
		require.Regexp(t, want, out.String())
	}
	inv.JSON = true
	out.Reset()
	require.NoError(t, new(statusCmd).print(inv, inv.entriesOf(file, c), nil, nil))
	require.Contains(t, out.String(), `"entry": "a good one"`)
}

// The target of an entry that makes no server is not the file, and not empty.
func TestDoctor_target_of_an_unusable_entry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"off": {"command": "off-server", "disabled": true},
		"lacks": {"command": "node", "args": ["${MCPVISOR_TEST_NOT_SET}"]}, "odd": {"comand": "x"}}}`), 0o600))
	out := toolExits(t, cli.ExitUsage, "-c", path, "doctor")
	require.Regexp(t, `FAIL  lacks: .*is not set.*\n      target   node \$\{MCPVISOR_TEST_NOT_SET\}\nFAIL  odd: .*unknown key "comand".*\n(mcpvisor|$)`, out)
	out, _ = runTool(t, "-c", path, "config")
	require.Regexp(t, `(?m)^off +off-server +\S+:1 +disabled$`, out)
}

// The commands know servers behind WebSockets, and say what is wrong with one. Package websocket tests calls.
func TestCommands_with_a_WebSocket(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) }))
	defer s.Close()
	t.Setenv("SOCKET_TOKEN", "a-secret-token-0123456789")
	path := serversFile(t, map[string]any{"locked": map[string]any{"url": strings.Replace(s.URL, "http", "ws", 1), "retry": "none",
		"headers": map[string]any{"Authorization": "Bearer ${SOCKET_TOKEN}"}}})
	for command, want := range map[string]string{"status": `locked +\S+ +ws .*HTTP 401 Unauthorized`, "doctor": `put valid credentials into "headers"`} {
		out := toolExits(t, cli.ExitUnavailable, "-c", path, command)
		require.Regexp(t, want, out)
		require.NotContains(t, out, "a-secret-token")
		require.NotContains(t, out, `"env"`)
	}
}
