package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// A rejected resource ends the notifications about no other, also at a restart that
// requests all of them.
func TestRejectedResourceKeepsOtherStreams(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
		about := wantsOf(r).ResourceSubscriptions
		if slices.Contains(about, "x:bad") || s.epoch > 1 && slices.Contains(about, "x:gone") {
			return "", rpcErr("no such resource")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:gone"))
		require.NoError(t, subscribe(t, rt, "x:good"))
		require.Error(t, subscribe(t, rt, "x:bad"))
		for epoch := 1; epoch <= 2; epoch++ {
			time.Sleep(10 * time.Minute)
			before := updates(got(), "x:good")
			a.session(epoch).update("x:good")
			tool := fmt.Sprint("new", epoch)
			a.offers(tool)
			a.session(epoch).toolsChanged()
			time.Sleep(time.Minute)
			require.True(t, offered(rt, tool), "list changes are received")
			require.Equal(t, before+1, updates(got(), "x:good"))
			a.session(epoch).Abort(errScripted)
		}
	})
}

// Only an unsupported method ends a stream for good, and only before the first
// acknowledgement.
func TestStreamErrorAfterAnAckIsRetried(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method != "subscriptions/listen" {
			return "", nil
		}
		switch s.count(r.Method) {
		case 1, 2:
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // a proxy cuts the connection
			defer cancel()
			return "", s.listen(ctx, r, 0, wantsOf(r).ResourceSubscriptions)
		case 3, 4, 5, 6:
			return "", rpcErr("just starting")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 1, updates(got(), "x:a"), "it counts as updated after the gap")
		a.session(1).update("x:a")
		require.Equal(t, 2, updates(got(), "x:a"))
		a.offers("new")
		a.session(1).toolsChanged()
		time.Sleep(time.Second)
		require.True(t, offered(rt, "new"))
	})
}

// Nothing is lost between a stream and the one that replaces it.
func TestNotificationsDuringStreamChanges(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "subscriptions/listen" {
			return "", s.listen(ctx, r, 20*time.Millisecond, wantsOf(r).ResourceSubscriptions) // a round trip
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		for i := range 3 * subscription.MaxResourceStreams { // more than the maximum of streams
			before := updates(got(), "x:a")
			tool := fmt.Sprint("new", i)
			go func() {
				time.Sleep(10 * time.Millisecond)
				a.offers(tool)
				a.session(1).toolsChanged()
				a.session(1).update("x:a")
			}()
			require.NoError(t, subscribe(t, rt, fmt.Sprint("x:", i)))
			time.Sleep(time.Second)
			require.Greater(t, updates(got(), "x:a"), before, "%d", i)
			require.True(t, offered(rt, tool), "%d", i)
			a.session(1).mu.Lock()
			require.LessOrEqual(t, len(a.session(1).streams), 1+subscription.MaxResourceStreams)
			a.session(1).mu.Unlock()
		}
	})
}

// The acknowledgement of one stream is not taken for that of another.
func TestAckBelongsToItsStream(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method != "subscriptions/listen" {
			return "", nil
		}
		after := 4 * time.Second // a second more than AckTimeout
		if len(wantsOf(r).ResourceSubscriptions) > 0 {
			after = 200 * time.Millisecond
		}
		return "", s.listen(ctx, r, after, wantsOf(r).ResourceSubscriptions)
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, subscribe(t, rt, "x:a"))
	})
}

func TestLateAckIsAGap(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "subscriptions/listen" {
			return "", s.listen(ctx, r, 5*time.Second, wantsOf(r).ResourceSubscriptions)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		time.Sleep(time.Second) // ready after 3 s
		a.offers("new")
		a.session(1).toolsChanged() // no stream is open yet
		time.Sleep(10 * time.Second)
		require.True(t, offered(rt, "new"))

		e := asError(t, subscribe(t, rt, "x:a"))
		require.Equal(t, mcpvisor.KindTimeout, e.Kind)
		a.session(1).update("x:a")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, updates(got(), "x:a"), "it is acknowledged, and counts as updated")
		require.NoError(t, subscribe(t, rt, "x:a"))
	})
}

// An acknowledgement that does not name the stream is assigned to the right one.
func TestAckWithoutStreamID(t *testing.T) {
	a := &notifyingServer{modern: true}
	a.handle = func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method != "subscriptions/listen" {
			return "", nil
		}
		r.Stream.Sent(int64(s.count(r.Method)))
		s.notify(transport.Notice{Kind: transport.Acknowledged, Honored: wantsOf(r).ResourceSubscriptions})
		s.pause(ctx, -1)
		return "", &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("ended")}
	}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		require.NoError(t, subscribe(t, rt, "x:b"))
	})
}

// If a server never lets the request through, its lists are read rarely.
func TestFailedStreamsReadListsRarely(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "subscriptions/listen" {
			return "", &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("HTTP 405")}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(time.Hour)
		require.InDelta(t, 6, a.session(1).count("tools/list"), 1)
		require.Equal(t, mcpvisor.KindProtocol, asError(t, subscribe(t, rt, "x:a")).Kind)
		require.Empty(t, desiredURIs(rt))
	})
}

// The notifications of a standby are dropped: the server in service sends the same.
func TestStandbyPublishesNoUpdates(t *testing.T) {
	a := &notifyingServer{modern: true}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{Standby: true, Policy: supervisor.Retry(3, 10*time.Second)}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		time.Sleep(time.Minute)
		for epoch := 1; epoch <= 3; epoch++ {
			require.NotNil(t, view(rt).standby)
			before := updates(got(), "x:a")
			a.session(epoch).update("x:a") // a resource that both watch
			a.session(epoch + 1).update("x:a")
			require.Equal(t, 1, updates(got(), "x:a")-before)
			a.session(epoch).Abort(errScripted)
			time.Sleep(time.Minute)
		}
	})
}

// Servers made with the go-sdk keep their listeners by session on a pipe: the end of any
// stream makes them forget the listener of the lists, when they confirm that end.
func TestStreamsOfServersWithSessionListeners(t *testing.T) {
	var forgotten atomic.Bool
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		about := wantsOf(r)
		if about.ToolsListChanged {
			forgotten.Store(false)
		}
		if r.Method != "subscriptions/listen" {
			return "", nil
		}
		defer forgotten.Store(true)
		if slices.Contains(about.ResourceSubscriptions, "x:bad") {
			return "", rpcErr("no such resource")
		}
		err := s.listen(ctx, r, time.Millisecond, about.ResourceSubscriptions)
		if r.Stream.Cancelled(); len(about.ResourceSubscriptions) > 0 {
			s.pause(context.Background(), 100*time.Millisecond) // longer than the stream of the lists
		}
		return "", err
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for i := range 2 * subscription.MaxResourceStreams {
			require.NoError(t, subscribe(t, rt, fmt.Sprint("x:", i)))
			time.Sleep(2 * time.Millisecond)
			require.False(t, forgotten.Load())
		}
		require.Error(t, subscribe(t, rt, "x:bad"))
		time.Sleep(time.Millisecond)
		require.False(t, forgotten.Load())
		for _, uri := range []string{"x:3", "x:31"} { // in a stream with others, and in one of its own
			require.NoError(t, unsubscribe(t, rt, uri))
			time.Sleep(time.Second)
			require.False(t, forgotten.Load())
		}
	})
}
