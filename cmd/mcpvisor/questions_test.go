package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// An operator's questions of docs/operations.md have their answers, each by the command of the table: while run is running,
// and those about the past again in a later run.
func TestElevenQuestions(t *testing.T) {
	asked := map[string]bool{}
	ask := func(b *background, exit int, command string, want ...string) {
		t.Helper()
		asked[command] = true
		out, errs := b.exits(exit, strings.Fields(command)...)
		for _, one := range want {
			require.Regexp(t, one, out+errs, "%s:\n%s", command, out)
		}
	}

	// crm dies in a call, and waits for its next attempt. What fs lists changes with each start.
	expired := mcptest.Fault{Do: mcptest.ActionStderrLine, Text: "fatal: the license has expired"}
	crm := entry(mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageCall, Tool: "echo", Do: expired.Do, Text: expired.Text}, {At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionExit, Code: 7}}})
	crm["retry"] = map[string]any{"max_attempts": 5, "base": "1h", "max": "1h"}
	tools := mcptest.DefaultTools()
	tools[slices.IndexFunc(tools, func(d mcptest.ToolDef) bool { return d.Name == "pid" })].Description = "Of start {start}."
	fs := entry(mcptest.Script{StateDir: t.TempDir(), Tools: tools})
	config := map[string]any{"records": filepath.Join(t.TempDir(), "kept"), "mcpServers": map[string]any{"crm": crm, "fs": fs},
		"rules": []any{map[string]any{"server": "fs", "tool": "add", "do": "ask"}}}
	file := serversFile(t, nil)
	require.NoError(t, os.WriteFile(file, []byte(jsonText(t, config)), 0o600))
	dir := shortDir(t)
	b := startRunOf(t, dir, file, "run")
	b.await("(2 of 2 ready)")
	conn, err := attach.DialMCP(t.Context(), b.config, "")
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "editor", Version: "2"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	require.NoError(t, err)
	for _, tool := range []string{"fs__echo", "fs__fail"} {
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": "x"}})
		require.NoError(t, err)
	}
	b.exits(cli.ExitOK, "call", "fs/slow_progress", `{"steps":5,"ms":10}`)
	b.exits(cli.ExitFailed, "call", "crm/echo", "text=x")
	b.await("crm  ")
	waiting := make(chan int, 1)
	go func() {
		code, _, _ := b.command("call", "fs/add", "a=1", "b=2")
		waiting <- code
	}()
	var open api.Approvals
	require.Eventually(t, func() bool {
		_, status, _ := b.command("status", "crm")
		_, text, _ := b.command("--json", "approvals")
		return strings.Contains(status, "next attempt in") && json.Unmarshal([]byte(text), &open) == nil && len(open.Approvals) == 1
	}, time.Minute, 10*time.Millisecond)

	ask(b, cli.ExitOK, "attention", `(?m)^warning +crm: fatal: the license has expired \(exit status 7\); waits for its next attempt \(\S+ ago\)$`,
		`(?m)^ +1 call of unknown outcome in the last 10 min: echo`, `(?m)^ +do: .*restart it to try at once$`, `1 call of fs/add must be approved or denied`)
	ask(b, cli.ExitUnavailable, "status crm", `^crm  backoff, not ready for \S+, next attempt in \S+\n`, `(?m)^cause +fatal: the license has expired \(exit status 7\)$`,
		`(?m)^STDERR .*\n  fatal: the license has expired$`, `(?m)^ENDS .*\n.*start 1 .*exit status 7`)
	available := `(?m)^crm +\d+\.\d\d% +\S+ +\S+ +1 +0 +\S+ \S+ down: fatal: the license has expired`
	ask(b, cli.ExitOK, "availability --since 24h", available, `(?m)^fs +\d+\.\d\d% .* 0 +0 +-$`)
	ask(b, cli.ExitOK, "logs crm", `^fatal: the license has expired\n`)
	ask(b, cli.ExitUnavailable, "status", `(?m)^crm +backoff .* next try in \S+: fatal: the license`, `(?m)^fs +ready `)
	calledCRM := `(?m)^\S+ \S+ +crm +echo +mcpvisor call +crashed, unknown +\S+ +server crashed: fatal: the license`
	ask(b, cli.ExitOK, "calls --tool crm/echo", calledCRM)
	byEditor := []string{`(?m)^\S+ \S+ +fs +echo +editor 2 +ok `, `(?m)^\S+ \S+ +fs +fail +editor 2 +tool error `, `\A[^\n]*\n[^\n]*\n[^\n]*\n\z`}
	ask(b, cli.ExitOK, "calls --client editor", byEditor...)
	ask(b, cli.ExitOK, "clients", `(?m)^editor 2 +\S.* 2 +0 +0 +\S+ +stdio`, `(?m)^everything .*crm, fs$`)
	ask(b, cli.ExitOK, "tools --stats --sort p95", `(?m)^fs/slow_progress +1 +0 +0 +0 +0 +\d+ms`, `(?m)^fs/pid +0 +0 +0 +0 +0 +0s`)
	failing := `\ATOOL .*\ncrm/echo +1 +0 +1 +1 +0 .*\nfs/fail +1 +1 +0 +0 +0 `
	ask(b, cli.ExitOK, "tools --stats --sort failures", failing)
	ask(b, cli.ExitUnavailable, "status --sort tokens", `\ASERVER .*\nfs +ready `)
	if runtime.GOOS == "linux" { // where memory is known
		ask(b, cli.ExitUnavailable, "status --sort memory", `\ASERVER .*\nfs +ready +\S+ +0 +\d+ +\d+M `)
	}
	asked["status --sort memory"] = true
	ask(b, cli.ExitOK, "approvals", `(?m)^`+open.Approvals[0].ID+` +mcpvisor call +- +fs/add +\S+ +rule 1 \(.*\) +\{"a":1,"b":2\}$`)

	b.exits(cli.ExitOK, "deny", open.Approvals[0].ID, "--reason", "not on a Friday")
	require.Equal(t, cli.ExitFailed, <-waiting)
	fs["timeouts"] = map[string]any{"call": "3m"}
	b.writeText(jsonText(t, config))
	require.Contains(t, b.await("  fs: "), "timeouts.call 3m added; replaced")
	b.exits(cli.ExitOK, "--wait", "ready", "status", "fs")
	b.exits(cli.ExitOK, "restart", "fs")
	changed := []string{`(?m) registered +fs registered again, with another specification: timeouts\.call 3m added$`, `(?m) down +fs down: asked to restart`, `(?m) ready +fs ready: .*changed meanwhile: tools \+0 −0 ~1$`}
	ask(b, cli.ExitOK, "events --server fs", changed...)
	happened := append(changed, `(?m) down +crm down: fatal: the license has expired \(exit status 7\); 1 call in flight failed$`, `(?m) retry +crm retry 1/5 in 1h`,
		`(?m) approval +.* asks before calls of fs/add are sent, and it was refused: not on a Friday$`)
	ask(b, cli.ExitOK, "events --since 24h", happened...)
	_ = session.Close()
	b.stop()

	b = startRunOf(t, dir, file, "run")
	b.await("(2 of 2 ready)")
	ask(b, cli.ExitOK, "attention", `nothing needs attention`)
	ask(b, cli.ExitOK, "status", `(?m)^crm +ready `)
	ask(b, cli.ExitOK, "status --sort tokens")
	ask(b, cli.ExitOK, "availability --since 24h", available, `(?m)^fs .* 0 +2 +-$`)
	ask(b, cli.ExitOK, "events --kind down --server crm", `(?m)^\S+ \S+ +down +crm down: fatal: the license has expired \(exit status 7\)`)
	out, _ := b.exits(cli.ExitOK, "--json", "events", "--kind", "down", "--server", "crm")
	require.Contains(t, out, `"stderr": [`)
	ask(b, cli.ExitOK, "calls --tool crm/echo", calledCRM)
	ask(b, cli.ExitOK, "calls --tool fs/add", `denied .*asks before calls of fs/add are sent, and it was refused: not on a Friday`)
	ask(b, cli.ExitOK, "calls --client editor", byEditor...)
	ask(b, cli.ExitOK, "tools --stats --since 24h --sort failures", failing)
	ask(b, cli.ExitOK, "events --server fs", changed...)
	ask(b, cli.ExitOK, "events --since 24h", happened...)

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\d+)\. .*\|$`).FindAllString(string(page), -1)
	require.Len(t, rows, 11)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		require.Len(t, cells, 5, row)
		for _, command := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1]+cells[4], -1) {
			require.True(t, asked[command[1]] || command[1] == "reload", "the test does not ask %s", command[1])
		}
	}
}
