package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/journal"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// taskServer counts executions in a directory; job is a task that survives the server.
func taskServer(dir string, takes time.Duration) map[string]any {
	return map[string]any{"s": entry(mcptest.Script{StateDir: dir, Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "plain", As: "count"},
		mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: takes, Poll: 10 * time.Millisecond, Durable: true}})})}
}

// A call with a key is executed once, also over the end of mcpvisor run, and is found by its key.
func TestCall_with_key_over_two_runs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "calls.db")
	for i := range 2 {
		b := startRun(t, taskServer(dir, time.Millisecond), "run", "--journal", file, "--http", "127.0.0.1:0", "--controls")
		page := pageOf(b)
		b.await(" ready: ")
		for _, tool := range []string{"plain", "job"} {
			out, _ := b.exits(cli.ExitOK, "call", "s/"+tool, "key="+tool, "--key", "order-"+tool)
			require.Contains(t, out, `"executions":1`)
		}
		body := post(t, page+"api/call", `{"tool":"s/plain","arguments":{"key":"http"},"key":"order-http"}`, http.StatusOK)
		require.Contains(t, body, `"executions":1`)

		out, _ := b.exits(cli.ExitOK, "tasks")
		require.Regexp(t, `(?m)^TASK +KEY +TOOL +STATE +AGE +MESSAGE$`, out)
		require.Regexp(t, `(?m)^ +order-job +s/job +result +\S+.* +\d+ bytes$`, out)
		out, _ = b.exits(cli.ExitOK, "tasks", "wait", "order-job")
		require.Contains(t, out, `"executions":1`)
		_, errs := b.exits(cli.ExitOK, "tasks", "cancel", "order-job")
		require.Contains(t, errs, "the call has ended; nothing was sent")
		if i == 0 {
			// One process at a time has the journal.
			config, err := os.ReadFile(b.config)
			require.NoError(t, err)
			other := filepath.Join(t.TempDir(), "other.json")
			require.NoError(t, os.WriteFile(other, config, 0o600))
			var errs bytes.Buffer
			require.Equal(t, cli.ExitFailed, run(t.Context(), []string{"--config", other, "run", "--journal", file}, strings.NewReader(""), io.Discard, &errs))
			require.Contains(t, errs.String(), "the calls with a key: the journal is in use: "+file)
			// The configuration may name it, too.
			other = filepath.Join(dir, "other.json")
			require.NoError(t, os.WriteFile(other, append([]byte(`{"journal": "calls.db", `), config[1:]...), 0o600))
			errs.Reset()
			require.Equal(t, cli.ExitFailed, run(t.Context(), []string{"--config", other, "run"}, strings.NewReader(""), io.Discard, &errs))
			require.Contains(t, errs.String(), "the journal is in use: "+file)
		}
		b.stop()
		require.Zero(t, b.code, b.errs.String())
	}
	require.Equal(t, map[string]int{"plain": 1, "job": 1, "http": 1}, mcptest.Executions(dir))
}

func post(t *testing.T, url, body string, status int) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer json.RawMessage
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(t, status, response.StatusCode, "%s", answer)
	return string(answer)
}

// A task that runs is listed and can be canceled, by its number and by the key of its call.
func TestTasks(t *testing.T) {
	dir := t.TempDir()
	b := startRun(t, taskServer(dir, time.Hour), "run", "--journal", filepath.Join(dir, "calls.db"), "--http", "127.0.0.1:0", "--controls")
	page := pageOf(b)
	b.await(" ready: ")
	_, errs := b.exits(cli.ExitOK, "tasks")
	require.Contains(t, errs, "no server executes a call as a task")

	ended := make(chan string, 2)
	call := func(args ...string) {
		_, _, errs := b.command(append([]string{"call", "s/job"}, args...)...)
		ended <- errs
	}
	open := func() (tasks api.Tasks) {
		out, _ := b.exits(cli.ExitOK, "--json", "tasks", "list")
		require.NoError(t, json.Unmarshal([]byte(out), &tasks))
		return tasks
	}
	go call("key=a")
	require.Eventually(t, func() bool { return len(open().Tasks) == 1 }, 20*time.Second, 10*time.Millisecond)
	go call("key=b", "--key", "order-b")
	require.Eventually(t, func() bool { return len(open().Tasks) == 2 && len(open().Journal) == 1 }, 20*time.Second, 10*time.Millisecond)
	tasks := open().Tasks
	require.Equal(t, []any{uint64(1), "", uint64(2), "order-b"}, []any{tasks[0].Number, tasks[0].Key, tasks[1].Number, tasks[1].Key})
	out, _ := b.exits(cli.ExitOK, "tasks")
	require.Regexp(t, `(?m)^2 +order-b +s/job +working `, out)

	for _, task := range []string{"1", "2"} {
		_, errs := b.exits(cli.ExitOK, "tasks", "cancel", task)
		require.Contains(t, errs, "the server was asked to cancel it")
		require.Contains(t, <-ended, "the server has canceled the task")
	}
	code, _, errs := b.command("tasks", "wait", "order-b")
	require.NotZero(t, code)
	require.Contains(t, errs, "the server has canceled the task")
	require.Contains(t, errs, `of the call with the key "order-b"`)

	require.Contains(t, post(t, page+"api/tasks/cancel", `{"number":77}`, http.StatusBadRequest), "no task 77 is open")
	for _, body := range []string{`{}`, `{"number":1,"key":"x"}`} {
		require.Contains(t, post(t, page+"api/tasks/cancel", body, http.StatusBadRequest), `either \"number\" or \"key\"`)
	}
	require.Contains(t, post(t, page+"api/tasks/wait", `{"number":1}`, http.StatusBadRequest), "takes only")
	require.Contains(t, post(t, page+"api/tasks/wait", `{"key":"none"}`, http.StatusBadRequest), "does not know the key")
}

// A key needs a journal, and servers that mcpvisor run has.
func TestCall_with_key_without_journal(t *testing.T) {
	b := startReady(t, taskServer(t.TempDir(), 0), "run")
	_, errs := b.exits(cli.ExitUsage, "call", "s/plain", "key=a", "--key", "k")
	require.Contains(t, errs, "--journal")
	_, errs = b.exits(cli.ExitUsage, "tasks", "cancel", "99")
	require.Equal(t, "mcpvisor: no task has the number 99, and no call this key; mcpvisor tasks lists both\n", errs)
	_, errs = b.exits(cli.ExitUsage, "--fresh", "call", "s/plain", "key=a", "--key", "k")
	require.Contains(t, errs, "mcpvisor run --journal FILE")
}

// The operator resolves what an earlier mcpvisor run has left in doubt, also of a client of the gateway.
func TestTasks_resolve(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "calls.db")
	began := time.Now().Add(-time.Hour).Round(0)
	calls, err := journal.Open(file, journal.Options{})
	require.NoError(t, err)
	for _, principal := range []string{"", "alice"} {
		for _, key := range []string{"ran", "not"} {
			require.NoError(t, calls.Put(t.Context(), mcpvisor.JournalEntry{Principal: principal, Key: key, Server: "s", Tool: "plain",
				State: mcpvisor.JournalSent, Began: began, Updated: began, Arguments: json.RawMessage(`{"key":"x"}`)}))
		}
	}
	require.NoError(t, calls.Close())
	b := startRun(t, taskServer(dir, time.Millisecond), "run", "--journal", file, "--http", "127.0.0.1:0", "--controls")
	page := pageOf(b)
	b.await(" ready: ")
	code, _, errs := b.command("call", "s/plain", "key=x", "--key", "ran")
	require.NotZero(t, code)
	require.Contains(t, errs, "say so with mcpvisor tasks resolve; another key executes it again")
	out, _ := b.exits(cli.ExitOK, "tasks")
	require.Regexp(t, `(?m)^ +ran of alice +s/plain +sent +.*see: mcpvisor tasks resolve$`, out)

	out, _ = b.exits(cli.ExitOK, "tasks", "resolve", "ran")
	seen := regexp.MustCompile(`(?m)^ran +s/plain +sent +(\S+) +\{"key":"x"\} +`).FindStringSubmatch(out)
	require.NotNil(t, seen, out)
	result := filepath.Join(dir, "result.json")
	require.NoError(t, os.WriteFile(result, []byte(`{"content":[{"type":"text","text":"found"}]}`), 0o600))
	for _, refused := range [][]string{
		{"resolve", "ran", "--not-run", "--seen", began.Add(time.Hour).Format(time.RFC3339Nano)},
		{"resolve", "ran", "--not-run", "--seen", "now"},
		{"resolve", "ran", "--not-run", "--result", "{}"},
		{"resolve", "ran", "--result", "{"},
		{"resolve", "ran", "--result", "[]"},
		{"resolve", "none", "--not-run"},
		{"resolve", "ran", "--not-run", "--principal", "bob"},
	} {
		code, _, errs = b.command(append([]string{"tasks"}, refused...)...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", refused, errs)
	}
	b.exits(cli.ExitOK, "tasks", "resolve", "ran", "--result-file", result, "--seen", seen[1])
	out, _ = b.exits(cli.ExitOK, "call", "s/plain", "key=x", "--key", "ran")
	require.Equal(t, "found", out)
	b.exits(cli.ExitOK, "tasks", "resolve", "not", "--not-run", "--principal", "alice")
	out, _ = b.exits(cli.ExitOK, "tasks")
	require.Regexp(t, `(?m)^ +not of alice +s/plain +not_run +.*not executed, says \S+$`, out)
	require.Regexp(t, `(?m)^ +not +s/plain +sent +`, out, "the key of the host is another one")
	require.Empty(t, mcptest.Executions(dir))
	b.exits(cli.ExitOK, "tasks", "resolve", "not", "--not-run")
	out, _ = b.exits(cli.ExitOK, "call", "s/plain", "key=x", "--key", "not")
	require.Contains(t, out, `"executions":1`)
	// Neither the page nor its readers resolve keys.
	for _, path := range []string{"api/tasks/resolve", "run/resolve"} {
		response, err := http.Post(page+path, "application/json", strings.NewReader(`{"key":"ran","notRun":true}`))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusNotFound, response.StatusCode)
	}
}
