package facade_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// kinds of servers: both eras, in memory, as a process, and over HTTP.
func everyKind(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	retry := supervisor.Retry(supervisor.Unlimited, time.Millisecond)
	for _, version := range []string{mcptest.Version20251125, mcptest.Version20260728} {
		script := mcptest.Script{Versions: []string{version}}
		t.Run("memory "+version, func(t *testing.T) {
			f(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script), Policy: retry})
		})
		t.Run("process "+version, func(t *testing.T) {
			f(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Policy: retry})
		})
		t.Run("HTTP "+version, func(t *testing.T) {
			var opts []mcptest.HTTPOption
			if version == mcptest.Version20260728 {
				opts = append(opts, mcptest.Stateless())
			}
			web := mcptest.NewHTTP(script, opts...)
			t.Cleanup(web.Close)
			webs.Store(t.Name(), web)
			f(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}, Policy: retry})
		})
	}
}

// watch collects the events of some kinds.
func watch(t *testing.T, c *facade.Client, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	t.Helper()
	out := make(chan mcpvisor.Event, 1000)
	events := c.Watch(t.Context())
	go func() {
		for e := range events {
			for _, kind := range kinds {
				if e.Kind == kind {
					out <- e
				}
			}
		}
	}()
	return out
}

// next is the next of those events.
func next(t *testing.T, events <-chan mcpvisor.Event) mcpvisor.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the event never came")
		panic("unreachable")
	}
}

func call(t *testing.T, c *facade.Client, tool string, args map[string]any) {
	t.Helper()
	r, err := c.CallTool(t.Context(), tool, args, facade.WithWaitReady())
	require.NoError(t, err)
	require.False(t, r.IsError, "%v", r.Content)
}

func lists(c *facade.Client, tool string) bool {
	for t := range c.AllTools() {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// A tool that is added or removed is seen without being asked for, in one swap,
// also after a crash.
func TestListChanged_on_every_transport(t *testing.T) {
	everyKind(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		changes := watch(t, c, mcpvisor.EventChanged)
		require.NoError(t, c.Register(t.Context(), spec))
		before := len(c.Tools())
		for round := range 2 {
			call(t, c, "s/add_tool", map[string]any{"name": "fresh"})
			e := next(t, changes)
			require.Equal(t, mcpvisor.Delta{Added: []string{"s/fresh"}}, e.Change.Tools)
			require.Equal(t, before+1, e.Tools)
			require.True(t, lists(c, "s/fresh"))
			call(t, c, "s/fresh", nil)

			call(t, c, "s/remove_tool", map[string]any{"name": "fresh"})
			require.Equal(t, mcpvisor.Delta{Removed: []string{"s/fresh"}}, next(t, changes).Change.Tools)
			require.False(t, lists(c, "s/fresh"))
			if round == 0 {
				require.NoError(t, c.Restart(t.Context(), "s"))
				require.NoError(t, c.WaitReady(t.Context(), "s"))
			}
		}
	})
}

// A thousand announcements in no time cost a handful of lists.
func TestListChanged_flood_is_coalesced(t *testing.T) {
	var listed, added atomic.Int64
	const announcements = 1000
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "initialize":
			return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			listed.Add(1)
			return fmt.Sprintf(`{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"n%d","inputSchema":{"type":"object"}}]}`, added.Load())
		case "tools/call":
			added.Add(1)
			return `{"content":[]}}` + "\n" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n", announcements/10) + `{"x":1`
		}
		return ""
	})}))
	before := listed.Load()
	for range 10 {
		call(t, c, "s/x", nil)
	}
	require.Eventually(t, func() bool { return lists(c, "s/n10") }, 20*time.Second, time.Millisecond, "the registry ends equal to the server's truth")
	require.LessOrEqual(t, listed.Load()-before, int64(10))
}

func TestRefresh(t *testing.T) {
	c := newClient(t)
	var tool atomic.Value
	tool.Store("old")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		if method == "tools/list" {
			switch name := tool.Load().(string); name {
			case "broken":
				return `"no list"`
			default:
				return `{"tools":[{"name":"` + name + `"}]}`
			}
		}
		return ""
	})}))
	tool.Store("new")
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.True(t, lists(c, "s/new") && !lists(c, "s/old"))
	tool.Store("broken")
	require.NoError(t, c.Refresh(t.Context(), "s"), "the other lists were read")
	require.True(t, lists(c, "s/new"), "what cannot be read stays as it is")
	tool.Store("newer")
	require.Eventually(t, func() bool { return lists(c, "s/newer") }, 20*time.Second, 5*time.Millisecond, "it is tried again")

	require.ErrorIs(t, c.Refresh(t.Context(), "nobody"), mcpvisor.ErrUnknownServer)
}

// A subscription and a log level outlive the incarnation: what they are about is
// told after a restart, and after a crash.
func TestSubscribe_and_logging_level_survive_restarts(t *testing.T) {
	everyKind(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		events := watch(t, c, mcpvisor.EventResourceUpdated, mcpvisor.EventLog)
		// logged is the next line of the log, and how many updates came before it.
		logged := func() (line mcpvisor.LogMessage, updates int) {
			for e := next(t, events); ; e = next(t, events) {
				if e.Kind == mcpvisor.EventLog {
					return *e.Log, updates
				}
				require.Equal(t, "mcptest://text", e.URI)
				updates++
			}
		}
		require.NoError(t, c.Register(t.Context(), spec))
		require.NoError(t, c.Subscribe(t.Context(), "s", "mcptest://text"))
		require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "warning"))
		hear := func() {
			// A stream that was cut is opened again in a while; until then nothing is told.
			until(t, func() bool {
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://other"}) // nobody subscribed
				call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
				select {
				case e := <-events:
					require.Equal(t, mcpvisor.EventResourceUpdated, e.Kind)
					require.Equal(t, "mcptest://text", e.URI)
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
			call(t, c, "s/log", map[string]any{"level": "info", "text": "not this"})
			call(t, c, "s/log", map[string]any{"level": "error", "text": "but this"})
			line, _ := logged()
			require.Equal(t, mcpvisor.LogMessage{Level: "error", Logger: "mcptest", Text: "but this"}, line)
		}
		hear()
		require.NoError(t, c.Restart(t.Context(), "s"))
		require.NoError(t, c.WaitReady(t.Context(), "s"))
		hear()
		crash(t, c)
		hear()
		require.NoError(t, c.Unsubscribe(t.Context(), "s", "mcptest://text"))
		call(t, c, "s/log", map[string]any{"level": "error", "text": "before"})
		line, _ := logged()
		require.Equal(t, "before", line.Text)
		call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
		call(t, c, "s/log", map[string]any{"level": "error", "text": "after"})
		line, updates := logged()
		require.Equal(t, "after", line.Text)
		if spec.HTTP == nil { // where all comes one after the other
			require.Zero(t, updates)
		}
	})
}

// until tries something again and again, with the pauses that it makes itself.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		require.True(t, time.Now().Before(deadline), "it never came true")
	}
}

// crash ends the server, which over HTTP is served again on the same port. There
// the loss of a session is found out by its use, and without sessions only by
// those who happen to ask meanwhile.
func crash(t *testing.T, c *facade.Client) {
	t.Helper()
	if web, ok := webs.Load(t.Name()); ok {
		web.(*mcptest.HTTPServer).Restart()
		until(t, func() bool {
			_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
			return err == nil
		})
		return
	}
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}

// webs are the servers over HTTP, by the name of their test.
var webs sync.Map

// A wish may come before the server does.
func TestSubscribe_while_the_server_is_down(t *testing.T) {
	c := newClient(t)
	events := watch(t, c, mcpvisor.EventResourceUpdated)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Policy: supervisor.Retry(5, time.Millisecond),
		Stdio: mcptest.Stdio(mcptest.Script{StateDir: t.TempDir(),
			Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.Exit, Starts: []int{1, 2}}}})}))
	require.NoError(t, c.Subscribe(t.Context(), "s", "mcptest://text"))
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	call(t, c, "s/touch", map[string]any{"uri": "mcptest://text"})
	require.Equal(t, "mcptest://text", next(t, events).URI)
}

func TestSubscribe_errors(t *testing.T) {
	c := newClient(t)
	refuses := &mcpvisor.InMemory{Serve: rawServer(func(string, string) string { return "" }).Serve}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraModern, InMemory: mcptest.InMemory(mcptest.Script{
		Versions: []string{mcptest.Version20260728}, NoResources: true, NoTools: true,
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Method: "subscriptions/listen", Do: mcptest.Error, Text: "not here"}}})}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "raw", InMemory: refuses}))
	err := c.Subscribe(t.Context(), "s", "mcptest://text")
	require.ErrorContains(t, err, "not here")
	require.ErrorIs(t, c.Subscribe(t.Context(), "s", ""), mcpvisor.ErrInvalid)
	require.ErrorIs(t, c.Subscribe(t.Context(), "nobody", "x:y"), mcpvisor.ErrUnknownServer)
	require.ErrorIs(t, c.SetLoggingLevel(t.Context(), "s", "loud"), mcpvisor.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Subscribe(ctx, "raw", "x:y") // whatever comes first
}

func TestComplete(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		if method != "completion/complete" {
			return ""
		}
		switch {
		case strings.Contains(line, `"ref":{"name":"greet","type":"ref/prompt"}`) && strings.Contains(line, `"argument":{"name":"name","value":"A"}`):
			return `{"completion":{"values":["Ada","Alan"],"total":7,"hasMore":true}}`
		case strings.Contains(line, `"ref":{"type":"ref/resource","uri":"x:{y}"}`) && strings.Contains(line, `"context":{"arguments":{"z":"1"}}`):
			return `{"completion":{"values":[]}}`
		}
		return `{}`
	})}))
	got, err := c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	require.NoError(t, err)
	require.Equal(t, []string{"Ada", "Alan"}, got.Values)
	require.Equal(t, 7, got.Total)
	require.True(t, got.HasMore)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Template: "x:{y}", Argument: "y", Context: map[string]string{"z": "1"}})
	require.NoError(t, err)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "other", Argument: "y"})
	require.ErrorIs(t, err, mcpvisor.ErrProtocol)
	for _, bad := range []facade.CompletionRequest{{}, {Prompt: "p"}, {Argument: "a"}, {Prompt: "p", Template: "t", Argument: "a"}} {
		_, err = c.Complete(t.Context(), "s", bad)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
}

// Fifty reports before the result: the caller has seen all fifty when Call
// returns, on every way.
func TestWithProgress_on_every_transport(t *testing.T) {
	everyKind(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		var seen []float64
		r, err := c.CallTool(t.Context(), "s/slow_progress", map[string]any{"steps": 50, "ms": 1},
			facade.WithProgress(func(p mcpvisor.Progress) { seen = append(seen, p.Progress) }))
		require.NoError(t, err)
		require.False(t, r.IsError)
		require.Len(t, seen, 50)
		require.IsIncreasing(t, seen)
	})
}
