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
	"github.com/mcpvisor/mcpvisor/mcptest"
)

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
			got, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKeyOf(principal, "k"))
			if err != nil {
				return "", err
			}
			return text(t, got), nil
		}
		_, err := again()
		require.ErrorIs(t, err, mcpvisor.ErrInterrupted)
		require.ErrorContains(t, err, "Client.ResolveKey")
		require.ErrorContains(t, err, "another key executes it again")
		seen, known, err := c.JournalEntry(t.Context(), key)
		require.NoError(t, err)
		require.True(t, known)

		require.NoError(t, c.ResolveKey(t.Context(), key, facade.KeyResolution{Seen: seen.Updated, By: "ops", NotRun: true}))
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
		require.NoError(t, c.ResolveKey(t.Context(), key, facade.KeyResolution{Seen: seen.Updated, By: "ops", Result: json.RawMessage(given)}))
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
		"error known":        {ended(&mcpvisor.JournalError{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered}, ""), notRun, 0, "its outcome is known"},
		"crashed":            {ended(&mcpvisor.JournalError{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown}, ""), notRun, 0, ""},
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
