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
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

// The process of the server is killed under 8 callers, on a session of the go-sdk and over HTTP. No call runs twice by
// the server's records, and every error says what became of the call. The list stays byte for byte, and no client is
// told of a change.
func TestKills(t *testing.T) {
	type caller func(tool, arguments string) gatewaytest.Result
	for over, open := range map[string]func(t *testing.T, s *mcp.ClientSession, url string) caller{
		"session": func(t *testing.T, s *mcp.ClientSession, _ string) caller {
			return func(tool, arguments string) (r gatewaytest.Result) {
				result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "s/" + tool, Arguments: json.RawMessage(arguments)})
				text, _ := json.Marshal(result)
				if err != nil || json.Unmarshal(text, &r) != nil {
					t.Error(err, string(text))
				}
				return r
			}
		},
		"HTTP": func(t *testing.T, _ *mcp.ClientSession, url string) caller {
			p := openUser(t, url, "")
			return func(tool, arguments string) gatewaytest.Result {
				var answer struct{ Result gatewaytest.Result }
				_, text, err := p.exchange(toolCallOf(1, "s__"+tool, arguments))
				if err != nil || json.Unmarshal([]byte(text), &answer) != nil {
					t.Error(err, text)
				}
				return answer.Result
			}
		},
	} {
		t.Run(over, func(t *testing.T) {
			const callers, callsPerRound = 8, 50
			dir, rounds := t.TempDir(), sized(10, 3)
			c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}), Policy: supervisor.Retry(supervisor.Unlimited, 10*time.Millisecond)})
			_, url := serveHTTP(t, c)
			session, watcher, ledger := connect(t, Transport(c), "2026-07-28", nil), openUser(t, url, ""), gatewaytest.NewLedger(t)
			stream := watcher.listen()
			stream.next()
			list := func() string {
				_, answer := watcher.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				return answer
			}
			before := list()
			require.Contains(t, before, "s__count")
			for round := range rounds {
				status, _ := c.ServerStatus("s")
				lost := make(chan gatewaytest.Result, 1)
				hang := open(t, session, url)
				go func() { lost <- hang("hang", "{}") }()
				until(t, func() bool { return hanging(c) == 1 })
				var next atomic.Int64
				var all sync.WaitGroup
				for range callers {
					call := open(t, session, url)
					all.Go(func() {
						for n := next.Add(1); n <= callsPerRound; n = next.Add(1) {
							key := fmt.Sprintf("%d-%d", round, n)
							ledger.Add(key, call("count", `{"key":"`+key+`"}`))
							if n == callsPerRound/2 {
								_ = syscall.Kill(status.Session.PID, syscall.SIGKILL)
							}
						}
					})
				}
				all.Wait()
				require.Equal(t, string(mcpvisor.ErrCrashed), receive(t, lost).StructuredContent.Code)
				require.Equal(t, before, list())
				until(t, func() bool { return mcptest.Starts(dir) == round+2 })
				require.NoError(t, c.WaitReady(t.Context(), "s"))
				require.Equal(t, before, list())
			}
			ledger.Check(dir)
			watcher.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"mcptest://text"}}`)
			watcher.post(toolCallOf(4, "s__touch", `{"uri":"mcptest://text"}`))
			_, data, ok := stream.next()
			require.True(t, ok)
			require.Contains(t, data, "resources/updated", "no change was told")
		})
	}
}

// kill -9 of a copy: its client learns what became of its call, and the next one has a new process. A call of
// another client in flight goes on.
func TestShare_kill(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	_, url := serveHTTP(t, c, withShare(ShareClient))
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
