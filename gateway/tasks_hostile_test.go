package gateway

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// What a client sees of the tasks of hostile servers, in both generations: each row of test/hostile
// about tasks has one here.
func TestTasks_of_hostile_servers(t *testing.T) {
	const unreadable, noState, gone = "gave no valid answer", "has not said how the task is (protocol)", "does not know the task"
	rows := map[string]string{ // a status, or a part of an error
		"task/never-ends":            "working",
		"task/no-id":                 unreadable, // the call
		"task/other-id":              noState,
		"task/back":                  "completed",
		"task/no-result":             "completed",
		"task/key-twice":             "input_required",
		"task/times-negative":        "completed",
		"task/ttl-over":              "completed",
		"task/forgotten":             gone,
		"task/oversize":              noState,
		"task/inputs-endless":        "input_required",
		"task/key-long":              "input_required",
		"task/update-refused":        "input_required",
		"task/many":                  noState,
		"task/told":                  "completed",
		"task/told-junk":             "completed",
		"task/back-legacy":           "completed",
		"task/no-result-legacy":      "no result of ***",
		"task/task-in-result-legacy": noState,
		"task/notices":               "completed",
	}
	for _, m := range hostile.Misbehaviours() {
		if m.Stage() != "task" {
			continue
		}
		want, ok := rows[m.Name]
		require.True(t, ok, "%s has no row", m.Name)
		delete(rows, m.Name)
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s modern %t", m.Name, modern), func(t *testing.T) {
				t.Parallel()
				server, ok := m.InMemory()
				require.True(t, ok)
				spec := mcpvisor.ServerSpec{Name: "h", InMemory: server, Limits: mcpvisor.Limits{MaxMessageBytes: 1 << 20}}
				if strings.HasSuffix(m.Name, "-legacy") {
					spec.Era = mcpvisor.EraLegacy
				}
				c := newClient(t, spec, fixture("good", mcptest.Script{}))
				_, url := serveHTTP(t, c)
				p := follower(t, url, modern)
				params := `{"name":"h__` + hostile.BadTool + `","arguments":{}`
				if legacy := strings.HasSuffix(m.Name, "-legacy"); !modern && legacy {
					params += `,"task":{}`
				} else if !modern {
					t.Skip("its tools do not say that they may be tasks, so the client does not ask for one")
				}
				a := p.ask("tools/call", params+"}")
				require.NotContains(t, string(a.Result), hostile.TaskID)
				seen := fmt.Sprintf("%s %+v", a.Result, a.Error)
				if task.Is(a.Result, modern) {
					made, err := task.Read(a.Result)
					require.NoError(t, err)
					seen = lookAt(t, p, made.ID, want)
				}
				require.Contains(t, seen, want)
				require.NotContains(t, seen, hostile.TaskID)
				require.Contains(t, string(p.ask("tools/call", `{"name":"good__echo","arguments":{"text":"fine"}}`).Result), "fine")
			})
		}
	}
	require.Empty(t, rows, "rows of no server")
}

// lookAt asks for a task ten times, or until what is wanted is seen, and returns what was seen last.
func lookAt(t *testing.T, p *tasker, id, want string) (seen string) {
	t.Helper()
	for n := 0; n < 10 && (n == 0 || !strings.Contains(seen, want)); n++ {
		a := p.ask("tasks/get", about(id))
		if seen = string(a.Result); a.Error != nil {
			seen = a.Error.Error() + string(a.Error.Data)
		}
		require.NotContains(t, seen, hostile.TaskID)
		if p.modern {
			b := p.ask("tasks/update", `{"taskId":"`+id+`","inputResponses":{"k":{"action":"decline"}}}`)
			require.NotContains(t, fmt.Sprintf("%s %+v", b.Result, b.Error), hostile.TaskID)
		} else if strings.Contains(seen, "completed") {
			b := p.ask("tasks/result", about(id))
			seen += fmt.Sprintf("%s %+v", b.Result, b.Error)
		}
	}
	return seen
}

// A client that makes ten thousand tasks gets as many as it may have, asks with ids that it has made
// up and with those that it has, and no other principal notices.
func TestTasks_of_a_hostile_client(t *testing.T) {
	m, ok := hostile.MisbehaviourNamed("task/many")
	require.True(t, ok)
	server, ok := m.InMemory()
	require.True(t, ok)
	c := newClient(t, mcpvisor.ServerSpec{Name: "h", InMemory: server})
	s, url := serveHTTP(t, c, WithTokens(Token{Principal: "evil", SHA256: HashToken("evil")}, Token{Principal: "good", SHA256: HashToken("good")}))
	const callers = 8
	var made, refused atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	for range callers {
		p := follower(t, url, true, "Authorization", "Bearer evil")
		all.Go(func() {
			for range hostile.ManyTasks / callers {
				switch a := p.ask("tools/call", `{"name":"h__`+hostile.BadTool+`"}`); {
				case a.Error == nil:
					made.Add(1)
					read, _ := task.Read(a.Result)
					mu.Lock()
					ids = append(ids, read.ID)
					mu.Unlock()
				case a.Error.Code == message.CodeBusy:
					refused.Add(1)
				default:
					t.Errorf("%+v", a.Error)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1000, made.Load())
	require.EqualValues(t, hostile.ManyTasks-1000, refused.Load())
	evil := follower(t, url, true, "Authorization", "Bearer evil")
	for i := range 1000 {
		a := evil.ask("tasks/get", about(fmt.Sprintf("made-up-%d", i)))
		require.Equal(t, int64(-32602), a.Error.Code)
	}
	for range 20 { // the same id again and again is no new task
		evil.ask("tasks/get", about(ids[0]))
	}
	good := follower(t, url, true, "Authorization", "Bearer good")
	began := time.Now()
	a := good.ask("tools/call", `{"name":"h__`+hostile.BadTool+`"}`)
	require.Nil(t, a.Error)
	t.Logf("a call of another principal took %v", time.Since(began))
	require.Equal(t, int64(-32602), good.ask("tasks/get", about(ids[0])).Error.Code)
	require.Len(t, s.gateway.tasks.List("evil", ""), 1000)
	require.Len(t, s.gateway.tasks.List("good", ""), 1)
}
