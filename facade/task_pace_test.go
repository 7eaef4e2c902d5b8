package facade_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// taskCounts counts the requests about tasks that a server gets, by method and by task.
type taskCounts struct {
	mu       sync.Mutex
	calls    int
	byMethod map[string]int
	byTask   map[string]int
	notices  int // how many answers of tasks/get are followed by a notification that the task has changed
}

// server makes tasks of a status that never changes. result answers tasks/result.
func (n *taskCounts) server(modern bool, status, members, result string) *mcpvisor.InMemory {
	n.byMethod, n.byTask = map[string]int{}, map[string]int{}
	return rawServer(func(method, line string) string {
		n.mu.Lock()
		defer n.mu.Unlock()
		_, rest, _ := strings.Cut(line, `"taskId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		state := func(id string) string {
			return fmt.Sprintf(`"taskId":%q,"status":%q,%s,"createdAt":"2026-01-01T00:00:00Z"`, id, status, members)
		}
		switch {
		case strings.HasPrefix(method, "tasks/"):
			n.byMethod[method]++
			n.byTask[id]++
			if method == "tasks/result" {
				return result
			}
			if n.notices > 0 {
				n.notices--
				return `{"resultType":"complete",` + state(id) + `}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + state(id) + `}`
			}
			return `{"resultType":"complete",` + state(id) + `}`
		case method == "tools/call":
			n.calls++
			if made := state(fmt.Sprintf("secret-%d", n.calls)); modern {
				return `{"resultType":"task",` + made + `}`
			} else {
				return `{"task":{` + made + `}}`
			}
		case modern:
			return modernTasks(method)
		}
		return legacyTasks(method)
	})
}

// inVirtualTime runs f with a client in a bubble of testing/synctest.
func inVirtualTime(t *testing.T, server *mcpvisor.InMemory, f func(c *facade.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Register(context.Background(), mcpvisor.ServerSpec{Name: "s", InMemory: server, Probe: mcpvisor.Probe{Interval: -1},
			Timeouts: mcpvisor.Timeouts{CallTotal: time.Hour}}))
		f(c)
		require.NoError(t, c.Close(context.Background()))
		time.Sleep(10 * time.Second) // background goroutines of the actor library end by then
	})
}

// A task is asked for in the interval of its server, whatever its state, and however soon the server
// answers other requests about it.
func TestTask_pace(t *testing.T) {
	for name, row := range map[string]struct {
		modern                  bool
		status, members, result string
		most                    int // requests in 100 s, with an interval of 5 s
	}{
		"input, an error at once":  {false, "input_required", `"pollInterval":5000`, failure + `{"code":-32602,"message":"no result yet"}`, 42},
		"input, a result at once":  {false, "input_required", `"pollInterval":5000`, `{"content":[]}`, 3},
		"input, a task at once":    {false, "input_required", `"pollInterval":5000`, `{"task":{"taskId":"x","status":"working"}}`, 3},
		"input, what is no result": {false, "input_required", `"pollInterval":5000`, `{}`, 3},
		"working":                  {false, "working", `"pollInterval":5000`, "", 21},
		"an interval of 1 ms":      {true, "working", `"pollIntervalMs":1`, "", 5010},
		"input, since 2026-07-28":  {true, "input_required", `"pollIntervalMs":5000`, "", 22},
		"input that says no input": {true, "input_required", `"pollIntervalMs":5000,"inputRequests":{}`, "", 22},
	} {
		t.Run(name, func(t *testing.T) {
			n := new(taskCounts)
			inVirtualTime(t, n.server(row.modern, row.status, row.members, row.result), func(c *facade.Client) {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
				defer cancel()
				_, _ = c.CallTool(ctx, "s/x", nil)
				n.mu.Lock()
				defer n.mu.Unlock()
				require.Positive(t, n.byMethod["tasks/get"])
				require.LessOrEqual(t, n.byMethod["tasks/get"]+n.byMethod["tasks/result"], row.most, "%v", n.byMethod)
			})
		})
	}
}

// A server that says after each answer that the task has changed is asked at most every 20 ms.
func TestTask_pace_of_notices(t *testing.T) {
	n := &taskCounts{notices: 10_000}
	inVirtualTime(t, n.server(false, "working", `"pollInterval":5000`, ""), func(c *facade.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = c.CallTool(ctx, "s/x", nil)
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Greater(t, n.byMethod["tasks/get"], 10, "a notification is not waited for in vain")
		require.LessOrEqual(t, n.byMethod["tasks/get"], 510)
	})
}

// A server asks its tasks to be asked for as often as possible: all together get a bounded number of
// requests, and each one gets its turn.
func TestTask_pace_of_many(t *testing.T) {
	const tasks, seconds = 1000, 4
	n := new(taskCounts)
	var gets int
	var byTask map[string]int
	inVirtualTime(t, n.server(true, "working", `"pollIntervalMs":1`, ""), func(c *facade.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), seconds*time.Second)
		defer cancel()
		var waits sync.WaitGroup
		for range tasks {
			waits.Go(func() { _, _ = c.CallTool(ctx, "s/x", nil) })
		}
		<-ctx.Done()
		n.mu.Lock()
		gets, byTask = n.byMethod["tasks/get"], maps.Clone(n.byTask)
		n.mu.Unlock()
		waits.Wait()
	})
	require.LessOrEqual(t, gets, 500*seconds+50)
	require.Len(t, byTask, tasks)
	for id, got := range byTask {
		require.InDelta(t, 500*seconds/tasks, got, 3, id)
	}
}

// The requests for results that a server of 2025-11-25 does not hold take turns as well.
func TestTask_pace_of_many_that_wait_for_input(t *testing.T) {
	const tasks, seconds = 1000, 4
	n := new(taskCounts)
	var sent int
	inVirtualTime(t, n.server(false, "input_required", `"pollInterval":1`, failure+`{"code":-32602,"message":"no result yet"}`), func(c *facade.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), seconds*time.Second)
		defer cancel()
		var waits sync.WaitGroup
		for range tasks {
			waits.Go(func() { _, _ = c.CallTool(ctx, "s/x", nil) })
		}
		<-ctx.Done()
		n.mu.Lock()
		sent = n.byMethod["tasks/get"] + n.byMethod["tasks/result"]
		n.mu.Unlock()
		waits.Wait()
	})
	require.LessOrEqual(t, sent, 500*seconds+50)
}

// A call that may be without progress for a moment only asks no sooner than every 20 ms.
func TestTask_pace_of_a_short_timeout(t *testing.T) {
	n := new(taskCounts)
	var gets int
	inVirtualTime(t, n.server(true, "working", `"pollIntervalMs":1000`, ""), func(c *facade.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = c.CallTool(ctx, "s/x", nil, facade.WithTimeout(2*time.Millisecond))
		n.mu.Lock()
		gets = n.byMethod["tasks/get"]
		n.mu.Unlock()
	})
	require.Greater(t, gets, 100)
	require.LessOrEqual(t, gets, 501)
}
