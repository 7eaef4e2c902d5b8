package gateway

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
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
			s := subscribed(t, Transport(c, WithNames(Names{})), version, "mcptest://text")
			time.Sleep(10 * idle)
			require.Equal(t, supervisor.StateReady, stateOf(t, c, "a"))
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
		failed := string(s.call("tools/call", `{"name":"api__echo","arguments":{"text":"x"}}`).Result)
		require.Contains(t, failed, "is not available at the moment; nothing was done. Try again.")
		s.send(7, "tools/call", `{"name":"api__echo","arguments":{"text":"x"}}`)
		time.Sleep(time.Second)
		require.NoError(t, c.Start(t.Context(), "db"))
		require.Contains(t, string(s.answer().Result), `"text":"x"`)
	})
}
