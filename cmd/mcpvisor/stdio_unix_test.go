//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// household are hosts that share the servers of one configuration.
type household struct {
	t                  *testing.T
	program, dir, file string
	env                []string      // of hosts, beside that of the test
	progress           chan struct{} // gets a value for each progress of a call, as far as there is room
}

func newHousehold(t *testing.T, servers map[string]any) *household {
	t.Helper()
	return &household{t: t, program: buildProgram(t), dir: shortDir(t), file: serversFile(t, servers), progress: make(chan struct{}, 1)}
}

// stdio is mcpvisor stdio as a host starts it.
func (h *household) stdio(args ...string) *exec.Cmd {
	cmd := exec.Command(h.program, append([]string{"--config", h.file, "stdio"}, args...)...)
	cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+h.dir), h.env...)
	return cmd
}

// host starts mcpvisor stdio as a host does. changed counts the changes of the list of tools.
func (h *household) host(args ...string) (session *mcp.ClientSession, errs *syncBuffer, changed chan struct{}) {
	h.t.Helper()
	changed = make(chan struct{}, 100)
	cmd := h.stdio(args...)
	errs = new(syncBuffer)
	cmd.Stderr = errs
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(_ context.Context, _ *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			select {
			case h.progress <- struct{}{}:
			default:
			}
		}})
	session, err := client.Connect(h.t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(h.t, err, "%s", errs)
	h.t.Cleanup(func() { _ = session.Close() })
	return session, errs, changed
}

// run returns the process id of the mcpvisor run that serves; 0 if none does.
func (h *household) run() int {
	files, err := filepath.Glob(filepath.Join(h.dir, "mcpvisor", "*.pid"))
	require.NoError(h.t, err)
	require.LessOrEqual(h.t, len(files), 1)
	if len(files) == 0 {
		return 0
	}
	text, err := os.ReadFile(files[0])
	require.NoError(h.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// kill kills a run, and returns when it has ended: a message that it could still have received
// may have been read.
func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	awaitEnd(t, pid)
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, time.Minute, 10*time.Millisecond)
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func echo(t *testing.T, session *mcp.ClientSession, text string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fixture__echo", Arguments: map[string]any{"text": text}})
	require.NoError(t, err)
	require.False(t, result.IsError, "%v", result.Content[0].(*mcp.TextContent).Text)
	require.Equal(t, text, result.Content[0].(*mcp.TextContent).Text)
}

// Hosts share one mcpvisor run, which the first of them starts. When it is killed, each host
// keeps its session, and hears of no change. It ends when the last host has gone.
func TestStdio_run_is_killed(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	first, errs, changed := h.host()
	echo(t, first, "first")
	pid := h.run()
	require.NotZero(t, pid)
	second, _, _ := h.host()
	echo(t, second, "second")
	require.Equal(t, pid, h.run(), "one run for both")
	before, err := first.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, before.Tools)

	for range 2 {
		kill(t, pid)
		echo(t, first, "after the kill")
		echo(t, second, "after the kill")
		require.NotEqual(t, pid, h.run())
		pid = h.run()
	}
	after, err := first.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before.Tools, after.Tools)
	require.Empty(t, changed, "no list has changed: %s", errs)
	require.Equal(t, 2, strings.Count(errs.String(), "connected again"), "%s", errs)

	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	awaitEnd(t, pid)
}

// A call in flight is answered with what is known of it when mcpvisor run is killed.
func TestStdio_call_in_flight(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{"fixture": entry(mcptest.Script{})})
	session, _, _ := h.host()
	go func() {
		<-h.progress
		_ = syscall.Kill(h.run(), syscall.SIGKILL)
	}()
	params := &mcp.CallToolParams{Name: "fixture__slow_progress", Arguments: map[string]any{"steps": 6000, "ms": 10}}
	params.SetProgressToken("p")
	result, err := session.CallTool(t.Context(), params)
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Content[0].(*mcp.TextContent).Text, "It may have been executed")
	echo(t, session, "the session goes on")
}

// A configuration that cannot be used is the error of initialize, and what mcpvisor run has
// printed about it.
func TestStdio_run_cannot_start(t *testing.T) {
	t.Parallel()
	h := newHousehold(t, map[string]any{})
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	_, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: h.stdio()}, nil)
	require.ErrorContains(t, err, "mcpvisor run has ended: ")
	require.ErrorContains(t, err, "has no usable server")
}
