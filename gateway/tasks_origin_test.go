package gateway

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server that gives the id of a task to the call of another client after its end: the first client gets
// neither the result of the other one, nor cancels or answers its task.
func TestTasks_whose_id_is_given_to_another_client(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern clients %t", modern), func(t *testing.T) {
			const task = `"taskId":"secret-1","status":"%s","createdAt":"2026-01-01T00:00:0%dZ","ttl":null`
			var started atomic.Int64
			var mu sync.Mutex
			var seen []string
			spec := mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond),
				InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
					n := started.Add(1)
					return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
						mu.Lock()
						seen = append(seen, m.Method)
						mu.Unlock()
						switch m.Method {
						case "initialize":
							return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"raw","version":"1"}}`, nil
						case "tools/list":
							return `"result":{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`, nil
						case "tools/call":
							return `"result":{"task":{` + fmt.Sprintf(task, "working", n) + `}}`, nil
						case "tasks/get":
							return `"result":{` + fmt.Sprintf(task, "completed", n) + `}`, nil
						case "tasks/result":
							return fmt.Sprintf(`"result":{"content":[{"type":"text","text":"of incarnation %d"}]}`, n), nil
						}
						return "", nil
					}).Serve(ctx, in, out, log)
				}}}
			c := newClient(t, spec)
			_, url := serveHTTP(t, c, withNames("alice", "bob"))
			alice, bob := follower(t, url, modern, "Authorization", "Bearer alice"), follower(t, url, modern, "Authorization", "Bearer bob")
			lost := alice.begin("x")
			require.NoError(t, c.Restart(t.Context(), "s"))
			require.NoError(t, c.WaitReady(t.Context(), "s"))
			own := bob.begin("x")
			mu.Lock()
			seen = nil
			mu.Unlock()
			methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
			if modern {
				methods[2] = "tasks/update"
			}
			for _, method := range methods {
				a := alice.ask(method, `{"taskId":"`+lost+`","inputResponses":{"a":{"action":"accept"}}}`)
				require.NotNil(t, a.Error, "%s: %s", method, a.Result)
				require.NotContains(t, a.Error.Message, "secret-1")
			}
			mu.Lock()
			for _, method := range seen {
				require.NotContains(t, []string{"tasks/cancel", "tasks/result", "tasks/update"}, method, "it is about the task of bob")
			}
			mu.Unlock()
			require.Contains(t, string(bob.outcome(own)), "of incarnation 2")
		})
	}
}
