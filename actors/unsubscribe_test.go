package actors

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

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
