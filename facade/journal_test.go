package facade_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// memoryJournal is a journal that outlives clients, and not the process.
type memoryJournal struct {
	mcpvisor.JournalLocks
	mu      sync.Mutex
	entries map[mcpvisor.JournalKey]mcpvisor.JournalEntry
	states  []mcpvisor.JournalState // of all writes
	fail    func(verb string, e mcpvisor.JournalEntry) error
}

func (j *memoryJournal) do(verb string, e mcpvisor.JournalEntry, f func()) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		if err := j.fail(verb, e); err != nil {
			return err
		}
	}
	if j.entries == nil {
		j.entries = map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}
	}
	f()
	return nil
}

func (j *memoryJournal) Get(_ context.Context, key mcpvisor.JournalKey) (e mcpvisor.JournalEntry, ok bool, err error) {
	err = j.do("get", mcpvisor.JournalEntry{Principal: key.Principal, Key: key.Key}, func() { e, ok = j.entries[key] })
	return e, ok, err
}

func (j *memoryJournal) Put(_ context.Context, e mcpvisor.JournalEntry) error {
	return j.do("put", e, func() {
		e.Result, e.Arguments = slices.Clone(e.Result), slices.Clone(e.Arguments)
		j.entries[e.JournalKey()], j.states = e, append(j.states, e.State)
	})
}

func (j *memoryJournal) Delete(_ context.Context, key mcpvisor.JournalKey) error {
	return j.do("delete", mcpvisor.JournalEntry{Principal: key.Principal, Key: key.Key}, func() { delete(j.entries, key) })
}

func (j *memoryJournal) Entries(context.Context) (all []mcpvisor.JournalEntry, err error) {
	err = j.do("entries", mcpvisor.JournalEntry{}, func() {
		for _, e := range j.entries {
			e.Result, e.Arguments = nil, nil
			all = append(all, e)
		}
	})
	return all, err
}

// journaled makes a client with the journal.
func journaled(t *testing.T, j mcpvisor.Journal, keep mcpvisor.JournalKeep) *facade.Client {
	t.Helper()
	return newClient(t, facade.WithJournal(j, keep))
}

// countServer counts its executions in a directory, which outlives it.
func countServer(dir string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond), InMemory: mcptest.InMemory(mcptest.Script{
		StateDir: dir, Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "count"})})}
}

func text(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	require.NotNil(t, r)
	return r.Content[0].(*mcp.TextContent).Text
}

// A call with a key is executed once, and its result is found again by the next host, by each
// method that makes calls.
func TestWithKey(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	for range 3 { // three hosts
		c := journaled(t, j, "")
		require.NoError(t, c.Register(t.Context(), countServer(dir)))
		got, err := c.CallTool(t.Context(), "s/job", map[string]any{"key": "a", "n": 1}, facade.WithKey("order-1"))
		require.NoError(t, err)
		require.Equal(t, `{"executions":1,"key":"a"}`, text(t, got))
		raw, err := c.CallToolRaw(t.Context(), "s/job", []byte(`{"n": 1.0e0 , "key":"b"}`), facade.WithKey("order-2"))
		require.NoError(t, err)
		require.Contains(t, string(raw), `"executions":1,"key":"b"`)
		answer := c.CallToolForModel(t.Context(), "s/job", []byte(`{"key":"c"}`), facade.WithKey("order-3"))
		require.False(t, answer.IsError)
		task, err := c.StartTask(t.Context(), "s/job", map[string]any{"key": "d"}, facade.WithKey("order-4"))
		require.NoError(t, err)
		got, err = task.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{"executions":1,"key":"d"}`, text(t, got))
		require.NoError(t, c.Close(t.Context()))
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, mcptest.Executions(dir))
	require.Equal(t, slices.Repeat([]mcpvisor.JournalState{mcpvisor.JournalSent, mcpvisor.JournalEnded}, 4), j.states,
		"each call is written down before it is sent, and with its answer")
}

// A caller whose context ends while another call with its key runs gives up, and nothing was sent.
func TestWithKey_waits_within_its_context(t *testing.T) {
	j := new(memoryJournal)
	c := journaled(t, j, "")
	server, calls := countCalls(mcptest.InMemory(mcptest.Script{}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: server}))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/hang", nil, facade.WithKey("k"))
		first <- err
	}()
	require.Eventually(t, func() bool { return calls.Load() == 1 }, 10*time.Second, time.Millisecond)
	ended, end := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ended, "s/hang", nil, facade.WithKey("k"))
		second <- err
	}()
	end()
	err := <-second
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	cancel()
	requireOutcome(t, <-first, mcpvisor.OutcomeUnknown)
	// The outcome of the first stays unknown, to each who asks.
	_, err = c.CallTool(t.Context(), "s/hang", nil, facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	requireOutcome(t, err, mcpvisor.OutcomeUnknown)
	require.Empty(t, c.CallsInFlight())
}

func requireOutcome(t *testing.T, err error, want mcpvisor.Outcome) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Outcome, "%v", err)
}

// What the journal holds of a call that has ended, or was interrupted, is what its key returns.
func TestWithKey_of_an_entry(t *testing.T) {
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		entry   mcpvisor.JournalEntry
		kind    error
		outcome mcpvisor.Outcome
		text    string
	}{
		"sent":      {mcpvisor.JournalEntry{State: mcpvisor.JournalSent}, mcpvisor.ErrInterrupted, mcpvisor.OutcomeUnknown, "was sent at 2026-11-01T12:00:00Z, and the journal has no answer: the host ended before it came"},
		"crashed":   {mcpvisor.JournalEntry{State: mcpvisor.JournalEnded, Error: &mcpvisor.JournalError{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Text: "out of memory"}}, mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, `out of memory (of the call with the key "k", made at 2026-11-01T12:00:00Z)`},
		"rpc":       {mcpvisor.JournalEntry{State: mcpvisor.JournalEnded, Error: &mcpvisor.JournalError{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Text: "no", Code: -32001, Data: []byte(`{"x":1}`)}}, mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered, "no"},
		"no result": {mcpvisor.JournalEntry{State: mcpvisor.JournalEnded, ResultBytes: 77}, mcpvisor.ErrJournal, mcpvisor.OutcomeAnswered, "has not kept its result of 77 bytes"},
		"tool":      {mcpvisor.JournalEntry{State: mcpvisor.JournalSent, Tool: "other"}, mcpvisor.ErrInvalid, mcpvisor.OutcomeNotSent, "belongs to a call of s/other"},
		"server":    {mcpvisor.JournalEntry{State: mcpvisor.JournalSent, Server: "other"}, mcpvisor.ErrInvalid, mcpvisor.OutcomeNotSent, "belongs to a call of other/job"},
		"arguments": {mcpvisor.JournalEntry{State: mcpvisor.JournalSent, Digest: "1234"}, mcpvisor.ErrInvalid, mcpvisor.OutcomeNotSent, "with other arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			e := test.entry
			e.Key, e.Began = "k", began
			e.Server, e.Tool = orDefault(e.Server, "s"), orDefault(e.Tool, "job")
			j, dir := &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{{Key: "k"}: e}}, t.TempDir()
			c := journaled(t, j, "")
			require.NoError(t, c.Register(t.Context(), countServer(dir)))
			_, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
			require.ErrorIs(t, err, test.kind)
			require.ErrorContains(t, err, test.text)
			require.ErrorContains(t, err, "another key")
			requireOutcome(t, err, test.outcome)
			if name == "rpc" {
				var rpc *jsonrpc.Error
				require.ErrorAs(t, err, &rpc)
				require.Equal(t, jsonrpc.Error{Code: -32001, Message: "no", Data: []byte(`{"x":1}`)}, *rpc)
			}
			require.Empty(t, mcptest.Executions(dir), "nothing was sent")
			require.Empty(t, j.states, "nothing was written")
			calls, _ := c.History().Calls(0)
			require.Empty(t, calls)
		})
	}
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// A call of which nothing was sent leaves its key free; an error of the server does not.
func TestWithKey_of_a_call_that_fails(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	c := journaled(t, j, "")
	spec := countServer(dir)
	require.NoError(t, c.Register(t.Context(), spec))
	_, err := c.CallTool(t.Context(), "s/crash", nil, facade.WithKey("crash"))
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.Equal(t, mcpvisor.JournalEnded, j.entries[mcpvisor.JournalKey{Key: "crash"}].State)
	_, again := c.CallTool(t.Context(), "s/crash", nil, facade.WithKey("crash"))
	require.ErrorIs(t, again, mcpvisor.ErrCrashed)
	require.ErrorContains(t, again, "of the call with the key")
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	require.Equal(t, 1, requireStatus(t, c, "s").Restarts, "the second call was not sent")

	require.NoError(t, c.Unregister(t.Context(), "s"))
	spec.InMemory, spec.Stdio = nil, &mcpvisor.Stdio{Command: os.Args[0], Args: []string{"-test.run=^$"}} // ends at once
	spec.StartSupervised, spec.Policy = true, supervisor.Retry(supervisor.Unlimited, time.Hour)
	require.NoError(t, c.Register(t.Context(), spec))
	_, err = c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("down"))
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	requireOutcome(t, err, mcpvisor.OutcomeNotSent)
	require.NotContains(t, j.entries, mcpvisor.JournalKey{Key: "down"})
}

func requireStatus(t *testing.T, c *facade.Client, server string) mcpvisor.ServerStatus {
	t.Helper()
	s, ok := c.ServerStatus(server)
	require.True(t, ok)
	return s
}

// Without a journal, with a key that cannot be shown, and for other requests a key is refused.
func TestWithKey_refused(t *testing.T) {
	c := registered(t, countServer(t.TempDir()))
	_, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "facade.WithJournal")
	_, err = c.ReadResource(t.Context(), "s", "file:///x", facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	none, err := c.JournalEntries(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = facade.New(facade.WithJournal(new(memoryJournal), "some"))
	require.ErrorContains(t, err, `keep is "some"`)
	c = journaled(t, new(memoryJournal), "")
	require.NoError(t, c.Register(t.Context(), countServer(t.TempDir())))
	for _, key := range []string{"", "a\nb", "\xff"} {
		_, err = c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey(key))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, "%q", key)
	}
	_, err = c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "never used"})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "does not know the key")
}

// The user chooses what the journal keeps; secrets of the specification are never kept.
func TestWithJournal_keeps(t *testing.T) {
	const secret = "s3cr3t-t0ken-77"
	for keep, want := range map[mcpvisor.JournalKeep]func(e mcpvisor.JournalEntry){
		mcpvisor.JournalKeepAll: func(e mcpvisor.JournalEntry) {
			require.JSONEq(t, `{"key":"order","password":"***"}`, string(e.Arguments))
			require.Contains(t, string(e.Result), `"executions":1`)
			require.Positive(t, e.ResultBytes)
			require.Len(t, e.Digest, 64)
		},
		mcpvisor.JournalKeepDigests: func(e mcpvisor.JournalEntry) {
			require.Empty(t, e.Arguments)
			require.Empty(t, e.Result)
			require.Len(t, e.Digest, 64)
			require.Len(t, e.ResultDigest, 64)
		},
		mcpvisor.JournalKeepNothing: func(e mcpvisor.JournalEntry) {
			require.Empty(t, string(e.Arguments)+string(e.Result)+e.Digest+e.ResultDigest)
		},
	} {
		t.Run(string(keep), func(t *testing.T) {
			j := new(memoryJournal)
			c := journaled(t, j, keep)
			spec := countServer(t.TempDir())
			spec.Secrets = []string{secret}
			require.NoError(t, c.Register(t.Context(), spec))
			call := func() error {
				_, err := c.CallTool(t.Context(), "s/job", map[string]any{"key": "order", "password": secret}, facade.WithKey("k"))
				return err
			}
			require.NoError(t, call())
			want(j.entries[mcpvisor.JournalKey{Key: "k"}])
			require.NotContains(t, string(j.entries[mcpvisor.JournalKey{Key: "k"}].Arguments)+string(j.entries[mcpvisor.JournalKey{Key: "k"}].Result), secret)
			if err := call(); keep == mcpvisor.JournalKeepAll {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, mcpvisor.ErrJournal)
				requireOutcome(t, err, mcpvisor.OutcomeAnswered)
			}
		})
	}
}

// A host ends while a server works on a task: the next host finds the task by the key of the
// call, if the server has kept it.
func TestWithKey_of_a_task_over_the_end_of_the_host(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "forgetful": false} {
		t.Run(name, func(t *testing.T) {
			def := mcptest.TaskDef{Takes: 2 * time.Second, Poll: 20 * time.Millisecond, Durable: durable}
			onTaskServers(t, def, func(t *testing.T, spec mcpvisor.ServerSpec, saw taskLedger) {
				if spec.HTTP != nil && !durable {
					t.Skip("the server outlives the host, and knows its tasks")
				}
				j := new(memoryJournal)
				first := journaled(t, j, "")
				require.NoError(t, first.Register(t.Context(), spec))
				ctx, cancel := context.WithCancel(t.Context())
				called := make(chan error, 2)
				go func() {
					_, err := first.CallTool(ctx, "s/job", jobArgs, facade.WithKey("called"))
					called <- err
				}()
				_, err := first.StartTask(t.Context(), "s/job", map[string]any{"key": "started"}, facade.WithKey("started"))
				require.NoError(t, err)
				require.Eventually(t, func() bool { return len(first.Tasks()) == 2 }, 10*time.Second, time.Millisecond)
				cancel() // a host that ends in good order: the task of the call goes on
				require.ErrorIs(t, <-called, mcpvisor.ErrCanceled)
				require.NoError(t, first.Close(t.Context()))
				entries, err := first.JournalEntries(t.Context())
				require.NoError(t, err)
				require.Len(t, entries, 2)

				second := journaled(t, j, "")
				require.NoError(t, second.Register(t.Context(), spec))
				got, err := second.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("called"))
				resumed, err2 := second.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "started"})
				require.NoError(t, err2)
				started, err2 := resumed.Wait(t.Context())
				if durable {
					require.NoError(t, err)
					require.NoError(t, err2)
					require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
					require.Equal(t, `{"executions":1,"key":"started"}`, text(t, started))
				} else {
					requireLost(t, err, "task-")
					requireLost(t, err2, "task-")
				}
				require.Equal(t, map[string]int{jobKey: 1, "started": 1}, mcptest.Executions(saw.dir))
				require.Empty(t, second.Tasks())
				for key, e := range j.entries {
					require.Equal(t, mcpvisor.JournalEnded, e.State, key)
					require.Empty(t, e.TaskID, key)
				}
				third, err := second.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "called"}) // now without the server's help
				if durable {
					require.NoError(t, err)
					got, err = third.Wait(t.Context())
					require.NoError(t, err)
					require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
				} else {
					require.ErrorIs(t, err, mcpvisor.ErrCrashed)
				}
			})
		})
	}
}

// Of two handles on one task the one that ends first tells the journal its result; the other one
// gets that, although the server has forgotten the task when it asks.
func TestWithKey_of_two_handles(t *testing.T) {
	dir := t.TempDir()
	script := mcptest.Script{StateDir: dir, Versions: []string{"2026-07-28"}, Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Poll: time.Millisecond}})}
	j := new(memoryJournal)
	c := journaled(t, j, "")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond), InMemory: mcptest.InMemory(script)}))
	first, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.NoError(t, err)
	second, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
	require.NoError(t, err)
	_, err = first.Wait(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Restart(t.Context(), "s"))
	got, err := second.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
	require.Nil(t, j.entries[mcpvisor.JournalKey{Key: "k"}].Error)
	third, err := c.ResumeTask(t.Context(), mcpvisor.JournalKey{Key: "k"})
	require.NoError(t, err)
	got, err = third.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
}

const given = `{"content":[{"type":"text","text":"found in the ledger"}]}`

// interruptedKey returns a client whose journal has a call that an earlier host has sent.
func interruptedKey(t *testing.T, e mcpvisor.JournalEntry) (c *facade.Client, j *memoryJournal, dir string, key mcpvisor.JournalKey) {
	t.Helper()
	e.Key, e.Server, e.Tool = "k", "s", "job"
	if e.State == "" {
		e.State = mcpvisor.JournalSent
	}
	e.Updated = time.Date(2026, 11, 1, 12, 0, 0, 7, time.UTC)
	j, dir = &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{e.JournalKey(): e}}, t.TempDir()
	c = journaled(t, j, "")
	require.NoError(t, c.Register(t.Context(), countServer(dir)))
	return c, j, dir, e.JournalKey()
}

// A key that a host has left in doubt is resolved: by the result that was found out, or by the word that the
// call was not executed. Both say who has found out.
func TestResolveKey(t *testing.T) {
	for _, principal := range []string{"", "alice"} {
		c, j, _, key := interruptedKey(t, mcpvisor.JournalEntry{Principal: principal})
		again := func() (string, error) {
			got, err := c.CallTool(t.Context(), "s/job", jobArgs, relay.WithKeyOf(principal, "k"))
			if err != nil {
				return "", err
			}
			return text(t, got), nil
		}
		_, err := again()
		require.ErrorIs(t, err, mcpvisor.ErrInterrupted)
		require.ErrorContains(t, err, "Client.ResolveKey")
		require.ErrorContains(t, err, "another key executes it again")
		seen, err := c.JournalEntries(t.Context(), key)
		require.NoError(t, err)
		require.Len(t, seen, 1)

		require.NoError(t, c.ResolveKey(t.Context(), key, facade.KeyResolution{Seen: seen[0].Updated, By: "ops", NotRun: true}))
		stored := j.entries[key]
		require.Equal(t, mcpvisor.JournalNotRun, stored.State)
		require.Equal(t, "ops", stored.Resolved.By)
		require.WithinRange(t, stored.Resolved.At, time.Now().Add(-time.Hour), time.Now())
		_, err = c.ResumeTask(t.Context(), key)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		for range 2 {
			got, err := again()
			require.NoError(t, err)
			require.Equal(t, `{"executions":1,"key":"order"}`, got)
		}
		require.Equal(t, "ops", j.entries[key].Resolved.By, "the next call keeps the record")

		var dir string
		c, _, dir, key = interruptedKey(t, mcpvisor.JournalEntry{Principal: principal})
		require.NoError(t, c.ResolveKey(t.Context(), key, facade.KeyResolution{Seen: seen[0].Updated, By: "ops", Result: json.RawMessage(given)}))
		got, err := again()
		require.NoError(t, err)
		require.Equal(t, "found in the ledger", got)
		require.Empty(t, mcptest.Executions(dir))
	}
}

// A key that is not in doubt, or has changed since the caller looked, is not resolved.
func TestResolveKey_refused(t *testing.T) {
	sent := mcpvisor.JournalEntry{}
	ended := func(e *mcpvisor.JournalError, result string) mcpvisor.JournalEntry {
		return mcpvisor.JournalEntry{State: mcpvisor.JournalEnded, Error: e, Result: json.RawMessage(result)}
	}
	notRun, result := facade.KeyResolution{By: "ops", NotRun: true}, facade.KeyResolution{By: "ops", Result: json.RawMessage(given)}
	for name, test := range map[string]struct {
		entry mcpvisor.JournalEntry
		r     facade.KeyResolution
		late  time.Duration // of Seen
		want  string        // empty: it is resolved
	}{
		"neither":            {sent, facade.KeyResolution{By: "ops"}, 0, "was not executed, or its result"},
		"both":               {sent, facade.KeyResolution{By: "ops", NotRun: true, Result: result.Result}, 0, "was not executed, or its result"},
		"without a name":     {sent, facade.KeyResolution{NotRun: true}, 0, "name who resolves"},
		"by two lines":       {sent, facade.KeyResolution{By: "a\nb", NotRun: true}, 0, "one line"},
		"no result":          {sent, facade.KeyResolution{By: "ops", Result: json.RawMessage(`[1]`)}, 0, "not that of a tool"},
		"changed":            {sent, notRun, -time.Nanosecond, "look at it again"},
		"result known":       {ended(nil, given), result, 0, "its outcome is known"},
		"answered, not kept": {ended(nil, ""), notRun, 0, "its outcome is known"},
		"result lost":        {ended(nil, ""), result, 0, ""},
		"error known":        {ended(&mcpvisor.JournalError{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered}, ""), notRun, 0, "its outcome is known"},
		"crashed":            {ended(&mcpvisor.JournalError{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown}, ""), notRun, 0, ""},
		"task":               {mcpvisor.JournalEntry{State: mcpvisor.JournalTask, TaskID: "t"}, notRun, 0, ""},
		"held":               {mcpvisor.JournalEntry{State: mcpvisor.JournalTask, TaskID: "t", Open: true}, notRun, 0, "wait for its end"},
	} {
		t.Run(name, func(t *testing.T) {
			c, j, _, key := interruptedKey(t, test.entry)
			before := j.entries[key]
			test.r.Seen = before.Updated.Add(test.late)
			err := c.ResolveKey(t.Context(), key, test.r)
			if test.want == "" {
				require.NoError(t, err)
				require.Empty(t, j.entries[key].TaskID)
				return
			}
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, before, j.entries[key])
		})
	}
	c, j, _, key := interruptedKey(t, sent)
	notRun.Seen = j.entries[key].Updated
	require.ErrorContains(t, c.ResolveKey(t.Context(), mcpvisor.JournalKey{Principal: "other", Key: "k"}, notRun), "does not know the key")
	require.ErrorIs(t, newClient(t).ResolveKey(t.Context(), key, notRun), mcpvisor.ErrInvalid, "without a journal")
	j.fail = func(verb string, _ mcpvisor.JournalEntry) error {
		if verb == "put" {
			return context.DeadlineExceeded
		}
		return nil
	}
	require.ErrorIs(t, c.ResolveKey(t.Context(), key, notRun), mcpvisor.ErrJournal)
}

// A key is not resolved while a call with it is made.
func TestResolveKey_open(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j, _, key := interruptedKey(t, mcpvisor.JournalEntry{})
		unlock, err := j.Lock(t.Context(), key)
		require.NoError(t, err)
		r := facade.KeyResolution{Seen: j.entries[key].Updated, By: "ops", NotRun: true}
		err = c.ResolveKey(t.Context(), key, r)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "wait for its end")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.ResolveKey(ctx, key, r), mcpvisor.ErrCanceled)
		unlock()
		require.NoError(t, c.ResolveKey(t.Context(), key, r))
		require.NoError(t, c.Close(t.Context()))
	})
}
