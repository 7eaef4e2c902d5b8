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

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

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
