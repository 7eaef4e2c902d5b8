package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// notAgain is an entry of a server that is not started again.
func notAgain(s mcptest.Script) map[string]any {
	e := entry(s)
	e["retry"] = "none"
	return e
}

// Words of a call are typed by the last schema of a server that is down, so that the same command
// gets the answer that the journal has.
func TestCall_words_of_a_key_while_the_server_is_down(t *testing.T) {
	b := startRun(t, map[string]any{"one": notAgain(mcptest.Script{})}, "run", "--journal", filepath.Join(t.TempDir(), "calls.db"))
	b.await(" ready  ")
	sum := []string{"call", "one/add", "a=2", "b=3", "--key", "sum-1"}
	code, out, errs := b.command(sum...)
	require.Equal(t, cli.ExitOK, code, errs)
	require.JSONEq(t, `{"sum":5}`, out)
	code, _, _ = b.command("call", "one/crash", "code=3", "--key", "crash-1")
	require.Equal(t, cli.ExitFailed, code)
	b.await("EVICTED")

	for _, name := range []string{"one/add", "mcp__one__add"} {
		sum[1] = name
		code, out, errs = b.command(sum...)
		require.Equal(t, cli.ExitOK, code, errs)
		require.JSONEq(t, `{"sum":5}`, out)
	}
	code, _, errs = b.command("call", "one/crash", "code=3", "--key", "crash-1")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errs, "crashed")
	require.Contains(t, errs, "outcome unknown")
	code, _, errs = b.command("call", "one/add", "a=2", "b=4", "--key", "sum-1")
	require.NotZero(t, code)
	require.Contains(t, errs, "other arguments")
	// Without a key the words are compared with that schema, and nothing is sent.
	code, _, errs = b.command("call", "one/add", "a=2", "c=3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "c is not a parameter")
	code, _, errs = b.command("call", "one/add", "a=2", "b=3")
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, errs, "evicted")
}

// The words of a key have the types of its first call, also if the server has never listed the tool to this
// process, or declares other types since then.
func TestCall_words_of_a_key_after_a_restart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.db")
	typed := func(kind string) map[string]any {
		return map[string]any{"one": notAgain(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "sum", As: "echo",
			InputSchema: json.RawMessage(`{"properties":{"a":{"type":"` + kind + `"},"text":{"type":"string"},"list":{"type":"array","items":{"type":"` + kind + `"}}}}`)}}})}
	}
	sum := []string{"call", "one/sum", "a=2", "text=4", "list=6", "--key", "sum-1"}
	b := startRun(t, typed("number"), "run", "--journal", file)
	b.await(" ready  ")
	code, out, errs := b.command(sum...)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Equal(t, "4", out)
	b.stop()

	for mark, servers := range map[string]map[string]any{" ready  ": typed("string"), "EVICTED": {"one": goodAndBad()["bad"]}} {
		t.Run(mark, func(t *testing.T) {
			b := startRun(t, servers, "run", "--journal", file)
			defer b.stop()
			b.await(mark)
			code, out, errs := b.command(sum...)
			require.Equal(t, cli.ExitOK, code, errs)
			require.Equal(t, "4", out)
			code, _, errs = b.command("call", "one/sum", "a=x", "--key", "sum-1")
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, errs, "with other arguments: a must be a number")
			code, _, errs = b.command("call", "one/sum", "a=2", "text=5", "--key", "sum-1")
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, errs, "with other arguments")
			require.NotContains(t, errs, "use another key")
			require.Contains(t, errs, "with another key this one is executed")
		})
	}
}

// A server that becomes ready between the look at its tools and the call gets no text for a number.
func TestCall_words_without_schema(t *testing.T) {
	looks, dry := 0, 0
	h := http.NewServeMux()
	h.HandleFunc("GET /run/tools", func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks < 3 {
			_, _ = w.Write([]byte(`{"tools":[]}`))
			return
		}
		_, _ = w.Write([]byte(`{"tools":[{"name":"one/add","definition":{"name":"add","inputSchema":{"properties":{"a":{"type":"number"}}}}}]}`))
	})
	h.HandleFunc("POST /run/call", func(w http.ResponseWriter, r *http.Request) {
		if dry := r.URL.Query().Get("dry"); dry != "true" {
			t.Errorf("dry is %q", dry)
		}
		dry++
		_, _ = w.Write([]byte(`{"error":{"kind":"canceled","outcome":"not_sent","message":"canceled"}}`))
	})
	set := &servers.Set{Client: attach.InProcess(h)}
	inv := new(invocation)
	inv.Context = t.Context()
	arguments, err := (&callCmd{Name: "one/add", Arguments: []string{"a=2"}}).prepare(inv, set, nil)
	require.NoError(t, err)
	require.Equal(t, `{"a":2}`, string(arguments))
	require.Equal(t, 2, dry)
}

// A dry call says why a tool cannot be called, and sends nothing if it can.
func TestCall_dry(t *testing.T) {
	dir := t.TempDir()
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{StateDir: dir}), "bad": goodAndBad()["bad"]}, "run")
	b.await("EVICTED")
	code, _, errs := b.command("tools", "one") // waits for its start
	require.Equal(t, cli.ExitOK, code, errs)
	client, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer client.Close()
	for tool, want := range map[string]error{"one/count": mcpvisor.ErrCanceled, "one/none": mcpvisor.ErrUnknownTool, "bad/count": mcpvisor.ErrEvicted, "none/count": mcpvisor.ErrUnknownServer} {
		_, err := client.CallTool(t.Context(), tool, json.RawMessage(`{"key":"k"}`), attach.CallOptions{Dry: true})
		require.ErrorIs(t, err, want, tool)
	}
	require.Empty(t, mcptest.Executions(dir))
	code, _, errs = b.command("call", "bad/count", "key=k") // it has never listed a tool
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, errs, "evicted")
}
