package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

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
