package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// background is a `run` command in this process.
type background struct {
	t         *testing.T
	config    string
	interrupt context.CancelFunc
	lines     chan string // what it prints; closed at its end
	code      int         // set when lines is closed
	errs      bytes.Buffer
	printed   []string
}

// startRun starts the program with args and a configuration of servers. The test ends it.
func startRun(t *testing.T, servers map[string]any, args ...string) *background {
	t.Helper()
	return startRunIn(t, shortDir(t), servers, args...)
}

// shortDir returns a directory with a short path, because paths of sockets are short.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mv") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startRunIn is startRun with a directory for the socket.
func startRunIn(t *testing.T, runtimeDir string, servers map[string]any, args ...string) *background {
	t.Helper()
	before := goleak.IgnoreCurrent() // servers of the test
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	b := &background{t: t, config: serversFile(t, servers), lines: make(chan string)}
	ctx, interrupt := context.WithCancel(t.Context())
	b.interrupt = interrupt
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"--config", b.config}, args...), strings.NewReader(""), w, &b.errs)
		_ = w.Close()
	}()
	go func() {
		defer close(b.lines)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			b.lines <- scan.Text()
		}
		b.code = <-ended
	}()
	t.Cleanup(func() { b.stop() })
	return b
}

// await reads lines until one contains mark, and returns it.
func (b *background) await(mark string) string {
	b.t.Helper()
	for line := range b.lines {
		b.printed = append(b.printed, line)
		if strings.Contains(line, mark) {
			return line
		}
	}
	require.Fail(b.t, "it has ended", "%q is missing in %s\n%s", mark, strings.Join(b.printed, "\n"), b.errs.String())
	return ""
}

// stop interrupts the program. It returns all that it has printed.
func (b *background) stop() string {
	b.interrupt()
	for line := range b.lines {
		b.printed = append(b.printed, line)
	}
	return strings.Join(b.printed, "\n")
}

// goodAndBad are one server that becomes ready, and one that does not start.
func goodAndBad() map[string]any {
	return map[string]any{
		"good": entry(mcptest.Script{}),
		"bad":  entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}}}),
	}
}

func TestRun_prints_changes_until_interrupted(t *testing.T) {
	b := startRun(t, goodAndBad(), "run")
	b.await("EVICTED")
	all := b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
	for _, want := range []string{`(?m)^2 servers of .*c\.json, pid \d+$`, `(?m)^\d\d:\d\d:\d\d\.\d{3}  bad   start failed    server process ended with exit status 7$`,
		`  bad   retry           attempt 1 of 2 in 10ms\n`, `  bad   retry           attempt 2 of 2 in 20ms\n`, `  bad   EVICTED         given up after 2 of 2 restarts: `,
		`(?m)^stopped 2 servers in \S+$`} {
		require.Regexp(t, want, all)
	}
	for _, unwanted := range []string{"unregistered", "epoch", "page:"} {
		require.NotContains(t, all, unwanted)
	}
}

func TestRun_counts_ready_servers(t *testing.T) {
	b := startRun(t, goodAndBad(), "run")
	require.Regexp(t, `  good  ready           \d+ tools, .*pid \d+, started in \S+  \(1 of 2 ready\)$`, b.await(" ready  "))
}

func TestRun_prints_one_object_per_line(t *testing.T) {
	b := startRun(t, goodAndBad(), "--json", "run")
	b.await(`"kind":"ready"`)
	b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
	var last mcpvisor.Event
	for i, text := range b.printed {
		var ev mcpvisor.Event
		require.NoError(t, json.Unmarshal([]byte(text), &ev), text)
		if i > 0 {
			require.Equal(t, last.Seq+1, ev.Seq)
		}
		last = ev
	}
	require.Equal(t, mcpvisor.EventUnregistered, last.Kind)
}
