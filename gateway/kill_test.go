//go:build unix

package gateway

import (
	"fmt"
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
