package facade_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// sessionless is a server over HTTP that names no session. Its tasks all have one id, and as createdAt
// what created has.
func sessionless(t *testing.T, modern bool, created *atomic.Value, status *atomic.Value) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", HTTP: overHTTP(t, rawOf(func(method, _ string) string {
		state := fmt.Sprintf(`"taskId":"secret-1","status":%q,"createdAt":%q,"pollInterval":20,"pollIntervalMs":20`, status.Load(), created.Load())
		switch {
		case method == "tools/call" && modern:
			return `{"resultType":"task",` + state + `}`
		case method == "tools/call":
			return `{"task":{` + state + `}}`
		case method == "tasks/get":
			return `{"resultType":"complete",` + state + `,"result":{"content":[]}}`
		case modern:
			return modernTasks(method)
		case method == "tasks/result":
			return `{"resultType":"complete","content":[]}`
		}
		return legacyTasks(method)
	}))}
}

// A server over HTTP without a session is restarted unseen, and gives the id of a task again: the new
// task is not refused, and its result is not that of the first one.
func TestTask_of_a_server_restarted_unseen(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			var created, status atomic.Value
			created.Store("2026-01-01T00:00:00Z")
			status.Store("working")
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), sessionless(t, modern, &created, &status)))
			first, err := c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err)
			created.Store("2026-01-01T01:00:00Z")
			second, err := c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err, "it was executed, and its task is another one")
			_, err = c.StartTask(t.Context(), "s/x", nil)
			require.ErrorContains(t, err, "another call's task", "that is the second one's")
			status.Store("completed")
			_, err = first.Wait(t.Context())
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			_, err = second.Wait(t.Context())
			require.NoError(t, err)
			_, err = c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err, "the task has ended")
		})
	}
}

// The next incarnation makes its task in the same second: what this client holds as the task of another
// call is not that of the first one, also after its end.
func TestTask_of_the_same_second(t *testing.T) {
	for _, ended := range []bool{false, true} {
		onNumbering(t, func() *numbering {
			return &numbering{created: func(int, int, int) string { return `"createdAt":"2026-01-01T00:00:00Z",` }}
		}, func(t *testing.T, _ *numbering, spec mcpvisor.ServerSpec) {
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), spec))
			a, err := c.StartTask(t.Context(), "s/x", caller("A"))
			require.NoError(t, err)
			restart(t, c)
			b, err := c.StartTask(t.Context(), "s/x", caller("B"))
			require.NoError(t, err)
			if ended {
				_, err = b.Wait(t.Context())
				require.NoError(t, err)
			}
			_, err = a.Wait(t.Context())
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			_, err = b.Wait(t.Context())
			require.NoError(t, err)
		})
	}
}

// The id of a task may be given again when its ttl is over, and not before; to drop the former task then
// does not drop the later one.
func TestTask_after_its_ttl(t *testing.T) {
	status := "working"
	server := rawServer(func(method, _ string) string {
		state := fmt.Sprintf(`{"resultType":"task","taskId":"secret-1","status":%q,"ttlMs":60000,"pollIntervalMs":20,"result":{"content":[]}}`, status)
		switch method {
		case "tools/call", "tasks/get":
			return state
		}
		return modernTasks(method)
	})
	inVirtualTime(t, server, func(c *facade.Client) {
		ctx := context.Background()
		first, err := c.StartTask(ctx, "s/x", nil)
		require.NoError(t, err)
		time.Sleep(50 * time.Second)
		_, err = c.StartTask(ctx, "s/x", nil)
		require.Error(t, err)
		time.Sleep(20 * time.Second)
		second, err := c.StartTask(ctx, "s/x", nil)
		require.NoError(t, err)
		_, err = first.Wait(ctx)
		require.ErrorContains(t, err, "another task with that id", "it is the second one's")
		_, err = c.StartTask(ctx, "s/x", nil)
		require.Error(t, err, "the second one is open")
		_ = second
	})
}

// A server that keeps its tasks may say createdAt later, with fewer digits, or without a zone.
func TestTask_createdAt_in_other_words(t *testing.T) {
	for name, row := range map[string][2]string{
		"fewer digits": {`"createdAt":"2026-01-01T00:00:00.123456Z",`, `"createdAt":"2026-01-01T00:00:00.123Z",`},
		"later":        {``, `"createdAt":"2026-01-01T00:00:00Z",`},
		"no zone":      {`"createdAt":"2026-01-01T00:00:00.5",`, `"createdAt":"2026-01-01T00:00:00.5",`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &numbering{version: "2026-07-28", hold: map[int]func(string) bool{1: always(1)}, created: func(_, _, n int) string { return row[min(n, 2)-1] }}
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: s.server(), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}))
			task, err := c.StartTask(t.Context(), "s/x", caller("A"))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			waited := make(chan struct{})
			go func() { defer close(waited); _, _ = task.Wait(ctx) }()
			require.Eventually(t, func() bool { return len(s.sawOf(1)) > 2 }, time.Minute, time.Millisecond)
			cancel()
			<-waited
			restart(t, c)
			s.mu.Lock()
			s.callers = []string{"A"}
			s.mu.Unlock()
			_, err = task.Wait(t.Context())
			require.NoError(t, err)
		})
	}
}

// All handles of a host take turns. One that asks alone is answered at once.
func TestTask_Ask_takes_a_turn(t *testing.T) {
	n := new(taskCounts)
	inVirtualTime(t, n.server(true, "working", `"pollIntervalMs":1`, ""), func(c *facade.Client) {
		relay := new(facade.TaskRelay)
		_, err := c.CallToolRaw(context.Background(), "s/x", nil, facade.WithTaskRelay(relay))
		require.NoError(t, err)
		ask := func() {
			task, err := c.TaskOf("s", relay.ID, facade.WithTaskOrigin(relay.Origin))
			require.NoError(t, err)
			_, err = task.Ask(context.Background())
			require.NoError(t, err)
		}
		began := time.Now()
		ask()
		require.Zero(t, time.Since(began))
		for range 1050 {
			ask()
		}
		require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	})
}

// While Wait follows a canceled task, its key is open; afterwards it is not.
func TestTask_Cancel_leaves_the_key_to_its_follower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(taskCounts)
		j := new(memoryJournal)
		c, err := facade.New(facade.WithJournal(j, ""))
		require.NoError(t, err)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: n.server(true, "working", `"pollIntervalMs":1000`, ""), Probe: mcpvisor.Probe{Interval: -1}}))
		task, err := c.StartTask(t.Context(), "s/x", nil, facade.WithKey("k"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan struct{})
		go func() { defer close(waited); _, _ = task.Wait(ctx) }()
		time.Sleep(5 * time.Second)
		require.NoError(t, task.Cancel(t.Context()))
		key := mcpvisor.JournalKey{Key: "k"}
		require.True(t, j.Open(key))
		require.Empty(t, c.Tasks())
		cancel()
		<-waited
		require.False(t, j.Open(key))
		require.NoError(t, c.Close(context.Background()))
		time.Sleep(10 * time.Second)
	})
}

// What a query names beside secrets is a part of the target.
func TestTask_target_with_its_query(t *testing.T) {
	target := func(url string) string {
		return facade.TargetOf(&mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: url}})
	}
	require.NotEqual(t, target("http://h/mcp?tenant=production"), target("http://h/mcp?tenant=staging"))
	require.Equal(t, target("http://h/mcp?tenant=a&api_key=0123456789"), target("http://h/mcp?tenant=a&api_key=abcdefghij"))
}
