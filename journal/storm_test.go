//go:build unix

package journal_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/journal"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

var (
	stormKeys = flag.Int("storm.keys", 240, "how many keyed calls TestStorm makes")
	stormHost = flag.Duration("storm.host", 0, "how long TestStorm lets a host live; 0: until it has made a tenth of the calls")
)

// stormVariable tells the test binary to be the host of a storm in that directory.
const stormVariable = "MCPVISOR_JOURNAL_STORM"

func TestMain(m *testing.M) {
	mcptest.Main()
	if dir := os.Getenv(stormVariable); dir != "" {
		if err := runStormHost(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	stormCallers   = 32
	serverKillWait = 200 * time.Millisecond
)

// stormTool is the tool of a key: a third of the calls is answered at once, a third with a task
// that survives its server, a third with one that does not.
func stormTool(i int) string { return []string{"plain", "durable", "forgetful"}[i%3] }

// runStormHost makes all calls, kills its server again and again, and writes what each key got.
func runStormHost(ctx context.Context, dir string) error {
	calls, err := journal.Open(filepath.Join(dir, "calls.db"), journal.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = calls.Close() }()
	client, err := facade.New(facade.WithJournal(calls, mcpvisor.JournalKeepAll))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(ctx) }()
	task := func(durable bool) *mcptest.TaskDef {
		return &mcptest.TaskDef{Takes: 100 * time.Millisecond, Poll: 20 * time.Millisecond, Durable: durable}
	}
	server := mcptest.Stdio(mcptest.Script{StateDir: filepath.Join(dir, "state"), Tools: []mcptest.ToolDef{
		{Name: "plain", As: "count"}, {Name: "durable", As: "count", Task: task(true)}, {Name: "forgetful", As: "count", Task: task(false)}}})
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: server, Policy: mcpvisor.Retry(-1, time.Millisecond, supervisor.WithMaxDelay(50*time.Millisecond)), StartSupervised: true}
	if err := client.Register(ctx, spec); err != nil {
		return err
	}
	done, stop := context.WithCancel(ctx)
	defer stop()
	go killServers(done, client)

	out, err := os.OpenFile(filepath.Join(dir, "results"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	// Ends the part of a line that a killed host may have left.
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	keys := make(chan int)
	var workers sync.WaitGroup
	for range stormCallers {
		workers.Go(func() {
			for i := range keys {
				_, _ = fmt.Fprintf(out, "%s%s\n", stormCall(ctx, client, i), stormLineEnd)
			}
		})
	}
	var n int
	if _, err := fmt.Sscan(os.Getenv(stormVariable+"_KEYS"), &n); err != nil {
		return err
	}
	for i := range n {
		keys <- i
	}
	close(keys)
	workers.Wait()
	return nil
}

// stormCall makes the call of a key until it has an outcome, and returns that.
func stormCall(ctx context.Context, client *facade.Client, i int) string {
	key := fmt.Sprintf("order-%d", i)
	for {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		got, err := client.CallTool(ctx, "s/"+stormTool(i), map[string]any{"key": key}, facade.WithKey(key), facade.WithWaitReady())
		cancel()
		var e *mcpvisor.Error
		switch {
		case err == nil:
			return fmt.Sprintf("%d result %s", i, got.Content[0].(*mcp.TextContent).Text)
		case errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent:
		default:
			return fmt.Sprintf("%d error %s %s", i, string(e.Kind), strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

// killServers kills the server again and again until ctx ends: every third incarnation while it starts, the others
// when they have been ready for a while. On a busy machine a start takes longer than any wait.
func killServers(ctx context.Context, client *facade.Client) {
	ticker := time.NewTicker(serverKillWait)
	defer ticker.Stop()
	for ready := uint64(0); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s, ok := client.ServerStatus("s")
		if !ok || s.Session == nil || s.Session.PID <= 0 {
			continue
		}
		if s.Epoch%3 == 0 || s.Epoch == ready {
			_ = syscall.Kill(s.Session.PID, syscall.SIGKILL)
		}
		if ready = 0; s.State == supervisor.StateReady {
			ready = s.Epoch
		}
	}
}

// The server and the host are killed again and again, until every call has an outcome.
// No call is executed twice; each has its result, or an error that names why not; the journal
// opens, and nothing is left running.
func TestStorm(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	kills := 0
	for ended := false; !ended; {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		// Under the race detector a process sleeps for a second before it exits, unless told not to.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", stormVariable+"="+dir, fmt.Sprintf("%s_KEYS=%d", stormVariable, *stormKeys))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		var err error
		if ended, err = awaitHost(t, dir, exited); ended {
			require.NoError(t, err, "%s", stderr.String())
			break
		}
		require.NoError(t, cmd.Process.Kill())
		<-exited
		kills++
		require.Less(t, kills, 1000)
	}

	got := stormResults(t, dir)
	executed := mcptest.Executions(filepath.Join(dir, "state"))
	counts := map[string]int{}
	for i := range *stormKeys {
		key, line := fmt.Sprintf("order-%d", i), got[i]
		require.LessOrEqual(t, executed[key], 1, "%s: %s", key, line)
		kind, text, _ := strings.Cut(line, " ")
		if kind == "result" {
			require.Equal(t, fmt.Sprintf(`{"executions":1,"key":%q}`, key), text)
			require.Equal(t, 1, executed[key])
			counts[stormTool(i)+" result"]++
			continue
		}
		require.Equal(t, "error", kind, "%s has an outcome", key)
		name, _, _ := strings.Cut(text, " ")
		require.Contains(t, []string{string(mcpvisor.ErrInterrupted), string(mcpvisor.ErrCrashed)}, name, "%s: %s", key, line)
		require.Contains(t, text, "outcome unknown")
		counts[stormTool(i)+" "+name]++
	}
	require.Positive(t, counts["durable result"])
	t.Logf("%d calls, the host was killed %d times: %v", *stormKeys, kills, counts)

	calls, err := journal.Open(filepath.Join(dir, "calls.db"), journal.Options{})
	require.NoError(t, err)
	entries, err := calls.Entries(t.Context())
	require.NoError(t, err)
	require.Len(t, entries, *stormKeys)
	for _, e := range entries {
		require.NotEqual(t, mcpvisor.JournalTask, e.State, e.Key)
	}
	require.NoError(t, calls.Close())
	require.Eventually(t, func() bool { return len(processesIn(t, dir)) == 0 }, 20*time.Second, 10*time.Millisecond, "servers of killed hosts end")
}

// awaitHost returns when the host is to be killed, or has ended.
func awaitHost(t *testing.T, dir string, exited <-chan error) (ended bool, err error) {
	t.Helper()
	began, before := time.Now(), len(stormResults(t, dir))
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-exited:
			return true, err
		case <-ticker.C:
		}
		if *stormHost > 0 && time.Since(began) >= *stormHost || *stormHost == 0 && len(stormResults(t, dir)) >= before+*stormKeys/10 {
			return false, nil
		}
	}
}

// stormLineEnd ends a line that is whole. A write that crosses a page of the file is seen in parts by a reader,
// and a kill may leave its first part.
const stormLineEnd = " ."

// stormResults reads what each key got last, from the lines that are whole. Equal lines are the answers of several hosts.
func stormResults(t *testing.T, dir string) map[int]string {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "results"), os.O_RDONLY|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	got := map[int]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, whole := strings.CutSuffix(lines.Text(), stormLineEnd)
		if !whole {
			continue
		}
		number, rest, ok := strings.Cut(line, " ")
		var i int
		_, err := fmt.Sscan(number, &i)
		require.True(t, ok && err == nil, "%q", line)
		if before, again := got[i]; again && strings.HasPrefix(before, "result") {
			require.Equal(t, before, rest, "a result that was delivered does not change")
		}
		got[i] = rest
	}
	require.NoError(t, lines.Err())
	return got
}

// processesIn returns the processes whose environment names the directory, where /proc has it.
func processesIn(t *testing.T, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(env), dir) && !strings.Contains(path, fmt.Sprintf("/%d/", os.Getpid())) {
			pids = append(pids, path)
		}
	}
	return pids
}
