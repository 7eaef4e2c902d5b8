package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/records"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// An id works for the client that it was given to. Any other one is unknown, whichever client made it.
func TestTasks_ids(t *testing.T) {
	key := sessionid.NewKey()
	alice := []string{"Authorization", "Bearer alice"}
	bob := []string{"Authorization", "Bearer bob"}
	overTasks(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, c *facade.Client, url string, modern, _ bool) {
		p := follower(t, url, modern, alice...)
		id := p.begin("x")
		p.get(id)
		sealed, err := seal.Open(key, taskKind, id)
		require.NoError(t, err)
		inner := sealed[2]
		require.True(t, strings.HasPrefix(inner, upstreamID))
		past := seal.Time(time.Now().Add(-time.Hour))
		methods := []string{"tasks/get", "tasks/cancel", "tasks/update"}
		if !modern {
			methods[2] = "tasks/result"
		}
		for name, row := range map[string]struct {
			id     string
			header []string
			want   string
		}{
			"of another principal":  {id, bob, errUnknownTask.Message},
			"the server's own":      {inner, alice, errUnknownTask.Message},
			"random":                {strings.Repeat("QUJD", 40), alice, errUnknownTask.Message},
			"changed":               {id[:20] + "AAAA" + id[24:], alice, errUnknownTask.Message},
			"cut":                   {id[:len(id)-1], alice, errUnknownTask.Message},
			"longer":                {id + "A", alice, errUnknownTask.Message},
			"very long":             {strings.Repeat("A", 100_000), alice, errUnknownTask.Message},
			"with another key":      {seal.Seal(sessionid.NewKey(), taskKind, sealed...), alice, errUnknownTask.Message},
			"of another kind":       {seal.Seal(key, "requestState", sealed...), alice, errUnknownTask.Message},
			"of too few fields":     {seal.Seal(key, taskKind, sealed[:3]...), alice, errUnknownTask.Message},
			"expired":               {seal.Seal(key, taskKind, sealed[0], sealed[1], sealed[2], past, sealed[4], sealed[5], sealed[6]), alice, "has expired"},
			"of a server that left": {seal.Seal(key, taskKind, sealed[0], "gone", sealed[2], sealed[3], sealed[4], sealed[5], sealed[6]), alice, errTaskGone.Message},
			"empty":                 {"", alice, "have no taskId"},
		} {
			for _, method := range methods {
				if modern && (len(row.id) > 10_000 || row.id == "") {
					continue // the header is compared first
				}
				other := follower(t, url, modern, row.header...)
				a := other.ask(method, `{"taskId":"`+row.id+`","inputResponses":{}}`)
				require.NotNil(t, a.Error, "%s %s: %s", name, method, a.Result)
				require.Equal(t, int64(-32602), a.Error.Code, "%s %s: %s", name, method, a.Error.Message)
				require.Contains(t, a.Error.Message, row.want, name)
				require.NotContains(t, a.Error.Message, upstreamID)
			}
		}
		require.Equal(t, task.Working, p.get(id).Status, "it was not canceled")
		if !modern {
			list := follower(t, url, false, bob...).ask("tasks/list", `{}`)
			require.JSONEq(t, `{"tasks":[]}`, string(list.Result))
			list = follower(t, url, false, alice...).ask("tasks/list", `{}`)
			require.Contains(t, string(list.Result), `"taskId":"`+id+`"`)
			require.Contains(t, string(list.Result), `"status":"working"`)
			require.NotContains(t, string(list.Result), upstreamID)
		}
		_ = c
	}, WithSessionKey(key), withNames("alice", "bob"))
}

// The next incarnation of the server is asked for the task, without another call. A server that has
// forgotten it does not know it. Either end is recorded.
func TestTasks_survive_the_server(t *testing.T) {
	for _, durable := range []bool{true, false} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			for _, modern := range []bool{false, true} {
				t.Run(fmt.Sprintf("durable %t, server of %s, modern client %t", durable, version, modern), func(t *testing.T) {
					dir, takes := t.TempDir(), time.Hour
					if durable {
						takes = 100 * time.Millisecond
					}
					script := mcptest.Script{Versions: []string{version}, StateDir: dir, Tools: append(mcptest.DefaultTools(),
						mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: takes, Poll: 20 * time.Millisecond, Durable: durable}})}
					kept := filepath.Join(t.TempDir(), "records")
					writer, err := records.Open(kept, records.Options{})
					require.NoError(t, err)
					c := newClientWith(t, []facade.Option{facade.WithEndedCalls(writer.Call, false)}, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(supervisor.Unlimited, 50*time.Millisecond)})
					_, url := serveHTTP(t, c)
					p := follower(t, url, modern)
					id := p.begin("x")
					before, _ := c.ServerStatus("s")
					_, err = c.CallTool(t.Context(), "s/crash", nil)
					require.Error(t, err)
					if durable {
						require.Contains(t, string(p.outcome(id)), `"executions":1`)
					} else {
						a := p.ask("tasks/get", about(id))
						require.Equal(t, int64(-32602), a.Error.Code)
						require.Equal(t, errTaskGone.Message, a.Error.Message)
					}
					until(t, func() bool { // a task that had ended before the server did needs no other one
						after, _ := c.ServerStatus("s")
						return after.Epoch != before.Epoch
					})
					require.Equal(t, map[string]int{"x": 1}, mcptest.Executions(dir))
					require.NoError(t, writer.Close())
					var job []records.Record
					require.NoError(t, records.Read(kept, records.Query{Tool: "job"}, func(r records.Record) error { job = append(job, r); return nil }))
					require.Len(t, job, 2)
					require.Equal(t, "tasks/result", job[1].Method)
					require.Equal(t, job[0].Client, job[1].Client)
					require.Equal(t, !durable, job[1].ErrorKind == mcpvisor.ErrCrashed)
					require.Equal(t, durable, job[1].Took >= takes)
				})
			}
		}
	}
}

// A server that ends over a request about a task is asked again.
func TestTasks_asked_again(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for method, params := range map[string]string{"tasks/get": "", "tasks/cancel": "", "tasks/update": `,"inputResponses":{"a":{"action":"decline"}}`} {
			if method == "tasks/update" && version != modernVersion {
				continue
			}
			t.Run(version+" "+method, func(t *testing.T) {
				def := mcptest.TaskDef{Durable: true, Input: []byte(oneQuestion)}
				c := newClient(t, jobServer(version, def, mcptest.Fault{At: mcptest.StageCall, Method: method, Nth: 1, Starts: []int{1}, Do: mcptest.ActionExit}))
				_, url := serveHTTP(t, c)
				p := follower(t, url, true)
				id := p.begin("x")
				a := p.ask(method, `{"taskId":"`+id+`"`+params+`}`)
				require.Nil(t, a.Error, "%+v", a.Error)
				status, _ := c.ServerStatus("s")
				require.EqualValues(t, 2, status.Epoch)
				if method == "tasks/update" {
					require.Contains(t, string(p.outcome(id)), `"executions":1`)
				}
			})
		}
	}
}

// A result that a client of 2025-11-25 waits for comes also when the server ends meanwhile.
func TestTasks_result_survives_the_server(t *testing.T) {
	dir := t.TempDir()
	script := mcptest.Script{Versions: []string{"2025-11-25"}, StateDir: dir, Tools: append(mcptest.DefaultTools(),
		mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: 500 * time.Millisecond, Poll: 20 * time.Millisecond, Durable: true}})}
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(supervisor.Unlimited, 50*time.Millisecond)})
	_, url := serveHTTP(t, c)
	p := follower(t, url, false)
	id := p.begin("x")
	ended := make(chan answer, 1)
	go func() { ended <- p.ask("tasks/result", about(id)) }()
	until(t, func() bool { return len(c.Tasks()) == 1 || len(ended) == 1 })
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.Error(t, err)
	a := receive(t, ended)
	require.Nil(t, a.Error, "%+v", a.Error)
	require.Contains(t, string(a.Result), `"executions":1`)
	require.Equal(t, map[string]int{"x": 1}, mcptest.Executions(dir))
}

// A principal has a bounded number of open tasks. Beyond it a call is refused before it is sent, and
// other principals notice nothing.
func TestTasks_bound(t *testing.T) {
	key := sessionid.NewKey()
	opts := []Option{WithSessionKey(key), WithHTTPLimits(HTTPLimits{MaxTasks: 3}), withNames("alice", "bob")}
	overTasks(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, c *facade.Client, _ string, modern, _ bool) {
		_, url := serveHTTP(t, c, opts...)
		p := follower(t, url, modern, "Authorization", "Bearer alice")
		first := p.begin("1")
		p.begin("2")
		p.begin("3")
		calls := func() int { all, _ := c.History().Calls(0); return len(all) }
		sent := calls()
		a := p.job("4")
		require.Equal(t, int64(message.CodeBusy), a.Error.Code)
		require.Contains(t, a.Error.Message, "3 tasks are open")
		require.Equal(t, sent, calls(), "nothing was sent")
		follower(t, url, modern, "Authorization", "Bearer bob").begin("1")
		require.Nil(t, p.ask("tasks/cancel", about(first)).Error)
		fourth := p.begin("4")
		require.NotNil(t, p.job("5").Error)
		require.Equal(t, task.Working, p.get(fourth).Status)
	})
}

// A call that ends without a task holds no place.
func TestTasks_bound_of_other_calls(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("s", mcptest.Script{})), WithHTTPLimits(HTTPLimits{MaxTasks: 1}))
	p := follower(t, url, true)
	for range 3 {
		require.Nil(t, p.ask("tools/call", `{"name":"s__echo","arguments":{"text":"x"}}`).Error)
		require.NotNil(t, p.ask("tools/call", `{"name":"s__unknown"}`).Error)
	}
}

// Since 2026-07-28 a client listens for the changes of tasks; the others are not acknowledged.
func TestTasks_listen(t *testing.T) {
	for _, notify := range []bool{true, false} {
		overTasks(t, mcptest.TaskDef{Takes: 100 * time.Millisecond, Notify: notify}, func(t *testing.T, _ *facade.Client, url string, modern, modernServer bool) {
			if !modern || !notify && !modernServer {
				return
			}
			p := follower(t, url, true)
			id := p.begin("x")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, next := p.open(ctx, "subscriptions/listen", `{"notifications":{"taskIds":["`+id+`","other"]}}`)
			m, ok := next()
			require.True(t, ok)
			require.Equal(t, `["`+id+`"]`, memberOf(t, m, "params", "notifications", "taskIds"))
			for {
				m, ok = next()
				require.True(t, ok)
				require.Equal(t, `"notifications/tasks"`, memberOf(t, m, "method"))
				require.Equal(t, `"`+id+`"`, memberOf(t, m, "params", "taskId"))
				require.Contains(t, memberOf(t, m, "params", "_meta"), "subscriptionId")
				require.NotContains(t, string(m), upstreamID)
				require.NotContains(t, string(m), `"ttl":`)
				if memberOf(t, m, "params", "status") == `"completed"` {
					if modernServer {
						require.Contains(t, memberOf(t, m, "params", "result"), `"executions":1`)
					}
					return
				}
				if !notify {
					return // it would take half a minute
				}
			}
		})
	}
}

// A client that does not declare the extension may not listen for tasks.
func TestTasks_listen_without_tasks(t *testing.T) {
	_, url := serveHTTP(t, newClient(t))
	a := newTasker(t, url, true, `{}`).ask("subscriptions/listen", `{"notifications":{"taskIds":["x"]}}`)
	require.Equal(t, int64(-32021), a.Error.Code)
	many, err := json.Marshal(make([]string, maxTaskIDs+1))
	require.NoError(t, err)
	a = follower(t, url, true).ask("subscriptions/listen", `{"notifications":{"taskIds":`+string(many)+`}}`)
	require.Equal(t, int64(-32602), a.Error.Code)
}

// In 2025-11-25 the session that made the call is told on its stream, and no other one is.
func TestTasks_status_notifications(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			c := newClient(t, jobServer(version, mcptest.TaskDef{Takes: 100 * time.Millisecond, Notify: true}))
			_, url := serveHTTP(t, c)
			p, other := follower(t, url, false), follower(t, url, false)
			mine, others := p.listen(), other.listen()
			_, _, ok := mine.next() // the streams are open
			require.True(t, ok)
			_, _, ok = others.next()
			require.True(t, ok)
			id := p.begin("x")
			for {
				_, data, ok := mine.next()
				require.True(t, ok)
				require.Equal(t, `"notifications/tasks/status"`, memberOf(t, []byte(data), "method"))
				require.Equal(t, `"`+id+`"`, memberOf(t, []byte(data), "params", "taskId"))
				require.Empty(t, memberOf(t, []byte(data), "params", "result"))
				require.NotContains(t, data, upstreamID)
				if memberOf(t, []byte(data), "params", "status") == `"completed"` {
					break
				}
			}
			status, _ := other.post(`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"mcptest://text"}}`)
			require.Equal(t, http.StatusOK, status)
			other.post(toolCallOf(10, "s__touch", `{"uri":"mcptest://text"}`))
			_, data, ok := others.next()
			require.True(t, ok)
			require.Contains(t, data, "resources/updated")
		})
	}
}

// A session that opens its stream after the call is told, too. The task keeps the session until it ends.
func TestTasks_status_of_a_later_stream(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, jobServer("2025-11-25", mcptest.TaskDef{Takes: time.Hour, Notify: true})))
	waiting := func() (sessions, notes int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, hs := range s.sessions {
			notes += hs.session.notify.Count().Tasks
		}
		return len(s.sessions), notes
	}
	p := follower(t, url, false)
	id := p.begin("x")
	until(t, func() bool { _, notes := waiting(); return notes == 1 })
	stream := p.listen()
	for {
		_, data, ok := stream.next()
		require.True(t, ok)
		if data != "" {
			require.Equal(t, `"notifications/tasks/status"`, memberOf(t, []byte(data), "method"))
			require.Equal(t, `"`+id+`"`, memberOf(t, []byte(data), "params", "taskId"))
			break
		}
	}
	stream.stop()
	require.Nil(t, follower(t, url, false).ask("tasks/cancel", about(id)).Error)
	until(t, func() bool { sessions, _ := waiting(); return sessions == 0 })
}

// memoryJournal is a journal for one test.
type memoryJournal struct {
	mcpvisor.JournalLocks
	mu      sync.Mutex
	entries map[mcpvisor.JournalKey]mcpvisor.JournalEntry
}

func (j *memoryJournal) Get(_ context.Context, key mcpvisor.JournalKey) (mcpvisor.JournalEntry, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[key]
	return e, ok, nil
}

func (j *memoryJournal) Put(_ context.Context, e mcpvisor.JournalEntry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries[e.JournalKey()] = e
	return nil
}

func (j *memoryJournal) Delete(_ context.Context, key mcpvisor.JournalKey) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.entries, key)
	return nil
}

func (j *memoryJournal) Entries(context.Context) ([]mcpvisor.JournalEntry, error) { return nil, nil }

// A call with a key is executed once, however often the client makes it, through whichever process.
// The keys of different principals differ, and those of one principal are the same with each profile.
func TestKey(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern %t", modern), func(t *testing.T) {
			dir := t.TempDir()
			calls := &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}}
			newGateway := func() string {
				c := newClientWith(t, []facade.Option{facade.WithJournal(calls, mcpvisor.JournalKeepAll)}, fixture("s", mcptest.Script{StateDir: dir}))
				_, url := serveHTTP(t, c, WithTokens(Token{Principal: "alice", SHA256: HashToken("alice")}, Token{Principal: "bob", SHA256: HashToken("bob")},
					Token{Principal: "alice", Profile: "p", SHA256: HashToken("alice-p")}), WithSettings(newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})))
				return url
			}
			call := func(url, who string) answer {
				return follower(t, url, modern, "Authorization", "Bearer "+who).ask("tools/call", `{"name":"s__count","arguments":{"key":"`+who+`"},"_meta":{"mcpvisor/key":"order-1"}}`)
			}
			first, second := newGateway(), newGateway()
			for i, url := range []string{first, first, second, second} {
				a := call(url, "alice")
				if i%2 == 1 {
					a = follower(t, url, modern, "Authorization", "Bearer alice-p").ask("tools/call", `{"name":"s__count","arguments":{"key":"alice"},"_meta":{"mcpvisor/key":"order-1"}}`)
				}
				require.Nil(t, a.Error, "%+v", a.Error)
				require.Contains(t, string(a.Result), `"executions":1`)
			}
			require.Contains(t, string(call(first, "bob").Result), `"executions":1`)
			require.Equal(t, map[string]int{"alice": 1, "bob": 1}, mcptest.Executions(dir))

			for key := range calls.entries {
				require.Contains(t, []string{"alice", "bob"}, key.Principal)
				require.Equal(t, "order-1", key.Key)
			}

			c := newClient(t, fixture("s", mcptest.Script{StateDir: dir}))
			_, without := serveHTTP(t, c)
			a := follower(t, without, modern).ask("tools/call", `{"name":"s__count","arguments":{"key":"carol"},"_meta":{"mcpvisor/key":"order-1"}}`)
			require.True(t, a.Error != nil || strings.Contains(string(a.Result), `"isError":true`), "%s", a.Result)
			require.NotContains(t, mcptest.Executions(dir), "carol")
		})
	}
}

// askingClient has a server whose tasks ask one question.
func askingClient(t *testing.T) *facade.Client {
	t.Helper()
	c := newClientWith(t, []facade.Option{facade.WithDeclared(facade.Declared{Elicitation: true})}, jobServer("2025-11-25", mcptest.TaskDef{Input: []byte(oneQuestion)}))
	return c
}

// What waits for the answers of a client ends with the task, and with the handler.
func TestTasks_input_of_a_canceled_task(t *testing.T) {
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			c := askingClient(t)
			s, url := serveHTTP(t, c)
			p := follower(t, url, true)
			id := p.begin("x")
			p.await(id, task.InputRequired)
			until(t, func() bool { return len(c.Tasks()) == 1 }) // tasks/result waits
			held := s.gateway.opts.settings.holdings.total
			until(t, func() bool { return held.Used() > 4<<10 }) // its question
			if how == "close" {
				s.Close()
			} else {
				require.Nil(t, p.ask("tasks/cancel", about(id)).Error)
			}
			until(t, func() bool { return len(c.Tasks()) == 0 })
			until(t, func() bool { return held.Used() == 0 })
		})
	}
}

// Answers that nothing waits for are refused: the client would take them for passed on.
func TestTasks_input_that_nothing_waits_for(t *testing.T) {
	c := askingClient(t)
	s, url := serveHTTP(t, c)
	p := follower(t, url, true)
	id := p.begin("x")
	p.await(id, task.InputRequired)
	until(t, func() bool { return len(c.Tasks()) == 1 })
	s.gateway.tasks.StopWaiting() // as after a minute
	until(t, func() bool { return len(c.Tasks()) == 0 })
	answer := `{"taskId":"` + id + `","inputResponses":{"k":{"action":"decline"}}}`
	until(t, func() bool {
		a := p.ask("tasks/update", answer)
		return a.Error != nil && strings.Contains(a.Error.Error(), "ask again with tasks/get")
	})
}

// A client that answers nothing leaves what a task asks for to the host.
func TestTasks_input_for_the_host(t *testing.T) {
	asked := make(chan struct{}, 10)
	c := newClientWith(t, []facade.Option{facade.WithElicitationHandler(elicitationOf(asked))}, jobServer("2025-11-25", mcptest.TaskDef{Input: []byte(oneQuestion)}))
	_, url := serveHTTP(t, c)
	p := newTasker(t, url, true, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	id := p.begin("x")
	require.Contains(t, string(p.outcome(id)), `"executions":1`)
	receive(t, asked)
}

// Interceptors see calls of which tasks are made, and may refuse them.
func TestTasks_intercepted(t *testing.T) {
	seen := make(chan string, 10)
	c := newClientWith(t, []facade.Option{facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		if strings.Contains(string(call.Arguments), "refuse") {
			return facade.CallResult{}, errors.New("not today")
		}
		r, err := next(ctx, call)
		seen <- string(r.JSON)
		return r, err
	})}, jobServer("2026-07-28", mcptest.TaskDef{Takes: time.Hour}))
	_, url := serveHTTP(t, c)
	p := follower(t, url, true)
	p.get(p.begin("x"))
	require.Contains(t, receive(t, seen), `"resultType":"task"`)
	require.Contains(t, string(p.job("refuse").Result), "refused")
}

func elicitationOf(asked chan<- struct{}) func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
	return func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}
}
