package facade_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// A copy is another process of a server, by the same spec. The two do not see each other, and Close of the client
// ends both.
func TestClient_CopyServer(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	c, err := facade.New(facade.WithDefaultWaitReady())
	require.NoError(t, err)
	spec := mcpvisor.ServerSpec{Name: "a", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}), Tools: mcpvisor.ToolFilter{Deny: []string{"echo"}}}
	require.NoError(t, c.Register(ctx, spec))
	copied, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	require.NoError(t, copied.WaitReady(ctx, "a"))
	pid := func(c *facade.Client) int {
		status, _ := c.ServerStatus("a")
		return status.Session.PID
	}
	require.NotEqual(t, pid(c), pid(copied))
	status, _ := c.ServerStatus("a")
	require.Equal(t, []int{pid(copied)}, status.Copies)
	require.Equal(t, status.Copies, c.Status()[0].Copies)
	require.Equal(t, 2, mcptest.Starts(dir))
	require.Len(t, copied.Tools(), len(c.Tools()), "the filter is part of the spec")
	_, err = copied.CallTool(ctx, "a/count", map[string]any{"key": "k"})
	require.NoError(t, err)
	calls, _ := c.History().Calls(0)
	require.Len(t, calls, 1, "the records are of both")
	calls, _ = copied.History().Calls(0)
	require.Len(t, calls, 1)

	_, err = copied.CallTool(ctx, "a/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	_, err = c.CallTool(ctx, "a/count", map[string]any{"key": "k"})
	require.NoError(t, err)
	require.NoError(t, copied.Close(ctx))
	require.True(t, mcptest.Alive(pid(c)))
	status, _ = c.ServerStatus("a")
	require.Empty(t, status.Copies)

	second, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	require.NoError(t, second.WaitReady(ctx, "a"))
	require.NoError(t, c.Close(ctx))
	require.True(t, relay.Of(second).Closed())
	for _, pid := range mcptest.PIDs(dir) {
		require.False(t, mcptest.Alive(pid))
	}
	_, err = relay.Of(c).CopyServer("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
}

func TestClient_CopyServer_errors(t *testing.T) {
	c := newClient(t)
	_, err := relay.Of(c).CopyServer("a")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err = relay.Of(c).CopyServer("a", facade.WithJournal(nil, "nonsense"))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.NoError(t, c.Close(t.Context()))
	_, err = relay.Of(c).CopyServer("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
}

// A key is executed once, whether the client or a copy has the call.
func TestClient_CopyServer_keys(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	c := newClient(t, facade.WithDefaultWaitReady(), facade.WithJournal(new(memoryJournal), ""))
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{StateDir: dir})}))
	copied, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	failed := make(chan error, 20)
	for i := range cap(failed) {
		by := []*facade.Client{c, copied}[i%2]
		go func() {
			_, err := by.CallTool(ctx, "a/count", map[string]any{"key": "once"}, facade.WithKey("k"))
			failed <- err
		}()
	}
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	require.Equal(t, map[string]int{"once": 1}, mcptest.Executions(dir))
}

// Questions that belong to no call with handlers are answered by those of the option, and what these do not answer by
// those of the client.
func TestWithUnaskedHandlers(t *testing.T) {
	for _, row := range []struct {
		answers facade.Declared
		want    string
	}{{facade.Declared{Elicitation: true}, "decline"}, {facade.Declared{Sampling: true}, "no client was asked"}} {
		asked := make(chan string, 10)
		h := &relay.Handlers{RawAnswers: row.answers, Raw: func(_ context.Context, r relay.ServerRequest) (json.RawMessage, error) {
			asked <- r.Method
			return json.RawMessage(`{"action":"decline"}`), nil
		}}
		c := registered(t, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithDeclared(facade.Declared{Elicitation: true, Sampling: true}), relay.WithUnaskedHandlers(h))
		r, err := c.CallTool(t.Context(), "a/consult", map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}}})
		require.NoError(t, err)
		answer, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(answer), row.want)
		require.Equal(t, row.answers.Elicitation, len(asked) == 1)
	}
}

// What a copy reports to be ended is told its own followers, not those of the client.
func TestClient_CopyServer_elicitations(t *testing.T) {
	ctx := t.Context()
	server := &raw.Server{Answers: map[string]string{"tools/list": `"result":{"tools":[{"name":"end","inputSchema":{"type":"object"}}]}`}, Answer: func(m *raw.Message) string {
		if m.Method == "tools/call" {
			m.Send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`)
		}
		return ""
	}}
	told := make(chan string, 100)
	follow := func(name string) func(server, id string) {
		return func(server, id string) { told <- name + " " + server + " " + id }
	}
	c := newClient(t, facade.WithDefaultWaitReady())
	require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: inMemory(server)}))
	relay.Of(c).FollowElicitations(follow("client"))
	copied, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	relay.Of(copied).FollowElicitations(follow("copy"))
	other, err := relay.Of(c).CopyServer("a")
	require.NoError(t, err)
	for _, row := range []struct {
		by   *facade.Client
		want []string
	}{{other, nil}, {copied, []string{"copy a e1"}}, {c, []string{"client a e1"}}} {
		_, err := row.by.CallTool(ctx, "a/end", nil)
		require.NoError(t, err)
		for _, want := range row.want { // the next row begins only when all are told
			require.Equal(t, want, <-told)
		}
	}
	require.Empty(t, told)
}

// A copy of an exclusive server is a second process: it is refused, and nothing starts.
func TestClient_CopyServer_exclusive(t *testing.T) {
	c, dir := newClient(t), t.TempDir()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", Exclusive: true, Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir})}))
	_, err := relay.Of(c).CopyServer("a")
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "the server is exclusive")
	require.Equal(t, 1, mcptest.Starts(dir))
}

// Fence reaches the copies of a server and their copies, also those that are made at the same moment or
// later, and those of a server that was unregistered.
func TestClient_Fence_copies(t *testing.T) {
	ctx := t.Context()
	for _, unregistered := range []bool{false, true} {
		c, dir := newClient(t), t.TempDir()
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "a", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir})}))
		copied, err := relay.Of(c).CopyServer("a")
		require.NoError(t, err)
		require.NoError(t, copied.WaitReady(ctx, "a"))
		second, err := relay.Of(copied).CopyServer("a")
		require.NoError(t, err)
		require.NoError(t, second.WaitReady(ctx, "a"))
		if unregistered {
			require.NoError(t, c.Unregister(ctx, "a"))
			require.ErrorIs(t, c.Fence(ctx, "a", "over"), mcpvisor.ErrUnknownServer)
		} else {
			made := make(chan struct{})
			go func() {
				defer close(made)
				err := error(nil)
				for i := 0; err == nil && i < 30; i++ { // more processes than a busy machine starts in time would fail the fence
					_, err = relay.Of(c).CopyServer("a")
				}
			}()
			require.NoError(t, c.Fence(ctx, "a", "over"))
			<-made
			_, err = relay.Of(c).CopyServer("a")
			require.ErrorIs(t, err, mcpvisor.ErrEvicted)
			require.ErrorContains(t, err, "over")
		}
		for _, one := range []*facade.Client{copied, second} {
			_, err = one.CallTool(ctx, "a/echo", nil)
			require.ErrorIs(t, err, mcpvisor.ErrEvicted)
		}
		for _, pid := range mcptest.PIDs(dir) {
			require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, time.Minute, time.Millisecond)
		}
	}
}

// SpeakLegacy gives an exclusive server a session of the legacy era once, and only before its first call.
func TestSpeakLegacy(t *testing.T) {
	script := mcptest.Script{}
	web := mcptest.NewHTTP(script, mcptest.WithStateless())
	t.Cleanup(web.Close)
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"process": {Stdio: mcptest.Stdio(script)}, "memory": {InMemory: mcptest.InMemory(script)}, "HTTP": {HTTP: &mcpvisor.HTTP{URL: web.URL}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t)
			era := func(server string) mcpvisor.Era {
				require.NoError(t, c.WaitReady(t.Context(), server))
				status, _ := c.ServerStatus(server)
				return status.Session.Era
			}
			spec.Name, spec.Exclusive = "exclusive", true
			require.NoError(t, c.Register(t.Context(), spec))
			require.Equal(t, mcpvisor.EraModern, era(spec.Name))
			require.NoError(t, relay.Of(c).SpeakLegacy(t.Context(), spec.Name))
			require.Equal(t, mcpvisor.EraLegacy, era(spec.Name))
			require.NoError(t, c.Restart(t.Context(), spec.Name))
			require.Equal(t, mcpvisor.EraLegacy, era(spec.Name))
			require.NoError(t, relay.Of(c).SpeakLegacy(t.Context(), spec.Name))
			require.NoError(t, c.Unregister(t.Context(), spec.Name))
			require.NoError(t, c.Register(t.Context(), spec))
			require.Equal(t, mcpvisor.EraModern, era(spec.Name), "the next registration is asked again")
			_, err := c.CallTool(t.Context(), spec.Name+"/echo", map[string]any{"text": "hi"})
			require.NoError(t, err)
			require.NoError(t, relay.Of(c).SpeakLegacy(t.Context(), spec.Name))
			require.Equal(t, mcpvisor.EraModern, era(spec.Name))

			spec.Name, spec.Exclusive = "shared", false
			require.NoError(t, c.Register(t.Context(), spec))
			spec.Name, spec.Exclusive, spec.Era = "pinned", true, mcpvisor.EraModern
			require.NoError(t, c.Register(t.Context(), spec))
			for _, server := range []string{"shared", "pinned", "unknown"} {
				require.NoError(t, relay.Of(c).SpeakLegacy(t.Context(), server))
			}
			for _, server := range []string{"shared", "pinned"} {
				status, _ := c.ServerStatus(server)
				require.Nil(t, status.LastCause)
			}
		})
	}
}

// What a copy has to write when it ends, the journal gets, however slow its store is: the result was told.
func TestClient_CopyServer_ends_before_the_journal_has_its_call(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyJournal{}
		store.set(func(ctx context.Context, verb string, state mcpvisor.JournalState) error {
			if verb != "put" || state != mcpvisor.JournalEnded {
				return nil
			}
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c, err := facade.New(facade.WithJournal(store, mcpvisor.JournalKeepAll))
		require.NoError(t, err)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{})}))
		copied, err := relay.Of(c).CopyServer("a")
		require.NoError(t, err)
		key := mcpvisor.JournalKey{Key: "k"}
		_, err = copied.CallTool(t.Context(), "a/echo", nil, facade.WithKey("k"), facade.WithWaitReady())
		require.NoError(t, err)
		require.NoError(t, copied.Close(t.Context()))
		time.Sleep(time.Hour)
		e, known, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, mcpvisor.JournalEnded, e.State)
		require.NoError(t, c.Close(t.Context()))
	})
}
