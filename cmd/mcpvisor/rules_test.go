package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// A run applies the rules of its file and follows them: one denies, and about one a person decides, with the arguments in sight.
func TestRun_rules(t *testing.T) {
	servers := map[string]any{"one": entry(mcptest.Script{})}
	records := filepath.Join(t.TempDir(), "records")
	b := startReady(t, servers, "run", "--records", records, "--records-arguments", "whole")
	b.writeText(jsonText(t, map[string]any{"mcpServers": servers, "rules": []any{
		map[string]any{"tool": "add", "do": "deny"}, map[string]any{"server": "one", "tool": "ech*", "do": "ask"},
	}}))
	b.exits(cli.ExitOK, "reload")
	b.await("reload: 1 unchanged; changed: rules") // the run may have followed the file before
	_, errs := b.exits(cli.ExitFailed, "call", "one/add", "a=1", "b=2")
	require.Contains(t, errs, "rule 1")
	require.Contains(t, errs, "denies calls of one/add")

	for _, decision := range []string{"approve", "deny"} {
		ended := make(chan int, 1)
		var out, errs string
		go func() {
			var code int
			code, out, errs = b.command("call", "one/echo", "text=hello")
			ended <- code
		}()
		var open api.Approvals
		require.Eventually(t, func() bool {
			_, text, _ := b.command("--json", "approvals")
			return json.Unmarshal([]byte(text), &open) == nil && len(open.Approvals) == 1
		}, time.Minute, 10*time.Millisecond)
		require.JSONEq(t, `{"text":"hello"}`, string(open.Approvals[0].Arguments))
		b.exits(cli.ExitOK, decision, open.Approvals[0].ID)
		code := <-ended
		if decision == "approve" {
			require.Equal(t, cli.ExitOK, code, errs)
			require.Contains(t, out, "hello")
		} else {
			require.Equal(t, cli.ExitFailed, code)
			require.NotContains(t, out, "hello")
		}
		_, errs = b.exits(cli.ExitUsage, decision, open.Approvals[0].ID)
		require.Contains(t, errs, open.Approvals[0].ID)
	}
	out, _ := b.exits(cli.ExitOK, "events", "--records", records)
	require.Contains(t, out, "one/echo was approved, as rule 2 (")
	require.Contains(t, out, "asks before calls of one/echo are sent, and it was refused")

	b.writeText(jsonText(t, map[string]any{"mcpServers": servers, "Rules": []any{map[string]any{"do": "allow"}}}))
	_, errs = b.exits(cli.ExitUnavailable, "reload")
	require.Contains(t, errs, `unknown key "Rules", whose value is a list of rules; call it "rules"; until then the rule denies every call`)
	out, _ = b.exits(cli.ExitOK, "attention")
	require.Contains(t, out, `unknown key "Rules"`)
	b.exits(cli.ExitFailed, "call", "one/echo", "text=hello")
	b.writeText(jsonText(t, map[string]any{"mcpServers": servers, "lock": "warn"}))
	b.exits(cli.ExitOK, "reload")
	b.await("changed: rules, lock: off → warn")
	b.exits(cli.ExitOK, "call", "one/echo", "text=hello")
}
