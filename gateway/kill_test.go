//go:build unix

package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// 1,000 calls on one session of the go-sdk, while the process of the server is killed ten
// times. The server records each execution. No call runs twice, every success has run once,
// and a call that may or may not have run says so.
func TestSession_survives_kills(t *testing.T) {
	const rounds, callers, callsPerRound = 10, 10, 100
	ctx, dir := t.Context(), t.TempDir()
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}),
		Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)})
	s := connect(t, Transport(c), "2026-07-28", nil)

	var mu sync.Mutex
	succeeded, unknown, refused := map[string]bool{}, map[string]bool{}, map[string]bool{}
	count := func(key string) {
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__s__count", Arguments: map[string]any{"key": key}})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && !r.IsError:
			succeeded[key] = true
		case modelError(t, r, err).Retryable:
			refused[key] = true
		default:
			require.Contains(t, textOf(r), "crashed during the call. Whether it had an effect is not known; check before you repeat it.")
			unknown[key] = true
		}
	}
	for round := range rounds {
		status, _ := c.ServerStatus("s")
		hanging := make(chan *mcp.CallToolResult, 1)
		go func() {
			r, _ := s.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__s__hang"})
			hanging <- r
		}()
		until(t, func() bool {
			for _, call := range c.CallsInFlight() {
				if call.Target == "hang" {
					return true
				}
			}
			return false
		})
		var next atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for n := next.Add(1); n <= callsPerRound; n = next.Add(1) {
					count(fmt.Sprintf("%d-%d", round, n))
					if n == callsPerRound/2 {
						_ = syscall.Kill(status.Session.PID, syscall.SIGKILL)
					}
				}
			})
		}
		all.Wait()
		lost := modelError(t, receive(t, hanging), nil)
		require.Equal(t, string(mcpvisor.KindCrashed), lost.Code)
		require.False(t, lost.Retryable)
	}
	executions := mcptest.Executions(dir)
	for key, n := range executions {
		require.Equal(t, 1, n, "%s ran more than once", key)
		require.False(t, refused[key], "%s ran, and the model was told that nothing was done", key)
	}
	for key := range succeeded {
		require.Equal(t, 1, executions[key], "%s succeeded without running", key)
	}
	require.Equal(t, rounds*callsPerRound, len(succeeded)+len(unknown)+len(refused))
	require.Greater(t, len(succeeded), rounds*callsPerRound/2)
	require.Equal(t, rounds+1, mcptest.Starts(dir))
	t.Logf("%d succeeded, %d unknown, %d refused", len(succeeded), len(unknown), len(refused))
}

// The process of the server is killed ten times under 8 callers over HTTP. The list stays byte for
// byte, no client is told of a change, no call runs twice by the server's records, and every error
// says what became of the call.
func TestHandler_survives_kills(t *testing.T) {
	const rounds, callers, callsPerRound = 10, 8, 50
	dir := t.TempDir()
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}),
		Policy: supervisor.Retry(supervisor.Unlimited, 10*time.Millisecond)})
	_, url := serveHTTP(t, c)
	client := newHTTPClient(t)
	watcher := &peer{t: t, url: url, client: client, header: http.Header{}}
	watcher.initialize("2025-06-18")
	stream := watcher.listen()
	changes := make(chan string, 100)
	go func() {
		for {
			_, data, ok := stream.next()
			if !ok {
				close(changes)
				return
			}
			changes <- data
		}
	}()
	list := func() string {
		_, answer := watcher.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		return answer
	}
	before := list()
	require.Contains(t, before, "s__count")

	var mu sync.Mutex
	succeeded, unknown, refused := map[string]bool{}, map[string]bool{}, map[string]bool{}
	count := func(p *peer, key string) {
		answer, err := p.send(toolCallOf(1, "s__count", `{"key":"`+key+`"}`))
		var got struct {
			Result struct {
				IsError           bool
				StructuredContent struct {
					IsRetryable bool
					Message     string
				}
			}
			Error any
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil || json.Unmarshal([]byte(answer), &got) != nil || got.Error != nil {
			t.Errorf("%s: %v %s", key, err, answer)
			return
		}
		switch {
		case !got.Result.IsError:
			succeeded[key] = true
		case got.Result.StructuredContent.IsRetryable:
			refused[key] = true
		default:
			if !strings.Contains(answer, "Whether it had an effect is not known; check before you repeat it.") {
				t.Errorf("%s: %s", key, answer)
			}
			unknown[key] = true
		}
	}
	for round := range rounds {
		status, _ := c.ServerStatus("s")
		var next atomic.Int64
		var all sync.WaitGroup
		for range callers {
			p := &peer{t: t, url: url, client: client, header: http.Header{}}
			p.initialize("2025-06-18")
			all.Go(func() {
				for n := next.Add(1); n <= callsPerRound; n = next.Add(1) {
					count(p, fmt.Sprintf("%d-%d", round, n))
					if n == callsPerRound/2 {
						_ = syscall.Kill(status.Session.PID, syscall.SIGKILL)
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, before, list())
		until(t, func() bool { return mcptest.Starts(dir) == round+2 })
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		require.Equal(t, before, list())
	}
	executions := mcptest.Executions(dir)
	for key, n := range executions {
		require.Equal(t, 1, n, "%s ran more than once", key)
		require.False(t, refused[key], "%s ran, and the model was told that nothing was done", key)
	}
	for key := range succeeded {
		require.Equal(t, 1, executions[key], "%s succeeded without running", key)
	}
	require.Equal(t, rounds*callsPerRound, len(succeeded)+len(unknown)+len(refused))
	require.Empty(t, refused, "calls that were not sent have waited")
	watcher.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"mcptest://text"}}`)
	watcher.post(toolCallOf(4, "s__touch", `{"uri":"mcptest://text"}`))
	require.Contains(t, receive(t, changes), "resources/updated", "no change was told")
	stream.stop()
	for range changes {
	}
	t.Logf("%d succeeded, %d unknown", len(succeeded), len(unknown))
}

// kill -9 of a copy: its client learns what became of its call, and the next one has a new process. A call of
// another client in flight goes on.
func TestShare_kill(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	_, url := serveHTTP(t, c, WithShare(ShareClient))
	ann, bob := openUser(t, url, ""), openUser(t, url, "")
	first, second := pidOf(t, ann.user(false), "a__pid"), pidOf(t, bob.user(false), "a__pid")
	slow := func(p *peer) events {
		e := p.callStream(t.Context(), strings.Replace(toolCallOf(7, "a__slow_progress", `{"steps":1000000,"ms":1}`), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1))
		_, data, ok := e.next()
		require.True(t, ok)
		require.Contains(t, data, "notifications/progress", "the server has read it")
		return e
	}
	lost, kept := slow(ann), slow(bob)
	list, _ := ann.user(false)("tools/list", `{}`)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	for {
		_, data, ok := lost.next()
		require.True(t, ok)
		if !strings.Contains(data, "notifications/progress") {
			require.Contains(t, data, "crashed during the call. Whether it had an effect is not known")
			break
		}
	}
	again := pidOf(t, ann.user(false), "a__pid")
	require.NotEqual(t, first, again)
	require.Equal(t, second, pidOf(t, bob.user(false), "a__pid"))
	_, data, ok := kept.next()
	require.True(t, ok)
	require.Contains(t, data, "notifications/progress")
	now, _ := bob.user(false)("tools/list", `{}`)
	require.Equal(t, list, now)
	require.Equal(t, 4, mcptest.Starts(dir))
	for _, p := range []*peer{ann, bob} {
		p.do(t.Context(), http.MethodDelete, "")
	}
	requireEnded(t, dir, hostPID(t, c, "a"))
}
