package gateway

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// idle is IdleStop of the servers of these tests. They run in virtual time.
const idle = time.Minute

// sleeper is a server that is lazy, and counts its starts.
type sleeper struct {
	mcpvisor.ServerSpec
	starts *atomic.Int32
}

func newSleeper(name string, script mcptest.Script) sleeper {
	s := sleeper{fixture(name, script), new(atomic.Int32)}
	serve := s.InMemory.Serve
	s.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		s.starts.Add(1)
		return serve(ctx, in, out, log)
	}}
	s.Start, s.IdleStop = mcpvisor.StartLazy, idle
	return s
}

// stateOf is the state of a server when nothing more happens at this time.
func stateOf(t *testing.T, c *facade.Client, server string) supervisor.State {
	t.Helper()
	synctest.Wait()
	status, ok := c.ServerStatus(server)
	require.True(t, ok)
	return status.State
}

// fallAsleep lets time pass until a server that nothing uses sleeps.
func fallAsleep(t *testing.T, c *facade.Client, server string) {
	t.Helper()
	time.Sleep(2 * idle)
	require.Equal(t, supervisor.StateAsleep, stateOf(t, c, server))
}

// asleep makes a client with a server that sleeps after its first start.
func asleep(t *testing.T, script mcptest.Script, opts ...facade.Option) (*facade.Client, sleeper) {
	t.Helper()
	server := newSleeper("a", script)
	c := newClientWith(t, opts, server.ServerSpec)
	require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"))
	require.EqualValues(t, 1, server.starts.Load(), "it was started for its lists")
	return c, server
}

// requireSilence says that the session was told nothing more.
func (r raw) requireSilence() {
	r.t.Helper()
	synctest.Wait()
	require.Nil(r.t, r.conn.(*connection).exchange.out.notify.Next())
}

// A host sees the lists and the instructions of a server that sleeps, which does not wake it.
func TestSleep_lists(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		synctest.Test(t, func(t *testing.T) {
			c, server := asleep(t, mcptest.Script{Instructions: "Ask a."})
			changed := make(chan struct{}, 100)
			note := func() { changed <- struct{}{} }
			s := connect(t, Transport(c, WithNames(Names{})), version, &mcp.ClientOptions{
				ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { note() },
				PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { note() },
				ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { note() },
			})
			require.Equal(t, "a: Ask a.", s.InitializeResult().Instructions)
			tools, err := s.ListTools(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, tools.Tools, len(c.Tools()))
			require.NotEmpty(t, tools.Tools)
			_, err = s.ListResources(t.Context(), nil)
			require.NoError(t, err)
			_, err = s.ListPrompts(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}))
			require.EqualValues(t, 1, server.starts.Load())

			got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__echo", Arguments: map[string]any{"text": "x"}})
			text(t, got, err)
			fallAsleep(t, c, "a")
			require.EqualValues(t, 2, server.starts.Load())
			require.Empty(t, changed, "the lists are the same")
		})
	})
}

// Each request of a host wakes the server once, however many come at once.
func TestSleep_requests_wake(t *testing.T) {
	template := mcptest.DefaultTemplates()[0].URITemplate
	for name, one := range map[string]struct{ method, params, refusal string }{
		"call":       {"tools/call", `{"name":"a__echo","arguments":{"text":"x"}}`, ""},
		"progress":   {"tools/call", `{"name":"a__slow_progress","arguments":{"steps":2,"ms":10},"_meta":{"progressToken":7}}`, ""},
		"read":       {"resources/read", `{"uri":"mcptest://text"}`, ""},
		"prompt":     {"prompts/get", `{"name":"a__` + mcptest.DefaultPrompts()[0].Name + `","arguments":{"text":"x","topic":"x","name":"x"}}`, ""},
		"completion": {"completion/complete", `{"ref":{"type":"ref/resource","uri":"` + template + `"},"argument":{"name":"x","value":""}}`, "is not known"},
		"subscribe":  {"resources/subscribe", `{"uri":"mcptest://text"}`, ""},
	} {
		for _, wait := range []time.Duration{DefaultMaxWait, 0} {
			t.Run(name+" "+wait.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, server := asleep(t, mcptest.Script{StartDelay: 5 * time.Second})
					s := openRaw(t, Transport(c, WithNames(Names{}), WithMaxWait(wait)))
					s.initializeWith(`{}`)
					for id := range 3 {
						s.send(float64(100+id), one.method, one.params)
					}
					progressed := 0
					for answers := 0; answers < 3; {
						switch m := s.read().(type) {
						case *jsonrpc.Response:
							if answers++; one.refusal != "" { // the server has none, and says so
								require.ErrorContains(t, m.Error, one.refusal)
								continue
							}
							require.NoError(t, m.Error)
							require.NotContains(t, string(m.Result), `"isError":true`)
						case *jsonrpc.Request:
							if m.Method == "notifications/progress" {
								progressed++
							}
						}
					}
					require.Equal(t, name == "progress", progressed > 0)
					require.EqualValues(t, 2, server.starts.Load())
				})
			})
		}
	}
}

// A subscription of a host keeps its server awake, and the end of the session lets it sleep.
func TestSleep_subscription_keeps_awake(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		synctest.Test(t, func(t *testing.T) {
			c, server := asleep(t, mcptest.Script{})
			s := openRaw(t, Transport(c, WithNames(Names{})))
			if version == modernVersion {
				s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":["mcptest://text"]}}`)
			} else {
				s.send(7, "resources/subscribe", `{"uri":"mcptest://text"}`)
				require.NoError(t, s.answer().Error)
			}
			time.Sleep(10 * idle)
			require.Equal(t, supervisor.StateReady, stateOf(t, c, "a"))
			for s.conn.(*connection).exchange.out.notify.Next() != nil { // after the start it may have changed
			}
			_, err := c.CallTool(t.Context(), "a/touch", map[string]any{"uri": "mcptest://text"})
			require.NoError(t, err)
			s.requireUpdate("mcptest://text")
			s.requireSilence()
			require.NoError(t, s.conn.Close())
			fallAsleep(t, c, "a")
			require.EqualValues(t, 2, server.starts.Load())
		})
	})
}

// A server that an operator stops leaves the lists, also if it sleeps, and the error of a call says why at once.
func TestStop(t *testing.T) {
	for name, rests := range map[string]bool{"ready": false, "asleep": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := asleep(t, mcptest.Script{})
				s := openRaw(t, Transport(c, WithNames(Names{})))
				s.initializeWith(`{}`)
				call := func() *jsonrpc.Response {
					return s.call("tools/call", `{"name":"a__echo","arguments":{"text":"x"}}`)
				}
				if !rests {
					require.Contains(t, string(call().Result), `"text":"x"`)
				}
				changes := func() (methods []string) {
					for range 3 {
						methods = append(methods, s.read().(*jsonrpc.Request).Method)
					}
					return methods
				}
				all := []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}
				require.NoError(t, c.Stop(t.Context(), "a"))
				require.ElementsMatch(t, all, changes())
				require.JSONEq(t, `[]`, member(t, s.call("tools/list", `{}`).Result, "tools"))
				began := time.Now()
				failed := string(call().Result)
				require.Contains(t, failed, `"isError":true`)
				require.Contains(t, failed, "an operator has stopped the server of a__echo; nothing was done.")
				require.Contains(t, failed, `"isRetryable":false`)
				require.Zero(t, time.Since(began), "it does not wait")
				require.ErrorContains(t, s.call("resources/read", `{"uri":"mcpvisor://a/mcptest://text"}`).Error, "an operator has stopped the server")

				require.NoError(t, c.Start(t.Context(), "a"))
				require.ElementsMatch(t, all, changes())
				require.Contains(t, string(call().Result), `"text":"x"`)
				s.requireSilence()
			})
		})
	}
}

// A server that does not start when it is woken is one that is down: its lists are withdrawn, if that is how it is set.
func TestSleep_fails_to_wake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newSleeper("a", mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Starts: []int{2}, Do: mcptest.ActionExit, Code: 1}}})
		server.Policy = supervisor.Retry(3, time.Hour)
		c := newClient(t, server.ServerSpec)
		require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"))
		s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(settingsOf(Settings{OnDown: pointerTo(Withdraw)}))))
		s.initializeWith(`{}`)
		s.send(7, "tools/call", `{"name":"a__echo","arguments":{"text":"x"}}`)
		methods := map[string]bool{}
		for range 4 {
			switch m := s.read().(type) {
			case *jsonrpc.Request:
				methods[m.Method] = true
			case *jsonrpc.Response:
				require.Contains(t, string(m.Result), `"isError":true`)
			}
		}
		require.Len(t, methods, 3)
		time.Sleep(time.Hour + 2*idle)
		require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"), "the policy has started it, and nothing has used it")
		require.EqualValues(t, 3, server.starts.Load())
	})
}

// A name that may be that of a server whose lists are not known waits until they are, and does not keep it awake.
func TestSleep_before_the_lists_are_known(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newSleeper("a", mcptest.Script{StartDelay: 5 * time.Second})
		server.StartSupervised, server.IdleStop = true, 0
		c := newClient(t, server.ServerSpec)
		s := openRaw(t, Transport(c, WithSettings(settingsOf(Settings{Names: &Names{Prefix: PrefixNever}}))))
		s.initializeWith(`{}`)
		require.JSONEq(t, `[]`, member(t, s.call("tools/list", `{}`).Result, "tools"))
		s.send(7, "tools/call", `{"name":"nothing"}`)
		require.ErrorContains(t, s.answer().Error, `unknown tool "nothing"`)
		require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"), "the lists say that it has no such tool")
		s.send(8, "tools/list", `{}`)
		require.NotEqual(t, `[]`, member(t, s.answer().Result, "tools"))
		require.EqualValues(t, 1, server.starts.Load())
		s.send(9, "tools/call", `{"name":"echo","arguments":{"text":"x"}}`)
		require.Contains(t, string(s.answer().Result), `"text":"x"`)
		require.EqualValues(t, 2, server.starts.Load())
	})
}

// A server that waits for another one is one that is down for a while: its lists stay, and a call waits for it.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fixture("api", mcptest.Script{})
		api.After = []string{"db"}
		c := newClient(t, fixture("db", mcptest.Script{}), api)
		s := openRaw(t, Transport(c, WithNames(Names{})))
		s.initializeWith(`{}`)
		require.NoError(t, c.Stop(t.Context(), "db"))
		for range 3 {
			s.read() // list_changed
		}
		require.NoError(t, c.Restart(t.Context(), "api"))
		require.Equal(t, supervisor.StateWaiting, stateOf(t, c, "api"))
		s.requireSilence()
		require.Contains(t, string(s.call("tools/list", `{}`).Result), `"api__echo"`)
		failed := string(s.call("tools/call", `{"name":"api__echo","arguments":{"text":"x"}}`).Result)
		require.Contains(t, failed, "is not available at the moment; nothing was done. Try again.")
		s.send(7, "tools/call", `{"name":"api__echo","arguments":{"text":"x"}}`)
		time.Sleep(time.Second)
		require.NoError(t, c.Start(t.Context(), "db"))
		require.Contains(t, string(s.answer().Result), `"text":"x"`)
	})
}

// ownCopies are the servers of which a session has a copy that is ready.
func ownCopies(s raw) (servers []string) {
	synctest.Wait()
	if own := s.conn.(*connection).session.tenancy.own.Load(); own != nil {
		for server, copied := range own.copies() {
			if status, _ := copied.ServerStatus(server); status.State == supervisor.StateReady {
				servers = append(servers, server)
			}
		}
	}
	return servers
}

// A copy of a server that sleeps starts without it, and does not sleep. While it runs, a server that was woken stays
// awake.
func TestShare_of_a_server_that_sleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := asleep(t, mcptest.Script{})
		s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient)))
		s.initializeWith(`{}`)
		require.Contains(t, string(s.call("tools/call", `{"name":"a__echo","arguments":{"text":"x"}}`).Result), `"text":"x"`)
		require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"))
		require.EqualValues(t, 2, server.starts.Load(), "the copy")
		time.Sleep(10 * idle)
		require.Equal(t, []string{"a"}, ownCopies(s))
		_, err := c.CallTool(t.Context(), "a/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
		time.Sleep(10 * idle)
		require.Equal(t, supervisor.StateReady, stateOf(t, c, "a"))
		require.NoError(t, s.conn.Close())
		fallAsleep(t, c, "a")
		require.EqualValues(t, 3, server.starts.Load())
	})
}

// A copy of a server that comes after another one needs that, too.
func TestShare_of_a_server_that_comes_after_one_that_sleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, api := newSleeper("db", mcptest.Script{StartDelay: time.Second}), newSleeper("api", mcptest.Script{})
		api.After = []string{"db"}
		c := newClient(t, db.ServerSpec, api.ServerSpec)
		fallAsleep(t, c, "db")
		require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "api"))
		before := db.starts.Load()
		s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient, "api")))
		s.initializeWith(`{}`)
		require.Contains(t, string(s.call("tools/call", `{"name":"api__echo","arguments":{"text":"x"}}`).Result), `"text":"x"`)
		require.Equal(t, []string{"api"}, ownCopies(s))
		time.Sleep(10 * idle)
		require.Equal(t, supervisor.StateReady, stateOf(t, c, "db"))
		require.NoError(t, s.conn.Close())
		fallAsleep(t, c, "api")
		fallAsleep(t, c, "db")
		require.Equal(t, before+1, db.starts.Load())
	})
}

// With a server that an operator stops its copies end. With subscriptions, a copy starts with the server.
func TestShare_of_a_server_that_is_stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, fixture("a", mcptest.Script{}))
		transport := Transport(c, WithNames(Names{}), withShare(ShareClient))
		caller, subscriber := openRaw(t, transport), openRaw(t, transport)
		call := func() string {
			caller.send(7, "tools/call", `{"name":"a__echo","arguments":{"text":"x"}}`)
			return string(caller.answer().Result)
		}
		for _, s := range []raw{caller, subscriber} {
			s.initializeWith(`{}`)
		}
		require.Contains(t, call(), `"text":"x"`)
		require.NoError(t, subscriber.call("resources/subscribe", `{"uri":"mcptest://text"}`).Error)
		require.NoError(t, c.Stop(t.Context(), "a"))
		require.Empty(t, ownCopies(caller))
		require.Empty(t, ownCopies(subscriber))
		began := time.Now()
		require.Contains(t, call(), "an operator has stopped the server of a__echo; nothing was done.")
		require.Zero(t, time.Since(began))
		require.NoError(t, c.Start(t.Context(), "a"))
		require.NoError(t, c.WaitReady(t.Context(), "a"))
		require.Empty(t, ownCopies(caller))
		require.Equal(t, []string{"a"}, ownCopies(subscriber))
		require.Contains(t, call(), `"text":"x"`)
	})
}

// An open task keeps its server awake although its client asks for it rarely. Later the request wakes the server.
func TestSleep_tasks(t *testing.T) {
	for _, version := range []string{"2025-11-25", modernVersion} {
		for _, wait := range []time.Duration{DefaultMaxWait, 0} {
			t.Run(version+" "+wait.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, server := asleep(t, mcptest.Script{Versions: []string{version},
						Tools: []mcptest.ToolDef{{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: 7 * idle, Durable: true}}}})
					s := openRaw(t, Transport(c, WithNames(Names{}), WithMaxWait(wait)))
					ask := func(method, params string) string {
						answer := s.call(method, params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+modernTasks+`}}`)
						require.NoError(t, answer.Error)
						return string(answer.Result)
					}
					made, err := task.Read([]byte(ask("tools/call", `{"name":"a__job","arguments":{"key":"x"}`)))
					require.NoError(t, err)
					for range 2 {
						time.Sleep(3 * idle)
						require.Contains(t, ask("tasks/get", `{"taskId":"`+made.ID+`"`), `"working"`)
					}
					time.Sleep(3 * idle)
					require.Equal(t, supervisor.StateReady, stateOf(t, c, "a"))
					require.Contains(t, ask("tasks/get", `{"taskId":"`+made.ID+`"`), `"executions":1`)
					fallAsleep(t, c, "a")
					require.EqualValues(t, 2, server.starts.Load())
					require.Contains(t, ask("tasks/get", `{"taskId":"`+made.ID+`"`), `"executions":1`)
					require.EqualValues(t, 3, server.starts.Load())

					_ = ask("tools/call", `{"name":"a__job","arguments":{"key":"y"}`) // the client never asks for it
					time.Sleep(15 * time.Minute)
					require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"))
				})
			})
		}
	}
}

// A session of 2025-11-25 hears of its task, which keeps the server awake until then.
func TestSleep_task_of_a_session(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := asleep(t, mcptest.Script{Tools: []mcptest.ToolDef{{Name: "job", As: "count", Task: &mcptest.TaskDef{Takes: 15 * idle}}}})
		s := openRaw(t, Transport(c, WithNames(Names{})))
		s.initializeWith(`{"tasks":{}}`)
		s.send(7, "tools/call", `{"name":"a__job","arguments":{"key":"x"},"task":{}}`)
		require.NoError(t, s.answer().Error) // a notification may come first
		for time.Sleep(16 * idle); ; {
			told := s.read().(*jsonrpc.Request)
			require.Equal(t, "notifications/tasks/status", told.Method)
			if strings.Contains(string(told.Params), `"completed"`) {
				break
			}
		}
		fallAsleep(t, c, "a")
		require.EqualValues(t, 2, server.starts.Load())
	})
}

// A call with a key wakes the server, and is executed once.
func TestSleep_key(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}}
		c, server := asleep(t, mcptest.Script{}, facade.WithJournal(calls, mcpvisor.JournalKeepAll))
		s := openRaw(t, Transport(c, WithNames(Names{})))
		s.initializeWith(`{}`)
		for range 2 {
			require.Contains(t, string(s.call("tools/call", `{"name":"a__count","arguments":{"key":"x"},"_meta":{"mcpvisor/key":"1"}}`).Result), `"executions":1`)
			fallAsleep(t, c, "a")
		}
		require.EqualValues(t, 2, server.starts.Load(), "the journal has answered the second call")
	})
}
