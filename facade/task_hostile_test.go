package facade_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

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
			client := newClient(t, facade.WithRoots())
			require.NoError(t, client.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawTasks(c.created, c.get),
				Timeouts: mcpvisor.Timeouts{CallTotal: totalOf(c.want)}}))
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
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}}))
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
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL, Client: &http.Client{Transport: transport}},
		Probe: mcpvisor.Probe{Interval: time.Hour}}))
	task, err := c.StartTask(t.Context(), "s/job", map[string]any{"text": "x"})
	require.NoError(t, err)
	down.Store(true)
	began := time.Now()
	_, err = task.Wait(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond+200*time.Millisecond+400*time.Millisecond)
}
