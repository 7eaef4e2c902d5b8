package opentasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
)

func roomy(int) bool { return true }

func elicit(params string) relay.ServerRequest {
	return relay.ServerRequest{Server: "s", Method: "elicitation/create", Params: json.RawMessage(params)}
}

// A question waits until it is answered or withdrawn. There are few at once, and none is long.
func TestWaiting(t *testing.T) {
	q := newWaiting("p-", func() {}, roomy)
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
	h := New(2, nil)
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
	h.of["alice"].open[key{"alice", Name{Server: "s", ID: "1"}}].used = time.Now().Add(-2 * taskIdle)
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

// However many profiles a principal can use, it has one bound. A task belongs to one of its profiles.
func TestStore_bound_of_all_profiles(t *testing.T) {
	h := New(10, nil)
	reserved, watched := 0, 0
	for profile := range 5 {
		eve := owner.Name("eve", fmt.Sprint(profile))
		for range 20 {
			if h.Reserve(eve) == nil {
				reserved++
			}
			if h.Watch(eve) {
				watched++
			}
		}
	}
	require.Equal(t, []int{10, 10}, []int{reserved, watched})
	require.NoError(t, h.Reserve(owner.Name("ann", "0")), "another principal has its own")

	h = New(10, nil)
	a, b, name := owner.Name("eve", "a"), owner.Name("eve", "b"), Name{Server: "s", ID: "1", Copy: "own"}
	h.Said(a, Maker{}, name, "sealed a", nil, false)
	require.Len(t, h.List(a, "own"), 1)
	require.Empty(t, h.List(b, "own"))
	require.Empty(t, h.SealedOf(b, name))
	require.Nil(t, h.WaitingFor(b, name))
	require.Nil(t, h.Wait(b, name, nil))
	h.Said(b, Maker{}, name, "sealed b", nil, false)
	require.Equal(t, "sealed a", h.SealedOf(a, name))
	h.ForgetCopies(b, "own")
	require.Empty(t, h.List(b, "own"))
	require.Len(t, h.List(a, "own"), 1)
	h.Said(b, Maker{}, name, "sealed b", nil, true)
	require.Len(t, h.List(a, "own"), 1)
	h.Said(a, Maker{}, name, "sealed a", nil, true)
	require.Empty(t, h.List(a, "own"))
}

// Open questions count for the principal of the task, and what does not fit is refused. All is given back when they
// are answered, withdrawn, or their task is forgotten.
func TestQuestions_are_held(t *testing.T) {
	const room = 1 << 20
	var mu sync.Mutex
	held := map[string]int{}
	heldBy := func(principal string) int {
		mu.Lock()
		defer mu.Unlock()
		return held[principal]
	}
	s := New(1000, func(principal string, bytes int) bool {
		mu.Lock()
		defer mu.Unlock()
		if held[principal]+bytes > room {
			return false
		}
		held[principal] += bytes
		return true
	})
	eve, text := owner.Name("eve", "p"), `{"message":"`+strings.Repeat("x", maxQuestionBytes/2)+`"}`
	var waiting []*Waiting
	ended := make(chan error, 1000)
	for i := range 40 {
		name := Name{Server: "s", ID: fmt.Sprint(i)}
		s.Said(eve, Maker{}, name, "sealed", nil, false)
		asking := make(chan context.Context)
		w := s.Wait(eve, name, func(ctx context.Context, _ *Waiting) {
			asking <- ctx
			<-ctx.Done()
		})
		waiting = append(waiting, w)
		ctx := <-asking
		for range maxQuestions {
			go func() {
				_, err := w.Ask(ctx, elicit(text))
				ended <- err
			}()
		}
	}
	open := func() (n int) {
		for _, w := range waiting {
			w.mu.Lock()
			n += len(w.open)
			w.mu.Unlock()
		}
		return n
	}
	const asked = 40 * maxQuestions
	require.Eventually(t, func() bool { return open()+len(ended) == asked }, time.Minute, time.Millisecond)
	all := open()
	for range asked - all {
		require.Equal(t, errTooMany, <-ended)
	}
	require.Greater(t, heldBy("eve"), room*9/10)
	require.Zero(t, heldBy(eve))

	before, answered := heldBy("eve"), slices.IndexFunc(waiting, func(w *Waiting) bool { return len(w.open) > 0 })
	for key := range waiting[answered].open {
		require.NoError(t, waiting[answered].Answer([]byte(`{"`+key+`":{"action":"accept"}}`)))
		break
	}
	require.NoError(t, <-ended)
	all--
	require.Less(t, heldBy("eve"), before, "it was answered")
	s.Said(eve, Maker{}, Name{Server: "s", ID: "0"}, "sealed", nil, true)
	s.StopWaiting()
	for range all {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.Zero(t, heldBy("eve"))
}

// Only the outermost object may have the task in it: what a summary costs is its bytes, and not the bytes
// times the depth.
func TestSummary_of_a_task_in_a_task(t *testing.T) {
	var s Summary
	s.read([]byte(`{"task":{"status":"working","task":{"status":"completed"}}}`), true)
	require.EqualValues(t, "working", s.Status)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
