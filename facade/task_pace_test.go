package facade_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
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

// rawTasks is a modern server that answers calls with created, and tasks/get number n, from 1,
// with the text of get.
func rawTasks(created string, get func(n int) string) *mcpvisor.InMemory {
	n := 0
	return rawServer(func(method, _ string) string {
		switch method {
		case "tools/call":
			return created
		case "tasks/get":
			n++
			return get(n)
		}
		return modernTasks(method)
	})
}

// What a server says about its tasks harms nothing but the call: it ends with a result, or with
// an error that says what was wrong.
func TestCallTool_as_a_task_of_hostile_servers(t *testing.T) {
	t.Parallel()
	const working = `{"resultType":"task","taskId":"secret-1","status":"working","pollIntervalMs":1}`
	state := func(members string) string { return `{"resultType":"complete","taskId":"secret-1",` + members + `}` }
	done := state(`"status":"completed","result":{"content":[]}`)
	always := func(text string) func(int) string { return func(int) string { return text } }
	for name, c := range map[string]struct {
		created string
		get     func(n int) string
		want    string // of the error; empty: the call succeeds
	}{
		"no id":                   {`{"resultType":"task","status":"working"}`, nil, `no "taskId"`},
		"an id that is no text":   {`{"resultType":"task","taskId":7,"status":"working"}`, nil, `"taskId"`},
		"a long id":               {`{"resultType":"task","taskId":"` + strings.Repeat("x", 1025) + `","status":"working"}`, nil, "1025 bytes long"},
		"no status":               {`{"resultType":"task","taskId":"secret-1"}`, nil, "status"},
		"an unknown status":       {`{"resultType":"task","taskId":"secret-1","status":"dreaming"}`, nil, `"dreaming" is unknown`},
		"another id":              {working, always(`{"taskId":"secret-2","status":"working"}`), "for another task"},
		"the result of another":   {working, always(`{"taskId":"secret-2","status":"completed","result":{"content":[]}}`), "for another task"},
		"no task":                 {working, always(`{}`), `no "taskId"`},
		"no object":               {working, always(`[]`), "cannot be read"},
		"completed without":       {working, always(state(`"status":"completed"`)), "does not hold what came of it"},
		"completed with text":     {working, always(state(`"status":"completed","result":"text"`)), "does not hold what came of it"},
		"failed without":          {working, always(state(`"status":"failed"`)), "does not hold what came of it"},
		"failed with text":        {working, always(state(`"status":"failed","error":"disk full, see secret-1"`)), "disk full"},
		"a result with a result":  {working, always(state(`"status":"completed","result":{"resultType":"task","taskId":"x"}`)), "is a task again"},
		"a result with a task":    {working, always(state(`"status":"completed","result":{"task":{"taskId":"x","status":"working"}}`)), "is a task again"},
		"negative times":          {`{"resultType":"task","taskId":"secret-1","status":"working","pollIntervalMs":-5,"ttlMs":-1}`, always(done), ""},
		"times that are no times": {`{"resultType":"task","taskId":"secret-1","status":"working","pollIntervalMs":"soon","ttlMs":{}}`, always(done), ""},
		"a ttl in the past": {`{"resultType":"task","taskId":"secret-1","status":"working","ttlMs":1,"pollIntervalMs":1}`, func(n int) string {
			if n < 3 {
				return state(`"status":"working","ttlMs":1,"pollIntervalMs":1`)
			}
			return done
		}, ""},
		"ended when it is made": {`{"resultType":"task","taskId":"secret-1","status":"completed","pollIntervalMs":1,"result":{"content":[]}}`, always(done), ""},
		"no inputs":             {working, always(state(`"status":"input_required","pollIntervalMs":1`)), "Timeouts.CallTotal"},
		"inputs that are none":  {working, always(state(`"status":"input_required","inputRequests":[]`)), "input"},
		"an unknown input":      {working, always(state(`"status":"input_required","inputRequests":{"k":{"method":"rm"}}`)), "which clients do not have"},
		"too many inputs":       {working, always(state(`"status":"input_required","inputRequests":{` + manyInputs(33) + `}`)), "more than 32"},
		"a long key":            {working, always(state(`"status":"input_required","inputRequests":{"` + strings.Repeat("k", 1025) + `":{"method":"roots/list"}}`)), "1025 bytes long"},
		"inputs without end": {working, func(n int) string {
			return state(fmt.Sprintf(`"status":"input_required","pollIntervalMs":1,"inputRequests":{"k%d":{"method":"roots/list"}}`, n))
		}, "more than 256 inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawTasks(c.created, c.get),
				Timeouts: mcpvisor.Timeouts{CallTotal: totalOf(c.want)}}, facade.WithRoots())
			_, err := client.CallTool(t.Context(), "s/x", nil)
			require.Empty(t, client.Tasks())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret-1")
			_, ok := client.ServerStatus("s")
			require.True(t, ok)
		})
	}
}

func totalOf(want string) time.Duration {
	if want == "Timeouts.CallTotal" {
		return 200 * time.Millisecond
	}
	return time.Minute
}

func manyInputs(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i))
	}
	return strings.Join(all, ",")
}

// A key is asked once, however often the server repeats it.
func TestCallTool_as_a_task_that_repeats_a_question(t *testing.T) {
	var asked atomic.Int32
	c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawTasks(
		`{"resultType":"task","taskId":"1","status":"working","pollIntervalMs":1}`, func(n int) string {
			if n < 20 {
				return `{"taskId":"1","status":"input_required","pollIntervalMs":1,"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`
			}
			return `{"taskId":"1","status":"completed","result":{"content":[]}}`
		})}))
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, asked.Load())
}

// Since 2026-07-28 requests about a task name it in a header, for load balancers.
func TestCallTool_as_a_task_over_HTTP_names_it(t *testing.T) {
	script := mcptest.Script{Versions: []string{"2026-07-28"}, Tools: []mcptest.ToolDef{{Name: "job", As: "echo", Task: &mcptest.TaskDef{}}}}
	web := newBridge(t, mcptest.InMemory(script))
	c := registered(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}})
	task, err := c.StartTask(t.Context(), "s/job", map[string]any{"text": "x"})
	require.NoError(t, err)
	_, err = task.Wait(t.Context())
	require.NoError(t, err)
	require.NoError(t, task.Cancel(t.Context()))
	web.mu.Lock()
	defer web.mu.Unlock()
	require.Equal(t, task.ID(), web.names["tasks/get"])
	require.Equal(t, task.ID(), web.names["tasks/cancel"])
}

// A server that is ready and cannot be reached is asked again with growing pauses, until it can.
func TestCallTool_as_a_task_of_a_server_that_cannot_be_reached(t *testing.T) {
	script := mcptest.Script{Versions: []string{"2026-07-28"}, Tools: []mcptest.ToolDef{{Name: "job", As: "echo",
		Task: &mcptest.TaskDef{Durable: true, Takes: 10 * time.Millisecond, Poll: 20 * time.Millisecond}}}}
	web := newBridge(t, mcptest.InMemory(script))
	var down atomic.Bool
	var dials atomic.Int32
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if down.Load() {
			if dials.Add(1) == 4 {
				down.Store(false)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	c := registered(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL, Client: &http.Client{Transport: transport}},
		Probe: mcpvisor.Probe{Interval: time.Hour}})
	task, err := c.StartTask(t.Context(), "s/job", map[string]any{"text": "x"})
	require.NoError(t, err)
	down.Store(true)
	began := time.Now()
	_, err = task.Wait(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond+200*time.Millisecond+400*time.Millisecond)
}
