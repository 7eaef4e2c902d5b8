package opentasks

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

func elicit(params string) facade.ServerRequest {
	return facade.ServerRequest{Server: "s", Method: "elicitation/create", Params: json.RawMessage(params)}
}

// A question waits until it is answered or withdrawn. There are few at once, and none is long.
func TestWaiting(t *testing.T) {
	q := newWaiting("p-", func() {})
	ctx, cancel := context.WithCancel(t.Context())
	answers, withdrawn := make(chan string, 1), make(chan error, maxQuestions)
	go func() {
		raw, _ := q.Ask(t.Context(), elicit(`{"message":"?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"secret"}}}`))
		answers <- string(raw)
	}()
	require.JSONEq(t, `{"p-1":{"method":"elicitation/create","params":{"message":"?","_meta":{}}}}`, string(q.Requests(t.Context())))
	for range maxQuestions - 1 {
		go func() {
			_, err := q.Ask(ctx, elicit(`{}`))
			withdrawn <- err
		}()
	}
	require.Eventually(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.open) == maxQuestions
	}, 10*time.Second, time.Millisecond)
	_, err := q.Ask(t.Context(), elicit(`{}`))
	require.Equal(t, errTooMany, err)
	for _, wrong := range []string{"5", "null", `"x"`, "[]"} {
		require.ErrorContains(t, q.Answer([]byte(`{"p-1":`+wrong+`}`)), "is not an object")
	}
	require.NoError(t, q.Answer([]byte(`{"other":5,"p-1":{"action":"accept"}}`)))
	require.Equal(t, `{"action":"accept"}`, <-answers)
	require.NoError(t, q.Answer([]byte(`{"p-1":{"action":"again"}}`)))
	_, err = q.Ask(t.Context(), elicit(`{"message":"`+strings.Repeat("x", maxQuestionBytes)+`"}`))
	require.Equal(t, errTooMany, err)
	cancel()
	for range maxQuestions - 1 {
		require.ErrorIs(t, <-withdrawn, context.Canceled)
	}
	require.JSONEq(t, `{}`, string(q.Requests(t.Context())))
}

// A principal without tasks costs nothing. For one more task those that have ended, and those that no client has
// asked for, make room; another one is refused.
func TestStore_bound(t *testing.T) {
	h := New(2)
	says := func(id string, text string) {
		h.Said("alice", Maker{Tool: "s/x"}, Name{Server: "s", ID: id}, "sealed "+id, []byte(text), false)
	}
	require.NoError(t, h.Reserve("alice"))
	h.Release("alice")
	require.Empty(t, h.of)
	says("1", `{"status":"working"}`)
	says("2", `{"status":"completed"}`)
	require.NoError(t, h.Reserve("alice"), "2 has ended")
	require.ErrorContains(t, h.Reserve("alice"), "1 tasks are open")
	require.NoError(t, h.Reserve("bob"))
	h.Release("bob")
	h.of["alice"].open[Name{Server: "s", ID: "1"}].used = time.Now().Add(-2 * taskIdle)
	require.NoError(t, h.Reserve("alice"), "no client has asked for 1")
	h.Release("alice")
	h.Release("alice")
	require.Empty(t, h.of)

	copied := Name{Server: "s", ID: "1", Copy: "own"}
	h.Said("alice", Maker{Tool: "s/x"}, copied, "sealed", []byte(`{"status":"working"}`), false)
	require.Empty(t, h.List("alice", "other"))
	require.Len(t, h.List("alice", "own"), 1)
	h.ForgetCopies("alice", "own")
	require.Empty(t, h.of)
}

// Only the outermost object may have the task in it: what a summary costs is its bytes, and not the bytes
// times the depth.
func TestSummary_of_a_task_in_a_task(t *testing.T) {
	var s Summary
	s.read([]byte(`{"task":{"status":"working","task":{"status":"completed"}}}`), true)
	require.EqualValues(t, "working", s.Status)
}
