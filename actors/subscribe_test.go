package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// bothEras runs a test with a server of each era of the protocol.
func bothEras(t *testing.T, f func(t *testing.T, modern bool)) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) { f(t, modern) })
	}
}

// desiredURIs are the resources that the host subscribes to at this moment.
func desiredURIs(rt *Runtime) []string {
	_, uris, _ := rt.desiredOf(view(rt).Gen).Snapshot()
	return uris
}

// What is desired while a server is being listed is applied as soon as it is ready.
func TestSubscribeDuringDiscovery(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			if r.Method == "tools/list" {
				s.pause(ctx, 5*time.Second)
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{StartSupervised: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			time.Sleep(time.Second)
			require.Equal(t, supervisor.StateDiscovering, view(rt).State)
			require.NoError(t, subscribe(t, rt, "x:a"))
			require.NoError(t, rt.SetLogLevel(context.Background(), view(rt), "debug"))
			time.Sleep(time.Minute)
			require.Equal(t, supervisor.StateReady, view(rt).State)
			require.Equal(t, "debug", view(rt).current.desired.LogLevel())
			require.Equal(t, 1, strings.Count(a.session(1).requestLog(), `"x:a"`))
		})
	})
}

// A subscription at any moment of a life reaches the server, or its successor.
func TestSubscribeAtAnyMoment(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			s.pause(ctx, 3*time.Millisecond)
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{StartSupervised: true, Standby: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			var uris []string
			for i := range 60 {
				uri := fmt.Sprintf("x:%d", i)
				uris = append(uris, uri)
				require.NoError(t, subscribe(t, rt, uri))
				if i%7 == 0 {
					view(rt).current.session.Abort(errScripted)
				}
				time.Sleep(time.Duration(i%5) * time.Millisecond)
			}
			time.Sleep(2 * time.Minute)
			v := view(rt)
			require.Equal(t, supervisor.StateReady, v.State)
			require.NotNil(t, v.standby)
			for _, inc := range []*incarnation{v.current, v.standby} {
				log := inc.session.(*notifyingSession).requestLog()
				for _, uri := range uris {
					require.Contains(t, log, `"`+uri+`"`)
				}
			}
		})
	})
}

// A change that is made while an older view is published notifies no port. The next
// published view does.
func TestSubscribeBeforeTheNextReport(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{Standby: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			time.Sleep(time.Second)
			view(rt).current.desired.SetResource("x:a", true)
			rt.system.Root.Send(rt.managerState.registrations["s"].supervisor, &messages.ReconcileRequest{})
			synctest.Wait()
			require.Contains(t, a.session(1).requestLog(), "x:a")
			require.Contains(t, a.session(2).requestLog(), "x:a")
		})
	})
}

func TestRejectedLevelKeepsSubscriptions(t *testing.T) {
	a := &notifyingServer{handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "logging/setLevel" && strings.Contains(string(r.Params), "debug") {
			return "", rpcErr("that is too much")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, rt.SetLogLevel(context.Background(), view(rt), "error"))
		for range 2 {
			require.Error(t, rt.SetLogLevel(context.Background(), view(rt), "debug"))
		}
		require.NoError(t, subscribe(t, rt, "x:good"))
		a.session(1).Abort(errScripted)
		time.Sleep(time.Second)
		require.Contains(t, a.session(2).requestLog(), `logging/setLevel {"level":"error"}`, "the one that was accepted holds")
		require.Contains(t, a.session(2).requestLog(), "x:good")
	})
}

// A rejected resource costs only itself, even if it was desired before the server was
// ready. When a caller asks for it again, the server is asked again.
func TestRejectedSubscriptionKeepsOthers(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		var tolerant atomic.Bool
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			bad := func(uri string) bool { return uri == "x:bad" && !tolerant.Load() }
			switch {
			case r.Method == "resources/subscribe" && strings.Contains(string(r.Params), "x:bad") && !tolerant.Load():
				return "", rpcErr("unknown resource")
			case r.Method == "subscriptions/listen":
				return "", s.listen(ctx, r, 0, slices.DeleteFunc(wantsOf(r).ResourceSubscriptions, bad))
			case r.Method == "tools/list":
				s.pause(ctx, time.Second)
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{StartSupervised: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			require.NoError(t, subscribe(t, rt, "x:bad"), "the server is not ready: it is requested later")
			require.NoError(t, subscribe(t, rt, "x:early"))
			time.Sleep(time.Minute)
			require.NoError(t, subscribe(t, rt, "x:good"))
			require.Equal(t, []string{"x:bad", "x:early", "x:good"}, desiredURIs(rt))
			e := asError(t, subscribe(t, rt, "x:bad"))
			rejection := mcpvisor.ErrRPC
			if modern { // the server answers no error: its acknowledgement leaves the resource out
				rejection = mcpvisor.ErrProtocol
			}
			require.Equal(t, rejection, e.Kind)
			require.Equal(t, []string{"x:early", "x:good"}, desiredURIs(rt), "nothing is remembered")
			tolerant.Store(true)
			require.NoError(t, subscribe(t, rt, "x:bad"))
			require.NoError(t, rt.Subscribe(context.Background(), view(rt), "x:early", false))
			require.Equal(t, []string{"x:bad", "x:good"}, desiredURIs(rt))
		})
	})
}

// What a new incarnation rejects is requested again: the server may only be starting.
func TestRejectionAtStartIsRetried(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern, handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
			about := r.Method == "resources/subscribe" || len(wantsOf(r).ResourceSubscriptions) > 0
			if s.epoch == 2 && about && strings.Contains(string(r.Params), "x:late") && s.count(r.Method) < 8 {
				return "", rpcErr("not yet")
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			for _, uri := range []string{"x:a", "x:b", "x:late"} {
				require.NoError(t, subscribe(t, rt, uri))
			}
			a.session(1).Abort(errScripted)
			time.Sleep(10 * time.Minute)
			require.Equal(t, []string{"x:a", "x:b", "x:late"}, desiredURIs(rt))
			asked := a.session(2).requestLog()
			require.NoError(t, subscribe(t, rt, "x:late"))
			require.Equal(t, asked, a.session(2).requestLog(), "it is in force")
		})
	})
}

// A caller whose context ends removes no subscription, not even its own: the server may
// have received it.
func TestSubscribeOutlivesItsCaller(t *testing.T) {
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/subscribe" {
			s.pause(ctx, time.Second)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		left := make(chan error, 1)
		go func() { left <- rt.Subscribe(ctx, view(rt), "x:a", true) }()
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, subscribe(t, rt, "x:a"))
		require.Equal(t, mcpvisor.ErrCanceled, asError(t, <-left).Kind)
		require.Equal(t, 1, a.session(1).count("resources/subscribe"))
		require.Equal(t, []string{"x:a"}, desiredURIs(rt))
		a.session(1).Abort(errScripted)
		time.Sleep(time.Second)
		require.Contains(t, a.session(2).requestLog(), "x:a")
	})
}

// A subscription without an answer is not rejected; it is requested again.
func TestSubscribeWithoutAnswerIsRetried(t *testing.T) {
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/subscribe" && s.count(r.Method) == 1 {
			s.pause(ctx, r.Timeout)
			return "", &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("no answer")}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		requireError(t, subscribe(t, rt, "x:a"), mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown)
		time.Sleep(time.Minute)
		require.Equal(t, 2, a.session(1).count("resources/subscribe"))
	})
}

// Waiting callers return when the server dies, at Close and at Unregister.
func TestWaitingSubscribersAreReleased(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		ends := map[string]func(rt *Runtime, a *notifyingServer) error{
			"close":      func(rt *Runtime, _ *notifyingServer) error { return rt.Close(context.Background()) },
			"unregister": func(rt *Runtime, _ *notifyingServer) error { return rt.Unregister(context.Background(), "s") },
			"die":        func(_ *Runtime, a *notifyingServer) error { a.session(1).Abort(errScripted); return nil },
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				var hangs atomic.Bool
				a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, _ transport.Request) (string, error) {
					if hangs.Load() && s.epoch == 1 {
						s.pause(ctx, -1)
						return "", &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: errScripted}
					}
					return "", nil
				}}
				withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
					hangs.Store(true)
					v, done := view(rt), make(chan error, 15)
					for i := range 5 {
						go func() { done <- rt.Subscribe(context.Background(), v, fmt.Sprint("x:", i), true) }()
						go func() { done <- rt.Refresh(context.Background(), v) }()
						go func() { done <- rt.SetLogLevel(context.Background(), v, "debug") }()
					}
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, end(rt, a))
					for range 15 {
						<-done
					}
				})
			})
		}
	})
}

// cancelTime is how long a cancellation is on its way to the queue of a silentEnds server.
const cancelTime = time.Millisecond

// silentEnds is a server of 2026-07-28 on a pipe that does not confirm the end of a stream.
// streams counts the streams of each resource that have not ended.
func silentEnds() (server *notifyingServer, streams func() map[string]int) {
	var mu sync.Mutex
	open := map[string]int{}
	add := func(uris []string, n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, uri := range uris {
			if open[uri] += n; open[uri] == 0 {
				delete(open, uri)
			}
		}
	}
	server = &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method != "subscriptions/listen" {
			return "", nil
		}
		about := wantsOf(r).ResourceSubscriptions
		add(about, 1)
		defer add(about, -1)
		err := s.listen(ctx, r, 0, about)
		if ctx.Err() != nil {
			s.pause(context.Background(), cancelTime)
			r.Stream.Cancelled()
			s.pause(context.Background(), r.Stream.CancelGrace)
		}
		return "", err
	}}
	return server, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(open)
	}
}

func unsubscribe(t *testing.T, rt *Runtime, uri string) error {
	t.Helper()
	return rt.Subscribe(context.Background(), view(rt), uri, false)
}

// Unsubscribe returns when the cancellation precedes what the host sends next. It does not
// wait for the server to confirm the end of the stream. Other subscriptions do not, either.
func TestUnsubscribe_without_confirmation(t *testing.T) {
	a, streams := silentEnds()
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.Equal(t, 20*cancelTime, spends(func() {
			for i := range 20 {
				uri := fmt.Sprint("x:", i)
				require.NoError(t, subscribe(t, rt, uri))
				require.NoError(t, unsubscribe(t, rt, uri))
			}
		}))
		require.Len(t, streams(), 20, "none has ended")
		time.Sleep(10 * time.Second)
		require.Empty(t, streams())
		require.LessOrEqual(t, a.session(1).count("subscriptions/listen"), 20+1+2, "the stream of the lists is not replaced for each of them")
		a.offers("new")
		a.session(1).toolsChanged()
		time.Sleep(time.Second)
		require.True(t, offered(rt, "new"))
	})
}

// What the server announces while streams end without a confirmation is not lost.
func TestUnsubscribe_without_confirmation_loses_no_change_of_lists(t *testing.T) {
	a, _ := silentEnds()
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for i := range 100 {
			require.NoError(t, subscribe(t, rt, fmt.Sprint("x:", i)))
			require.NoError(t, unsubscribe(t, rt, fmt.Sprint("x:", i)))
			a.offers(fmt.Sprint("new", i))
			a.session(1).toolsChanged()
			time.Sleep(100 * time.Millisecond)
			recent := i < 30 // the stream of the lists is replaced meanwhile, which takes 2 s
			for back := range min(30, i) {
				recent = recent || offered(rt, fmt.Sprint("new", i-back))
			}
			require.True(t, recent, "%d: the last 30 changes were missed", i)
		}
		time.Sleep(5 * time.Second)
		require.True(t, offered(rt, "new99"))
	})
}

// A resource is not in two streams at once, even if the server does not confirm the end of
// the first one.
func TestSubscribe_again_waits_for_the_end_of_the_stream(t *testing.T) {
	a, streams := silentEnds()
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		require.NoError(t, unsubscribe(t, rt, "x:a"))
		require.Equal(t, time.Second, spends(func() { require.NoError(t, subscribe(t, rt, "x:a")) }))
		require.Equal(t, map[string]int{"x:a": 1}, streams())
	})
}

// At a start all resources share one stream. The one that is unsubscribed does not wait
// until the others have another stream.
func TestUnsubscribe_from_a_shared_stream(t *testing.T) {
	a, streams := silentEnds()
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		require.NoError(t, subscribe(t, rt, "x:b"))
		a.session(1).Abort(errScripted)
		time.Sleep(time.Minute)
		require.Contains(t, a.session(2).requestLog(), `["x:a","x:b"]`)
		require.Equal(t, cancelTime, spends(func() { require.NoError(t, unsubscribe(t, rt, "x:a")) }))
		require.Equal(t, map[string]int{"x:a": 1, "x:b": 1}, streams())
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{"x:b": 1}, streams())
		before := updates(got(), "x:b")
		a.session(2).update("x:b")
		synctest.Wait()
		require.Equal(t, before+1, updates(got(), "x:b"))
	})
}

// The stream about the lists is open when a new session reads them, even if the server
// rejects a resource at that start, which has the stream replaced.
func TestRejectedResourceAtStartKeepsTheStreamOfLists(t *testing.T) {
	missed := 0 // written in sequence: one session reads its lists at a time
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		about := wantsOf(r)
		switch {
		case r.Method == "tools/list":
			s.mu.Lock()
			defer s.mu.Unlock()
			open := false
			for _, stream := range s.streams {
				open = open || stream.ToolsListChanged
			}
			if !open {
				missed++
			}
		case s.epoch > 1 && len(about.ResourceSubscriptions) > 0:
			return "", rpcErr("no such resource")
		case r.Method == "subscriptions/listen":
			return "", s.listen(ctx, r, 20*time.Millisecond, about.ResourceSubscriptions)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(time.Second)
		require.NoError(t, subscribe(t, rt, "x:a"))
		a.session(1).Abort(errScripted)
		time.Sleep(500 * time.Millisecond) // before the rejected resource is requested again
		require.Equal(t, 2, strings.Count(a.session(2).requestLog(), "toolsListChanged"), "the stream is replaced")
		require.Zero(t, missed)
	})
}
