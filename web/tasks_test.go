package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// memoryJournal is a journal without a file.
type memoryJournal struct {
	mcpvisor.JournalLocks
	mu      sync.Mutex
	entries map[mcpvisor.JournalKey]mcpvisor.JournalEntry
	err     error // of Entries
}

func newJournal() *memoryJournal {
	return &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}}
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
	e.Result = slices.Clone(e.Result)
	j.entries[e.JournalKey()] = e
	return nil
}

func (j *memoryJournal) Delete(_ context.Context, key mcpvisor.JournalKey) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.entries, key)
	return nil
}

func (j *memoryJournal) Entries(context.Context) ([]mcpvisor.JournalEntry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.entries), func(a, b mcpvisor.JournalEntry) int { return strings.Compare(a.Key, b.Key) }), j.err
}

// The last 500 entries of the journal are shown, without the ids of tasks; a journal that cannot
// be read is a problem that is shown, too.
func TestTasks(t *testing.T) {
	j := newJournal()
	for i := range 503 {
		e := mcpvisor.JournalEntry{Key: fmt.Sprintf("k%03d", i), Server: "s", Tool: "t", State: mcpvisor.JournalTask, TaskID: "task-secret"}
		require.NoError(t, j.Put(t.Context(), e))
	}
	s := serve(t, newClient(t, facade.WithJournal(j, "")))
	response, body := s.do(http.MethodGet, "/api/tasks", "", nil)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NotContains(t, body, "secret")
	var got api.Tasks
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Len(t, got.Journal, 500)
	require.Equal(t, "k003", got.Journal[0].Key)
	require.Equal(t, 3, got.Earlier)
	for _, path := range []string{"/api/tasks/cancel", "/api/tasks/wait"} {
		response, _ = s.do(http.MethodPost, path, `{"key":"k000"}`, nil)
		require.Equal(t, http.StatusForbidden, response.StatusCode, "without controls")
	}
	j.err = errors.New("the disk is gone")
	_, body = s.do(http.MethodGet, "/api/tasks", "", nil)
	require.Contains(t, body, "the disk is gone")
}

// Calls of an earlier process that have no end are shown beside the calls in flight; calls of this
// process, and those that have ended, are not.
func TestCalls_unfinished(t *testing.T) {
	j := newJournal()
	for i := range 23 {
		j.entries[mcpvisor.JournalKey{Key: fmt.Sprintf("k%02d", i)}] = mcpvisor.JournalEntry{Key: fmt.Sprintf("k%02d", i), Server: "s", Tool: "t", State: mcpvisor.JournalSent, Began: time.Now().Add(-time.Hour)}
	}
	j.entries[mcpvisor.JournalKey{Key: "ended"}] = mcpvisor.JournalEntry{Key: "ended", State: mcpvisor.JournalEnded, Began: time.Now().Add(-time.Hour)}
	j.entries[mcpvisor.JournalKey{Key: "later"}] = mcpvisor.JournalEntry{Key: "later", State: mcpvisor.JournalSent, Began: time.Now().Add(time.Hour)}
	s := serve(t, newClient(t, facade.WithJournal(j, "")))
	_, body := s.do(http.MethodGet, "/api/calls", "", nil)
	var got api.Calls
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Len(t, got.Unfinished, 20)
	require.Equal(t, "k00", got.Unfinished[0].Key)
	require.Equal(t, 3, got.MoreUnfinished)
}

// A task is canceled by the key of its call, with and without a caller that waits for it. The
// journal then knows its end.
func TestTasks_cancel(t *testing.T) {
	j := newJournal()
	c := newClient(t, facade.WithJournal(j, ""))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "job", As: "echo", Task: &mcptest.TaskDef{Takes: time.Hour, Poll: 10 * time.Millisecond}}}})}))
	s := serve(t, c, web.WithControls())
	call := func(ctx context.Context, key string) <-chan error {
		called := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, "s/job", map[string]any{"text": key}, facade.WithKey(key))
			called <- err
		}()
		require.Eventually(t, func() bool { return len(c.Tasks()) == 1 }, 10*time.Second, time.Millisecond)
		return called
	}
	called := call(t.Context(), "waited")
	response, body := s.do(http.MethodPost, "/api/tasks/cancel", `{"key":"waited"}`, nil)
	require.Equal(t, http.StatusAccepted, response.StatusCode, body)
	require.ErrorContains(t, <-called, "the server has canceled the task")

	ctx, cancel := context.WithCancel(t.Context())
	called = call(ctx, "left")
	cancel()
	require.ErrorIs(t, <-called, mcpvisor.ErrCanceled)
	response, body = s.do(http.MethodPost, "/api/tasks/cancel", `{"key":"left"}`, nil)
	require.Equal(t, http.StatusAccepted, response.StatusCode, body)
	require.JSONEq(t, `{"asked":true}`, body)
	for _, key := range []string{"waited", "left"} {
		e, ok, err := j.Get(t.Context(), mcpvisor.JournalKey{Key: key})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, mcpvisor.JournalEnded, e.State, key)
		require.Equal(t, mcpvisor.ErrCanceled, e.Error.Kind)
	}
}
