package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
		time.Sleep(time.Second) // it is ready, and has read the lists
		require.Equal(t, supervisor.StateReady, view(rt).State)
		a.offers("new")
		a.session(1).toolsChanged() // no stream is open yet
		time.Sleep(10 * time.Second)
		require.True(t, offered(rt, "new"))

		e := asError(t, subscribe(t, rt, "x:a"))
		require.Equal(t, mcpvisor.ErrTimeout, e.Kind)
		a.session(1).update("x:a")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, updates(got(), "x:a"), "it is acknowledged, and counts as updated")
		require.NoError(t, subscribe(t, rt, "x:a"))
	})
}

// listening is a handler of the streams about resources: it acknowledges them as answer
// says, by the number of the stream in its session, from 1. lasts is when the server ends
// the stream; 0: never.
func listening(answer func(s *notifyingSession, n int, about []string) (after time.Duration, honored []string, lasts time.Duration)) func(context.Context, *notifyingSession, transport.Request) (string, error) {
	var mu sync.Mutex
	counts := map[*notifyingSession]int{}
	return func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		about := wantsOf(r).ResourceSubscriptions
		if len(about) == 0 {
			return "", nil
		}
		mu.Lock()
		counts[s]++
		n := counts[s]
		mu.Unlock()
		after, honored, lasts := answer(s, n, about)
		if lasts > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, lasts)
			defer cancel()
		}
		return "", s.listen(ctx, r, after, honored)
	}
}

// An acknowledgement that comes after the start and leaves out a resource rejects it: a
// caller learns that, whether it asks before or after the acknowledgement.
func TestLateAckThatLeavesOutAResource(t *testing.T) {
	for name, after := range map[string]time.Duration{"before the call": 400 * time.Millisecond, "during the call": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: listening(func(s *notifyingSession, _ int, about []string) (time.Duration, []string, time.Duration) {
				if s.epoch == 1 {
					return 0, about, 0
				}
				return after, nil, 0
			})}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				require.NoError(t, subscribe(t, rt, "x:a"))
				a.session(1).Abort(errScripted)
				time.Sleep(time.Second)
				require.Equal(t, supervisor.StateReady, view(rt).State)
				require.ErrorContains(t, subscribe(t, rt, "x:a"), "does not watch")
				require.Empty(t, desiredURIs(rt))
				time.Sleep(time.Minute)
				a.session(2).mu.Lock()
				defer a.session(2).mu.Unlock()
				require.Len(t, a.session(2).streams, 1, "that of the lists")
			})
		})
	}
}

// A resource that a late acknowledgement leaves out is requested again, and costs the
// others of its stream nothing.
func TestLateAckThatLeavesOutAResourceIsRetried(t *testing.T) {
	a := &notifyingServer{modern: true, handle: listening(func(s *notifyingSession, n int, about []string) (time.Duration, []string, time.Duration) {
		if s.epoch > 1 && n == 1 {
			return 400 * time.Millisecond, []string{"x:b"}, 0
		}
		return 0, about, 0
	})}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		require.NoError(t, subscribe(t, rt, "x:b"))
		a.session(1).Abort(errScripted)
		time.Sleep(time.Minute)
		for _, uri := range []string{"x:a", "x:b"} {
			before := updates(got(), uri)
			require.Positive(t, before, "%s counts as updated after the gap", uri)
			a.session(2).update(uri)
			require.Equal(t, before+1, updates(got(), uri), uri)
		}
	})
}

// The same holds for a stream that the server ends and then acknowledges without a
// resource that it honored before.
func TestRepeatedAckThatLeavesOutAResource(t *testing.T) {
	server := func(rejected int) *notifyingServer {
		return &notifyingServer{modern: true, handle: listening(func(_ *notifyingSession, n int, about []string) (time.Duration, []string, time.Duration) {
			switch {
			case n == 1:
				return 0, about, time.Minute
			case n <= 1+rejected:
				return 0, nil, 0
			}
			return 0, about, 0
		})}
	}
	t.Run("reported", func(t *testing.T) {
		a := server(1 << 30)
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			require.NoError(t, subscribe(t, rt, "x:a"))
			time.Sleep(2 * time.Minute)
			asked := a.session(1).count("subscriptions/listen")
			require.LessOrEqual(t, asked, 20, "retries have pauses")
			require.Equal(t, []string{"x:a"}, desiredURIs(rt), "no caller waits")
			require.ErrorContains(t, subscribe(t, rt, "x:a"), "does not watch")
			require.Empty(t, desiredURIs(rt))
		})
	})
	t.Run("unsubscribed", func(t *testing.T) {
		withNotifyingServer(t, server(1<<30), mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			require.NoError(t, subscribe(t, rt, "x:a"))
			time.Sleep(2 * time.Minute)
			require.NoError(t, unsubscribe(t, rt, "x:a"))
		})
	})
	t.Run("retried", func(t *testing.T) {
		a := server(3)
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
			require.NoError(t, subscribe(t, rt, "x:a"))
			time.Sleep(10 * time.Minute)
			require.Equal(t, 1, updates(got(), "x:a"), "it counts as updated after the gap")
			a.session(1).update("x:a")
			require.Equal(t, 2, updates(got(), "x:a"))
		})
	})
}

// A server that confirms no end of a stream delays its start by no more than the time for
// acknowledgements. The stream about the lists is opened again after that.
func TestStartWaitsForNoEndOfAStream(t *testing.T) {
	for name, honored := range map[string]bool{"rejected": false, "left out": true} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
				about := wantsOf(r).ResourceSubscriptions
				if r.Method != "subscriptions/listen" || s.epoch == 1 {
					return "", nil
				}
				if len(about) > 0 && !honored {
					return "", rpcErr("no such resource")
				}
				err := s.listen(ctx, r, 0, nil)
				r.Stream.Cancelled()
				s.pause(context.Background(), r.Stream.CancelGrace)
				return "", err
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				require.NoError(t, subscribe(t, rt, "x:a"))
				a.session(1).Abort(errScripted)
				time.Sleep(subscription.StartAckTimeout + 100*time.Millisecond) // the policy waits some ms
				require.EqualValues(t, 2, view(rt).Epoch)
				require.Equal(t, supervisor.StateReady, view(rt).State)
				require.NoError(t, unsubscribe(t, rt, "x:a")) // no more retries
				time.Sleep(time.Minute)
				a.offers("new")
				a.session(2).toolsChanged()
				time.Sleep(time.Second)
				require.True(t, offered(rt, "new"))
			})
		})
	}
}

// What an acknowledgement lists beyond the resources of its stream is ignored, and each
// resource counts as updated once.
func TestAckOfMoreThanRequested(t *testing.T) {
	more := []string{"x:a", "x:a"}
	for i := range 10_000 {
		more = append(more, fmt.Sprint("x:more", i))
	}
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if about := wantsOf(r).ResourceSubscriptions; len(about) > 0 {
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // each end is a gap
			defer cancel()
			return "", s.listen(ctx, r, 0, more)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		time.Sleep(150 * time.Second)
		require.Equal(t, 2, updates(got(), "x:a"))
		for _, e := range got() {
			require.False(t, e.Kind == mcpvisor.EventResourceUpdated && e.URI != "x:a", "%s was not asked for", e.URI)
		}
	})
}

// A server that makes one gap after the other causes no more events than one that sends
// updates, and no resource is left out.
func TestGapsAreBounded(t *testing.T) {
	a := &notifyingServer{}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		const resources, seconds = 50, 10
		for i := range resources {
			require.NoError(t, subscribe(t, rt, fmt.Sprint("x:", i)))
		}
		before := len(got())
		for range 100 * seconds {
			a.session(1).notify(transport.Notice{Kind: transport.Gap})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		n := 0
		for i := range resources {
			n += updates(got()[before:], fmt.Sprint("x:", i))
			require.Positive(t, updates(got()[before:], fmt.Sprint("x:", i)))
		}
		require.LessOrEqual(t, n, missedPerSecond*(seconds+1)+resources)
		require.Greater(t, n, missedPerSecond*(seconds-1))
		last := updates(got(), "x:7")
		a.session(1).notify(transport.Notice{Kind: transport.Gap})
		a.session(1).notify(transport.Notice{Kind: transport.Gap}) // before the next publication is due
		time.Sleep(time.Second)
		require.Equal(t, last+2, updates(got(), "x:7"), "the last gap counts")
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
		return "", &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("ended")}
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
			return "", &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("HTTP 405")}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(time.Hour)
		require.InDelta(t, 6, a.session(1).count("tools/list"), 1)
		require.Equal(t, mcpvisor.ErrProtocol, asError(t, subscribe(t, rt, "x:a")).Kind)
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

// A stream that waits for its next attempt ends at once, when it is no longer needed
// and when the session ends. No goroutine is left.
func TestStreamEndsDuringItsPause(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, rt *Runtime, a *notifyingServer){
		"unsubscribe": func(t *testing.T, rt *Runtime, a *notifyingServer) {
			require.Zero(t, spends(func() { require.NoError(t, rt.Subscribe(context.Background(), view(rt), "x:a", false)) }))
			synctest.Wait()
			asked := a.session(1).count("subscriptions/listen")
			time.Sleep(time.Hour)
			require.Equal(t, asked, a.session(1).count("subscriptions/listen"))
		},
		"death": func(_ *testing.T, rt *Runtime, _ *notifyingServer) { _ = rt.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
				if len(wantsOf(r).ResourceSubscriptions) > 0 {
					return "", &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("HTTP 503")}
				}
				return "", nil
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				require.Error(t, subscribe(t, rt, "x:a"))
				time.Sleep(10*time.Minute + time.Second) // the pause is 30 s by now
				end(t, rt, a)
			})
		})
	}
}

// A server that does not support streams is not asked again for its lists. One that
// rejects them for another reason may only be starting.
func TestStreamUnsupportedIsRequestedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"unknown method": {&mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}}, 1},
		"another error":  {rpcErr("just starting"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
				if r.Method == "subscriptions/listen" && s.count(r.Method) == 1 {
					return "", c.err
				}
				return "", nil
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, _ *Runtime, _ func() []mcpvisor.Event) {
				time.Sleep(time.Hour)
				require.Equal(t, c.asked, a.session(1).count("subscriptions/listen"))
			})
		})
	}
}
