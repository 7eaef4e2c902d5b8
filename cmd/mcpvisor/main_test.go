package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/fleetcmd"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

var everything = flag.Bool("everything", false, "play all rows of the hostile hosts and long storms; without it a part of them, and short ones")

// leftOut reports whether row i of a long table is not played. A row that -run names is.
func leftOut(i int) bool {
	return !*everything && i%4 != 1 && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

func TestMain(m *testing.M) {
	fleetcmd.GuardMain()
	mcptest.Main()
	testscript.Main(ownCache{m}, map[string]func(){"mcpvisor": main})
}

// ownCache runs tests with a cache directory of their own, where they build programs, too, so that they leave that of the user
// as it is.
type ownCache struct{ *testing.M }

func (m ownCache) Run() int {
	dir, err := os.MkdirTemp("", "mv")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programDir = dir
	if builds, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" { // tests build the program
		err = os.Setenv("GOCACHE", filepath.Join(builds, "go-build"))
		if err != nil {
			panic(err)
		}
	}
	for name, value := range map[string]string{"XDG_CACHE_HOME": dir, "SOME_API_KEY": "a value of the shell"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return m.M.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: writeConfigs,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits}})
}

// exits runs a command that must end with an exit code, its first argument.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [argument...]")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s ended with exit code %d, want %s", args[1], code, args[0])
	}
}

// writeConfigs writes the configuration files of the scripts.
func writeConfigs(env *testscript.Env) error {
	env.Setenv("GORACE", "atexit_sleep_ms=0") // a binary built with -race would sleep at every exit
	good := func(name string, faults ...mcptest.Fault) map[string]any {
		server := entry(mcptest.Script{Name: name, Faults: faults})
		server["timeouts"] = map[string]any{"negotiate": "1m"} // a slow machine speaks the same version
		return server
	}
	broken := good("broken", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "missing API_KEY \x1b[31mred"},
		mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7})
	five := map[string]any{"one": good("one"), "two": good("two"), "three": good("three"),
		"four": good("four"), "five": broken}
	two := map[string]any{"one": good("one"), "five": broken, "gone": map[string]any{"command": "no-such-command-here"}}
	standby, never, typo := good("standby"), good("never"), good("typo")
	standby["standby"], never["retry"], typo["comand"] = true, "none", "y"
	chatty := good("chatty", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionJunk, Count: 3},
		mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionHang})
	slow := good("slow", mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionHang})
	hasty := good("hasty", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionJunk, Count: 3},
		mcptest.Fault{At: mcptest.StageList, Do: mcptest.ActionHang})
	hasty["timeouts"] = map[string]any{"list": "2s"}
	for name, file := range map[string]any{
		".mcp.json":     map[string]any{"mcpServers": map[string]any{"one": good("one"), "two": good("two")}},
		"slash.json":    map[string]any{"mcpServers": map[string]any{"microsoft/playwright-mcp": good("slash"), "one": good("one")}},
		"five.json":     map[string]any{"mcpServers": five},
		"two.json":      map[string]any{"mcpServers": two},
		"retry.json":    map[string]any{"mcpServers": map[string]any{"one": good("one"), "never": never, "standby": standby}},
		"junk.json":     map[string]any{"mcpServers": map[string]any{"chatty": chatty, "slow": slow}},
		"hasty.json":    map[string]any{"mcpServers": map[string]any{"hasty": hasty}},
		"typo.json":     map[string]any{"mcpServers": map[string]any{"typo": typo}},
		"empty.json":    map[string]any{"mcpServers": map[string]any{}},
		"none.json":     map[string]any{"mcpServers": map[string]any{"five": broken}},
		"missing.json":  map[string]any{"servers": map[string]any{"gone": map[string]any{"command": "no-such-command-here"}}},
		"disabled.json": map[string]any{"servers": map[string]any{"off": map[string]any{"command": "x", "disabled": true}}},
		"problem.json":  map[string]any{"servers": map[string]any{"one": good("one"), "x": map[string]any{"comand": "y"}}},
	} {
		data, err := json.MarshalIndent(file, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(env.WorkDir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func entry(s mcptest.Script) map[string]any {
	p := mcptest.Stdio(s)
	return map[string]any{"command": p.Command, "args": p.Args, "env": p.Env, "retry": map[string]any{"max_attempts": 2, "base": "10ms"}}
}

// entryWith returns an entry with more keys, whose server has faults.
func entryWith(keys map[string]any, faults ...mcptest.Fault) map[string]any {
	e := entry(mcptest.Script{Faults: faults})
	maps.Copy(e, keys)
	return e
}

// serversFile writes a configuration of servers.
func serversFile(t *testing.T, servers map[string]any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, []byte(jsonText(t, map[string]any{"mcpServers": servers})), 0o600))
	return path
}

// configFile writes a configuration with one scripted server, "one".
func configFile(t *testing.T, script mcptest.Script) string {
	t.Helper()
	return serversFile(t, map[string]any{"one": entry(script)})
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// runTool runs a command, and returns what it prints to stdout and stderr.
func runTool(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var buf bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &buf, &buf)
	return buf.String(), code
}

// toolExits is runTool with an exit code that it must have.
func toolExits(t *testing.T, want int, args ...string) (out string) {
	t.Helper()
	out, code := runTool(t, args...)
	require.Equal(t, want, code, out)
	return out
}

// makeTokens makes tokens by mcpvisor token, each with such arguments. It returns them by name, and the file of their hashes.
func makeTokens(t *testing.T, each ...[]string) (tokens map[string]string, file string) {
	t.Helper()
	lines := "# of CI\n"
	tokens = map[string]string{}
	for _, args := range each {
		out := toolExits(t, 0, append([]string{"--json", "token"}, args...)...)
		var made struct{ Name, Token, SHA256, Profile string }
		require.NoError(t, json.Unmarshal([]byte(out), &made))
		tokens[made.Name] = made.Token
		lines += strings.TrimSpace(made.Name+" "+made.SHA256+" "+made.Profile) + "\n"
	}
	file = filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	return tokens, file
}

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "7bcaa15f00d7bcaa15f00d"}, {Key: "vcs.time", Value: "2026-11-22T13:00:00Z"}, {Key: "vcs.modified", Value: "true"}}}
	v := facade.Version()
	require.Equal(t, "mcpvisor "+v+" (revision 7bcaa15f00d7 of 2026-11-22T13:00:00Z, modified) go1.26.0", versionOf(info).String())
	require.Equal(t, "7bcaa15f00d7bcaa15f00d", versionOf(info).Revision)
	info.Settings, info.Main.Version = nil, "(devel)"
	require.Equal(t, "mcpvisor "+v+" go1.26.0", versionOf(info).String())
	info.Main.Version = "v0.4.1"
	require.Equal(t, "mcpvisor v0.4.1 go1.26.0", versionOf(info).String())
}
