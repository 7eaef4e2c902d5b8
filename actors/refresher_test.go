package actors

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// The server says how long its lists are valid, also at the first reading.
func TestExpiredListIsReadAgain(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		switch r.Method {
		case "tools/list":
			return `{"tools":[],"ttlMs":15000}`, nil
		case "resources/list":
			return `{"resources":[],"ttlMs":60000}`, nil
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, _ *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 40, a.session(1).count("tools/list"), 2)
		require.InDelta(t, 10, a.session(1).count("resources/list"), 1, "each has its own time")
	})
}

// A list whose changes the server does not announce is read again at its greatest age, and only while the
// server is ready.
func TestMaxListAge(t *testing.T) {
	for name, row := range map[string]struct {
		age    time.Duration
		silent bool
		least  int // readings of the tools in ten hours, the first included
		most   int
	}{
		"off":                   {0, true, 1, 1},
		"negative":              {-1, true, 1, 1},
		"an hour":               {time.Hour, true, 11, 14},
		"changes are announced": {time.Hour, false, 1, 1},
		"less than ten seconds": {time.Nanosecond, true, 3000, 3601},
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{silent: row.silent}
			spec := mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{MaxListAge: row.age}, Probe: mcpvisor.Probe{Interval: -1}, Policy: supervisor.Retry(3, time.Hour)}
			withNotifyingServer(t, a, spec, func(t *testing.T, rt *Runtime, events func() []mcpvisor.Event) {
				time.Sleep(10 * time.Hour)
				reads := a.session(1).count("tools/list")
				require.GreaterOrEqual(t, reads, row.least)
				require.LessOrEqual(t, reads, row.most)
				require.Equal(t, 1, a.session(1).count("resources/list"), "their changes are announced")
				if row.most == 1 {
					return
				}
				a.offers("new")
				time.Sleep(row.age + 11*time.Second)
				require.True(t, offered(rt, "new"))
				all := events()
				require.Equal(t, mcpvisor.EventChanged, all[len(all)-1].Kind)
				require.Len(t, all[len(all)-1].Change.Tools.Added, 1)

				reads = a.session(1).count("tools/list")
				a.session(1).Abort(errScripted)
				time.Sleep(30 * time.Minute)
				require.Equal(t, reads, a.session(1).count("tools/list"), "it is down")
			})
		})
	}
}

// A list that cannot be read has a growing pause of its own, and delays no other list.
func TestBrokenListDelaysNoOther(t *testing.T) {
	a := &notifyingServer{handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/list" {
			return "", rpcErr("ECONNREFUSED")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, rt.Refresh(context.Background(), view(rt)), "the tools were read")
		time.Sleep(64 * time.Second) // the pause is 30 s by now
		before := a.session(1).count("resources/list")
		for range 10 {
			a.offers("new")
			a.session(1).toolsChanged()
			time.Sleep(time.Second)
			require.True(t, offered(rt, "new"))
			a.offers("old")
			a.session(1).toolsChanged()
			time.Sleep(time.Second)
			require.True(t, offered(rt, "old"))
		}
		require.LessOrEqual(t, a.session(1).count("resources/list")-before, 1, "and it keeps its pause")
	})
}

func TestListWarningsAreReplaced(t *testing.T) {
	a := &notifyingServer{handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/list" {
			return "", rpcErr(strings.Repeat("no ", s.count(r.Method)%7)) // never the same
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for range 100 {
			require.NoError(t, rt.Refresh(context.Background(), view(rt)))
		}
		require.Len(t, view(rt).Catalog.Warnings, 1)
	})
}

// A caller that asks for a refresh while one is failing is served after it, and does not
// wait for the pause of the broken list.
func TestRefreshIgnoresTheRetryPause(t *testing.T) {
	var broken atomic.Bool
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if broken.Load() && strings.HasSuffix(r.Method, "/list") {
			s.pause(ctx, 100*time.Millisecond)
			return "", rpcErr("no")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		broken.Store(true)
		for range 6 {
			require.Error(t, rt.Refresh(context.Background(), view(rt)))
		}
		go func() { _ = rt.Refresh(context.Background(), view(rt)) }()
		time.Sleep(50 * time.Millisecond)
		require.Less(t, spends(func() { _ = rt.Refresh(context.Background(), view(rt)) }), 2*time.Second)
	})
}

// A reading without an answer is a timeout, and its outcome is unknown.
func TestRefreshTimeout(t *testing.T) {
	var hung atomic.Bool
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if hung.Load() {
			s.pause(ctx, -1)
			return "", &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: ctx.Err()}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		hung.Store(true)
		requireError(t, rt.Refresh(context.Background(), view(rt)), mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown)
	})
}

// Callers that come while the lists are being read are served together, by one more
// reading.
func TestConcurrentRefreshesShareOneReading(t *testing.T) {
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "tools/list" && s.count(r.Method) > 1 {
			s.pause(ctx, time.Second)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		done := make(chan error, 10)
		for range cap(done) {
			go func() { done <- rt.Refresh(context.Background(), view(rt)) }()
			synctest.Wait()
		}
		for range cap(done) {
			require.NoError(t, <-done)
		}
		require.Equal(t, 1+2, a.session(1).count("tools/list"))
	})
}

func TestRefreshWithoutChangeIsNoEvent(t *testing.T) {
	a := &notifyingServer{}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, rt.Refresh(context.Background(), view(rt)))
		require.NotContains(t, kinds(got()), mcpvisor.EventChanged)
		a.offers("new")
		require.NoError(t, rt.Refresh(context.Background(), view(rt)))
		require.Contains(t, kinds(got()), mcpvisor.EventChanged)
	})
}

// A change that is announced just before another list is read is not lost by that
// reading.
func TestChangeDuringAnotherReadingIsKept(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/list" {
			return fmt.Sprintf(`{"resources":[],"ttlMs":%d}`, minListTTL.Milliseconds()), nil
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for i := range 5 {
			time.Sleep(minListTTL - settleDelay/2)
			tool, before := fmt.Sprint("new", i), a.session(1).count("resources/list")
			a.offers(tool)
			a.session(1).toolsChanged()
			time.Sleep(settleDelay / 2)
			synctest.Wait()
			require.Equal(t, before+1, a.session(1).count("resources/list"), "they are read before it has settled")
			require.False(t, offered(rt, tool))
			time.Sleep(time.Second)
			require.True(t, offered(rt, tool))
			require.NoError(t, rt.Refresh(context.Background(), view(rt))) // neither expires soon
		}
	})
}

// A broken list is tried again although other lists are read meanwhile. Once it can be
// read, it is read no more often than any other.
func TestBrokenListIsReadAgain(t *testing.T) {
	var broken atomic.Bool
	a := &notifyingServer{handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/list" && broken.Load() {
			return "", rpcErr("no")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		broken.Store(true)
		require.NoError(t, rt.Refresh(context.Background(), view(rt)), "the tools were read")
		a.session(1).toolsChanged()
		time.Sleep(500 * time.Millisecond) // the tools are read before the other list is tried again
		broken.Store(false)
		before := a.session(1).count("resources/list")
		time.Sleep(time.Hour)
		require.Equal(t, before+1, a.session(1).count("resources/list"))
		require.Empty(t, view(rt).Catalog.Warnings)
	})
}

// A list without a TTL in its latest answer does not expire.
func TestListWithoutTTLStopsExpiring(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "tools/list" && s.count(r.Method) == 1 {
			return `{"tools":[],"ttlMs":15000}`, nil
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(time.Hour)
		require.Equal(t, 2, a.session(1).count("tools/list"))
	})
}

// A panic while listing, or the end of its goroutine, is the error of that refresh, and the catalog stays.
func TestRefreshPanicKeepsTheCatalog(t *testing.T) {
	for text, how := range map[string]func(){"scripted panic": func() { panic("scripted panic in a listing") }, "goroutine was ended": runtime.Goexit} {
		a := &notifyingServer{handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
			if r.Method == "tools/list" && s.count(r.Method) == 2 {
				how()
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			require.ErrorContains(t, rt.Refresh(ctx, view(rt)), text)
			require.True(t, offered(rt, "x"))
			time.Sleep(time.Minute)
			require.EqualValues(t, 1, view(rt).Epoch)
			require.Equal(t, 3, a.session(1).count("tools/list"), "it is tried again")
		})
	}
}

// A standby that takes over has the changes that were announced while it waited.
func TestStandbyCatalogStaysCurrent(t *testing.T) {
	a := &notifyingServer{}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{Standby: true, Policy: supervisor.Retry(3, time.Hour)}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		time.Sleep(time.Second)
		require.NotNil(t, view(rt).standby)
		a.offers("new")
		a.session(2).toolsChanged()
		time.Sleep(time.Second)
		require.False(t, offered(rt, "new"), "the change of a standby is not published")
		require.NotContains(t, kinds(got()), mcpvisor.EventChanged)
		a.session(1).Abort(errScripted)
		synctest.Wait()
		require.EqualValues(t, 2, view(rt).Epoch)
		require.True(t, offered(rt, "new"))
		rt.system.Root.Send(rt.managerState.registrations["s"].supervisor, &catalogRefreshed{epoch: 1, lists: catalog.AllLists, catalog: catalog.New(catalog.Catalog{})})
		synctest.Wait()
		require.True(t, offered(rt, "new"), "a reading of an old incarnation changes nothing")
	})
}

// A server that acknowledges no stream is ready 250 ms later, however many streams there are,
// and however little time it has for its lists.
func TestStartDoesNotWaitForEveryAck(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "subscriptions/listen" && s.epoch > 1 {
			return "", s.listen(ctx, r, time.Hour, nil)
		}
		return "", nil
	}}
	spec := mcpvisor.ServerSpec{Timeouts: mcpvisor.Timeouts{List: 10 * time.Millisecond}}
	withNotifyingServer(t, a, spec, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for i := range 5 {
			require.NoError(t, subscribe(t, rt, fmt.Sprint("x:", i)))
		}
		a.session(1).Abort(errScripted)
		time.Sleep(subscription.StartAckTimeout + 50*time.Millisecond) // and the wait before the restart
		require.Equal(t, supervisor.StateReady, view(rt).State)
		require.EqualValues(t, 2, view(rt).Epoch)
	})
}

// A subscription to a resource whose stream is not acknowledged yet does not succeed.
func TestSubscribeBeforeTheStreamIsAcked(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if about := wantsOf(r).ResourceSubscriptions; len(about) > 0 {
			return "", s.listen(ctx, r, 10*time.Second, about)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for range 2 {
			require.Equal(t, mcpvisor.ErrTimeout, asError(t, subscribe(t, rt, "x:a")).Kind)
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, subscribe(t, rt, "x:a"))
	})
}

// After a gap in the notifications, everything that may have changed counts as changed.
func TestGapMarksEverythingChanged(t *testing.T) {
	a := &notifyingServer{}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		a.offers("new")
		a.session(1).notify(transport.Notice{Kind: transport.Gap})
		time.Sleep(time.Second)
		require.True(t, offered(rt, "new"))
		require.Equal(t, 1, updates(got(), "x:a"))
	})
}
