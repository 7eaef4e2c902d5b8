package facade_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// numbering is a server that numbers its tasks from 1 in each incarnation, and forgets them when it
// ends. Its tool is called with the name of a caller, and the result is "for" that caller.
type numbering struct {
	version string
	// created is the createdAt that the server says of a task; n counts the answers about it.
	created func(incarnation, task, n int) string
	id      func(n int) string               // of task n of an incarnation; nil: "secret-" and n
	asks    map[string]string                // by incarnation: inputRequests of its tasks
	failed  bool                             // the tasks fail
	mu      sync.Mutex                       //
	starts  int                              // incarnations
	callers []string                         // of the tasks of the current incarnation
	answers int                              // about tasks
	seen    []string                         // "incarnation method task"
	hold    map[int]func(method string) bool // by incarnation: whether a task is working still
}

func stamped(at time.Time) func(int, int, int) string {
	return func(incarnation, task, _ int) string {
		return `"createdAt":"` + at.Add(time.Duration(incarnation)*time.Hour+time.Duration(task)*time.Second).Format(time.RFC3339Nano) + `",`
	}
}

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *numbering) server() *mcpvisor.InMemory {
	modern := s.version >= "2026-07-28"
	poll := `"pollInterval":20`
	if modern {
		poll = `"pollIntervalMs":20`
	}
	return rawServer(func(method, line string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		var task int
		if _, rest, ok := strings.Cut(line, `"taskId":"secret-`); ok {
			_, _ = fmt.Sscanf(rest, "%d", &task)
			s.seen = append(s.seen, fmt.Sprintf("%d %s %d", s.starts, method, task))
		}
		state := func(n int, status string) string {
			s.answers++
			id := fmt.Sprintf("secret-%d", n)
			if s.id != nil {
				id = s.id(n)
			}
			return fmt.Sprintf(`"taskId":%q,"status":%q,%s%s`, id, status, s.created(s.starts, n, s.answers), poll)
		}
		switch method {
		case "initialize", "server/discover":
			if modern == (method == "server/discover") {
				s.starts++
				s.callers = nil
			}
		case "tools/call":
			_, rest, _ := strings.Cut(line, `"caller":"`)
			caller, _, _ := strings.Cut(rest, `"`)
			s.callers = append(s.callers, caller)
			made := state(len(s.callers), "working")
			if modern {
				return `{"resultType":"task",` + made + `}`
			}
			return `{"task":{` + made + `}}`
		case "tasks/get":
			if task == 0 || task > len(s.callers) {
				return failure + `{"code":-32602,"message":"no such task"}`
			}
			if hold := s.hold[s.starts]; hold != nil && hold(method) {
				return `{"resultType":"complete",` + state(task, "working") + `}`
			}
			switch {
			case s.asks[fmt.Sprint(s.starts)] != "":
				return `{"resultType":"complete",` + state(task, "input_required") + `,"inputRequests":` + s.asks[fmt.Sprint(s.starts)] + `}`
			case s.failed && modern:
				return `{"resultType":"complete",` + state(task, "failed") + `,"error":{"code":7,"message":"failed for ` + s.callers[task-1] + `"}}`
			case modern:
				return `{"resultType":"complete",` + state(task, "completed") + `,"result":{"content":[{"type":"text","text":"for ` + s.callers[task-1] + `"}]}}`
			case s.failed:
				return `{` + state(task, "failed") + `}`
			}
			return `{` + state(task, "completed") + `}`
		case "tasks/result":
			if s.failed {
				return failure + `{"code":7,"message":"failed for ` + s.callers[task-1] + `"}`
			}
			return `{"content":[{"type":"text","text":"for ` + s.callers[task-1] + `"}]}`
		}
		if modern {
			return modernTasks(method)
		}
		return legacyTasks(method)
	})
}

// sawOf returns the requests about tasks that an incarnation has got.
func (s *numbering) sawOf(incarnation int) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.seen {
		if rest, ok := strings.CutPrefix(one, fmt.Sprint(incarnation, " ")); ok {
			all = append(all, rest)
		}
	}
	return all
}

func always(int) func(string) bool { return func(string) bool { return true } }

// onNumbering runs f with such a server of both generations. The task of caller A is made by the first
// incarnation, which works on it until it ends.
func onNumbering(t *testing.T, s func() *numbering, f func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			one := s()
			one.version, one.hold = version, map[int]func(string) bool{1: always(1)}
			if one.created == nil {
				one.created = stamped(newYear)
			}
			f(t, one, mcpvisor.ServerSpec{Name: "s", InMemory: one.server(), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)})
		})
	}
}

func caller(name string) map[string]any { return map[string]any{"caller": name} }

func restart(t *testing.T, c *facade.Client) {
	t.Helper()
	require.NoError(t, c.Restart(t.Context(), "s"))
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}

// An id that the next incarnation has given to another call is not the task of the first one: its caller
// gets neither the result nor the error of the other one, whose task is left alone.
func TestTask_whose_id_the_next_incarnation_gives_to_another_call(t *testing.T) {
	for name, row := range map[string]struct {
		created func(incarnation, task, n int) string
		failed  bool
	}{
		"made at another time": {},
		"failed":               {failed: true},
		"made a moment later": {created: func(incarnation, _, _ int) string {
			return fmt.Sprintf(`"createdAt":"2026-01-01T00:00:00.00000000%dZ",`, incarnation)
		}},
		"which say no time":         {created: func(int, int, int) string { return "" }},
		"which say what is no time": {created: func(int, int, int) string { return `"createdAt":"now",` }},
		"whose next one says no time": {created: func(incarnation, _, _ int) string {
			return []string{"", `"createdAt":"2026-01-01T00:00:00Z",`, ""}[incarnation]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onNumbering(t, func() *numbering { return &numbering{created: row.created, failed: row.failed} }, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
				j := new(memoryJournal)
				c := journaled(t, j, "")
				require.NoError(t, c.Register(t.Context(), spec))
				a, err := c.StartTask(t.Context(), "s/x", caller("A"))
				require.NoError(t, err)
				keyed, err := c.StartTask(t.Context(), "s/x", caller("K"), facade.WithKey("k"))
				require.NoError(t, err)
				resumed, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
				require.NoError(t, err)
				restart(t, c)
				for _, name := range []string{"B", "C"} {
					_, err := c.StartTask(t.Context(), "s/x", caller(name))
					require.NoError(t, err)
				}
				require.ErrorContains(t, a.Cancel(t.Context()), "another task", "B's task is not canceled")
				_, err = a.Wait(t.Context())
				requireLost(t, err, "secret-1")
				_, err = resumed.Wait(t.Context())
				requireLost(t, err, "secret-2")
				_, err = keyed.Wait(t.Context())
				requireLost(t, err, "secret-2")
				_, err = c.CallTool(t.Context(), "s/x", caller("K"), facade.WithKey("k"))
				require.ErrorIs(t, err, mcpvisor.ErrCrashed, "the journal keeps no result of another call")
				status, _ := c.ServerStatus("s")
				require.Zero(t, status.Totals.TasksRecovered)
				for _, request := range s.sawOf(2) {
					require.True(t, strings.HasPrefix(request, "tasks/get"), request)
				}
			})
		})
	}
}

// A call that is given up asks only the incarnation that has its task to cancel it.
func TestCallTool_as_a_task_given_up_after_the_end_of_the_server(t *testing.T) {
	onNumbering(t, func() *numbering { return &numbering{} }, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		s.mu.Lock()
		s.hold[2] = always(2)
		s.hold[1] = func(string) bool { // from here the call waits for the next answer
			go func() { _ = c.Restart(context.Background(), "s") }()
			return true
		}
		s.mu.Unlock()
		go func() {
			_, err := c.CallTool(ctx, "s/x", caller("A"))
			called <- err
		}()
		select {
		case err := <-called: // the next incarnation has no task of the id
			requireLost(t, err, "secret-1")
		case <-time.After(time.Minute):
			t.Fatal("the call does not end")
		}
		cancel()
		require.Empty(t, s.sawOf(2)[1:], "one question, and nothing is canceled")
	})
}

// The same instant is the same task, however the server writes it; and in one incarnation createdAt may
// be anything.
func TestTask_that_the_next_incarnation_has(t *testing.T) {
	zones := []string{`"createdAt":"2026-01-01T00:00:00.5Z",`, `"createdAt":"2026-01-01T02:30:00.500000+02:30",`, `"createdAt":"2025-12-31T19:00:00.500-05:00",`}
	onNumbering(t, func() *numbering {
		return &numbering{created: func(incarnation, _, _ int) string { return zones[incarnation] }}
	}, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		a, err := c.StartTask(t.Context(), "s/x", caller("A"))
		require.NoError(t, err)
		restart(t, c)
		s.mu.Lock()
		s.callers = []string{"A"} // it keeps its tasks
		s.mu.Unlock()
		got, err := a.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "for A", text(t, got))
	})
	for name, created := range map[string]func(incarnation, task, n int) string{
		"another time each time": func(_, _, n int) string {
			return `"createdAt":"` + newYear.Add(time.Duration(n)*time.Minute).Format(time.RFC3339) + `",`
		},
		"no time":         func(int, int, int) string { return "" },
		"what is no time": func(int, int, int) string { return `"createdAt":{"a":1},` },
	} {
		t.Run(name, func(t *testing.T) {
			onNumbering(t, func() *numbering { return &numbering{created: created} }, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
				c := journaled(t, new(memoryJournal), "")
				require.NoError(t, c.Register(t.Context(), spec))
				a, err := c.StartTask(t.Context(), "s/x", caller("A"), facade.WithKey("k"))
				require.NoError(t, err)
				taken := new(relay.TaskRelay)
				_, err = c.CallToolRaw(t.Context(), "s/x", []byte(`{"caller":"R"}`), relay.WithTaskRelay(taken))
				require.NoError(t, err)
				s.mu.Lock()
				s.hold = nil
				s.mu.Unlock()
				resumed, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
				require.NoError(t, err)
				for _, one := range []*facade.Task{resumed, a} {
					got, err := one.Wait(t.Context())
					require.NoError(t, err)
					require.Equal(t, "for A", text(t, got))
				}
				relayed, err := relay.Of(c).TaskOf("s", taken.ID, relay.WithTaskOrigin(taken.Origin))
				require.NoError(t, err)
				answer, err := relay.Ask(t.Context(), relayed)
				require.NoError(t, err)
				require.True(t, answer.Ended())
			})
		})
	}
}

// A task that was handed to the caller is recognized as one that is followed.
func TestTaskOf_whose_id_the_next_incarnation_gives_to_another_call(t *testing.T) {
	onNumbering(t, func() *numbering { return &numbering{} }, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		taken := new(relay.TaskRelay)
		_, err := c.CallToolRaw(t.Context(), "s/x", []byte(`{"caller":"A"}`), relay.WithTaskRelay(taken))
		require.NoError(t, err)
		restart(t, c)
		_, err = c.StartTask(t.Context(), "s/x", caller("B"))
		require.NoError(t, err)
		for name, f := range map[string]func(*facade.Task) error{
			"Ask": func(task *facade.Task) error { _, err := relay.Ask(t.Context(), task); return err },
			"Respond": func(task *facade.Task) error {
				if s.version < "2026-07-28" {
					_, err := relay.Ask(t.Context(), task)
					return err
				}
				return relay.Respond(t.Context(), task, []byte(`{"a":{"action":"accept"}}`))
			},
			"Cancel": func(task *facade.Task) error { return task.Cancel(t.Context()) },
		} {
			task, err := relay.Of(c).TaskOf(taken.Server, taken.ID, relay.WithTaskOrigin(taken.Origin))
			require.NoError(t, err)
			err = f(task)
			require.ErrorIs(t, err, mcpvisor.ErrRPC, name)
			require.ErrorContains(t, err, "another task", name)
		}
		for name, f := range map[string]func(*facade.Task) error{
			"Wait": func(task *facade.Task) error { _, err := task.WaitRaw(t.Context()); return err },
			"Watch": func(task *facade.Task) error {
				return relay.Watch(t.Context(), task, func(relay.TaskAnswer) { t.Error(name(s)) })
			},
		} {
			task, err := relay.Of(c).TaskOf(taken.Server, taken.ID, relay.WithTaskOrigin(taken.Origin))
			require.NoError(t, err)
			err = f(task)
			require.ErrorIs(t, err, mcpvisor.ErrCrashed, name)
			require.ErrorContains(t, err, "did not survive", name)
		}
		for _, request := range s.sawOf(2) {
			require.True(t, strings.HasPrefix(request, "tasks/get"), request)
		}
	})
}

func name(s *numbering) string { return "the answer of another task was told: " + s.version }

// The answers of a user go to the task that has asked.
func TestTask_whose_question_the_next_incarnation_asks_for_another_call(t *testing.T) {
	s := &numbering{version: "2026-07-28", created: stamped(newYear), asks: map[string]string{"1": string(oneQuestion), "2": string(oneQuestion)}}
	var c *facade.Client
	var asked int
	c = newClient(t, facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		if asked++; asked == 1 {
			_ = c.Restart(context.Background(), "s")
			_ = c.WaitReady(context.Background(), "s")
			s.mu.Lock()
			s.callers = []string{"B"}
			s.mu.Unlock()
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: s.server(), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}))
	_, err := c.CallTool(t.Context(), "s/x", caller("A"))
	requireLost(t, err, "secret-1")
	require.NotContains(t, s.sawOf(2), "tasks/update 1")
}

// Two calls that get one id from one incarnation would both get the result of one.
func TestTask_that_two_calls_get(t *testing.T) {
	onNumbering(t, func() *numbering { return &numbering{id: func(int) string { return "secret-1" }} }, func(t *testing.T, s *numbering, spec mcpvisor.ServerSpec) {
		c := journaled(t, new(memoryJournal), "")
		require.NoError(t, c.Register(t.Context(), spec))
		refused := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, "another call's task")
			require.NotContains(t, err.Error(), "secret-1")
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.ErrProtocol, e.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		}
		for _, opts := range [][]facade.CallOption{nil, {facade.WithKey("k")}, {relay.WithTaskRelay(new(relay.TaskRelay))}} {
			taken := new(relay.TaskRelay)
			var first *facade.Task
			var err error
			if len(opts) == 0 || opts[0] == nil {
				first, err = c.StartTask(t.Context(), "s/x", caller("A"))
			} else if _, err = c.StartTask(t.Context(), "s/x", caller("A"), opts...); err != nil {
				_, err = c.CallToolRaw(t.Context(), "s/x", []byte(`{"caller":"A"}`), relay.WithTaskRelay(taken))
			} else {
				first, err = c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
			}
			require.NoError(t, err)
			_, err = c.StartTask(t.Context(), "s/x", caller("B"))
			refused(err)
			_, err = c.CallTool(t.Context(), "s/x", caller("C"))
			refused(err)
			_, err = c.CallToolRaw(t.Context(), "s/x", []byte(`{"caller":"D"}`), relay.WithTaskRelay(new(relay.TaskRelay)))
			refused(err)
			if first == nil {
				first, err = relay.Of(c).TaskOf("s", taken.ID, relay.WithTaskOrigin(taken.Origin))
				require.NoError(t, err)
			}
			s.mu.Lock()
			hold := s.hold
			s.hold = nil
			s.mu.Unlock()
			_, err = first.WaitRaw(t.Context())
			require.NoError(t, err)
			s.mu.Lock()
			s.hold = hold
			s.mu.Unlock()
		}
		_, err := c.StartTask(t.Context(), "s/x", caller("E"))
		require.NoError(t, err, "the first ones have ended")
	})
}

// A task is asked for at the server that had it: another one that has its name now learns nothing of
// the task. A change of secrets makes no other server of it.
func TestTask_of_a_server_whose_name_another_one_has(t *testing.T) {
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: time.Hour, Durable: true}}}, StateDir: t.TempDir()}
	spec := mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script)}
	spec.Stdio.Args = append(spec.Stdio.Args, "--api-key=first-secret-1")
	other := spec.Clone()
	other.Stdio.Args = append(other.Stdio.Args, "--other")
	renewed := spec.Clone()
	renewed.Stdio.Args[len(renewed.Stdio.Args)-1] = "--api-key=second-secret-2"

	j := new(memoryJournal)
	first := journaled(t, j, "")
	require.NoError(t, first.Register(t.Context(), spec))
	task, err := first.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.NoError(t, err)
	taken := new(relay.TaskRelay)
	_, err = first.CallToolRaw(t.Context(), "s/job", []byte(`{"key":"relayed"}`), relay.WithTaskRelay(taken))
	require.NoError(t, err)
	require.NoError(t, first.Apply(t.Context(), []mcpvisor.ServerSpec{other}))
	require.ErrorIs(t, task.Cancel(t.Context()), mcpvisor.ErrUnknownServer)
	_, err = task.Wait(t.Context())
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	require.ErrorContains(t, err, "another server had the task")
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)
	_, err = relay.Of(first).TaskOf("s", taken.ID, relay.WithTaskOrigin(taken.Origin))
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)

	second := journaled(t, j, "")
	require.NoError(t, second.Register(t.Context(), other))
	_, err = second.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)
	_, err = second.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)

	third := journaled(t, j, "")
	require.NoError(t, third.Register(t.Context(), renewed))
	resumed, err := third.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
	require.NoError(t, err)
	require.NoError(t, resumed.Cancel(t.Context()), "it has the task")
	relayed, err := relay.Of(third).TaskOf("s", taken.ID, relay.WithTaskOrigin(taken.Origin))
	require.NoError(t, err)
	_, err = relay.Ask(t.Context(), relayed)
	require.NoError(t, err)
}

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
			c := registered(t, sessionless(t, modern, &created, &status))
			first, err := c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err)
			created.Store("2026-01-01T01:00:00Z")
			second, err := c.StartTask(t.Context(), "s/x", nil)
			require.NoError(t, err, "it was executed, and its task is another one")
			_, err = c.StartTask(t.Context(), "s/x", nil)
			require.ErrorContains(t, err, "another call's task", "that is the second one's")
			require.ErrorContains(t, first.Cancel(t.Context()), "another task", "the second one is not canceled")
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
			c := registered(t, spec)
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
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: s.server(), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)})
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
		taken := new(relay.TaskRelay)
		_, err := c.CallToolRaw(context.Background(), "s/x", nil, relay.WithTaskRelay(taken))
		require.NoError(t, err)
		ask := func() {
			task, err := relay.Of(c).TaskOf("s", taken.ID, relay.WithTaskOrigin(taken.Origin))
			require.NoError(t, err)
			_, err = relay.Ask(context.Background(), task)
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

// A later handle on the task of a key is not taken for another call, however often it asks, while the call that has made the
// task waits, is open, or was given up.
func TestTask_of_a_key_has_several_handles(t *testing.T) {
	onTaskServers(t, mcptest.TaskDef{Takes: 300 * time.Millisecond, Poll: 20 * time.Millisecond}, func(t *testing.T, spec mcpvisor.ServerSpec, _ taskLedger) {
		c := registered(t, spec, facade.WithJournal(new(memoryJournal), ""))
		open, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("open"))
		require.NoError(t, err)
		ctx, giveUp := context.WithCancel(t.Context())
		gaveUp := make(chan struct{})
		go func() {
			defer close(gaveUp)
			_, _ = c.CallTool(ctx, "s/job", jobArgs, facade.WithKey("given up"))
		}()
		require.Eventually(t, func() bool {
			known, err := c.JournalEntries(t.Context(), mcpvisor.JournalKey{Key: "given up"})
			return err == nil && len(known) > 0 && known[0].State != mcpvisor.JournalSent
		}, 10*time.Second, time.Millisecond)
		giveUp()
		<-gaveUp
		for _, key := range []string{"given up", "open"} {
			resumed, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: key})
			require.NoError(t, err)
			_, err = resumed.Wait(t.Context())
			require.NoError(t, err, key)
			_, err = c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey(key))
			require.NoError(t, err, key)
		}
		_, err = open.Wait(t.Context())
		require.NoError(t, err)
	})
}
