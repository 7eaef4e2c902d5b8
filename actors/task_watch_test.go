package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// taskOf is the task that a subscriptions/listen is about; empty if it is about none.
func taskOf(r transport.Request) string {
	var p struct{ Notifications struct{ TaskIDs []string } }
	_ = json.Unmarshal(r.Params, &p)
	return strings.Join(p.Notifications.TaskIDs, " ")
}

// listenToTask acknowledges a stream about a task, or one that the server does not honor, and
// stays open until its context ends.
func (s *notifyingSession) listenToTask(ctx context.Context, r transport.Request, honored ...string) error {
	s.mu.Lock()
	s.id++
	id := s.id
	s.mu.Unlock()
	r.Stream.Sent(id)
	s.notify(transport.Notice{Kind: transport.Acknowledged, Tasks: honored, Stream: id})
	s.pause(ctx, -1)
	return rpcErr("ended")
}

// taskRequests is how many streams about tasks were asked for.
func (s *notifyingSession) taskRequests() int { return strings.Count(s.requestLog(), "taskIds") }

func hasChanged(w *TaskWatch) bool {
	select {
	case <-w.Changed:
		return true
	default:
		return false
	}
}

// A session has a bounded number of streams about tasks; all watches hear of their tasks, and
// only of these.
func TestTaskWatch_Listen(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if id := taskOf(r); id != "" {
			return "", s.listenToTask(ctx, r, id)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		s, all := a.session(1), []*TaskWatch{}
		for i := range 2 * maxTaskStreams {
			w := rt.WatchTask(view(rt), fmt.Sprint(i))
			for range 3 {
				w.Listen(view(rt))
			}
			all = append(all, w)
		}
		synctest.Wait()
		require.Equal(t, maxTaskStreams, s.taskRequests())
		for i, w := range all {
			require.Equal(t, i < maxTaskStreams, hasChanged(w), "an acknowledgement counts as a change")
			s.notify(transport.Notice{Kind: transport.TaskChanged, Task: fmt.Sprint(i)})
			s.notify(transport.Notice{Kind: transport.TaskChanged, Task: "another"})
			require.True(t, hasChanged(w))
			require.False(t, hasChanged(w))
		}
		all[0].Stop()
		synctest.Wait()
		s.notify(transport.Notice{Kind: transport.TaskChanged, Task: "0"})
		require.False(t, hasChanged(all[0]))
		all[maxTaskStreams].Listen(view(rt))
		synctest.Wait()
		require.Equal(t, maxTaskStreams+1, s.taskRequests(), "there is room for another one")
		for _, w := range all {
			w.Stop()
		}
		synctest.Wait()
		inc := view(rt).current
		require.Empty(t, inc.tasks.byID)
		require.Empty(t, inc.tasks.streams)
		require.Zero(t, inc.tasks.opened)
	})
}

// A server that does not tell of tasks is asked once in a session. On a pipe it may forget its
// other streams when that one ends, as servers of the go-sdk do.
func TestTaskWatch_Listen_to_a_server_that_tells_nothing(t *testing.T) {
	for name, listen := range map[string]func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error){
		"rejects": func(context.Context, *notifyingSession, transport.Request) (string, error) {
			return "", rpcErr("no taskIds")
		},
		"leaves it out": func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			return "", s.listenToTask(ctx, r)
		},
		"ends it": func(context.Context, *notifyingSession, transport.Request) (string, error) { return "{}", nil },
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
				if taskOf(r) == "" {
					return "", nil
				}
				text, err := listen(ctx, s, r)
				s.mu.Lock()
				defer s.mu.Unlock()
				clear(s.streams)
				return text, err
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				for range 3 {
					w := rt.WatchTask(view(rt), "t")
					w.Listen(view(rt))
					synctest.Wait()
					require.False(t, hasChanged(w))
					w.Stop()
				}
				require.Equal(t, 1, a.session(1).taskRequests())
				time.Sleep(time.Minute)
				a.offers("new")
				a.session(1).toolsChanged()
				time.Sleep(time.Minute)
				require.True(t, offered(rt, "new"), "list changes are received")
			})
		})
	}
}

// Followers that leave while one of them waits for its turn take no turns with them.
func TestAwaitTaskTurn_of_those_who_left(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.script("fs", script{tools: []string{"ls"}})
		h.register(fsSpec)
		v := h.rt.Snapshot().Server("fs")
		for range maxTaskBurst {
			v.AwaitTaskTurn(t.Context())
		}
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		for range 10 * maxTaskRate {
			left.Go(func() { v.AwaitTaskTurn(ctx) })
		}
		h.settle()
		leave()
		left.Wait()
		began := time.Now()
		v.AwaitTaskTurn(t.Context())
		require.Less(t, time.Since(began), 3*time.Second/maxTaskRate/2, "at most one turn")
	})
}
