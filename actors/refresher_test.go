package actors

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
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

func TestReadingOneListKeepsTheExpiryOfAnother(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/list" {
			return `{"resources":[],"ttlMs":15000}`, nil
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, rt.Refresh(context.Background(), view(rt)))
		time.Sleep(time.Second)
		for range 20 {
			a.session(1).toolsChanged()
			time.Sleep(10 * time.Second)
		}
		require.GreaterOrEqual(t, a.session(1).count("resources/list"), 12)
	})
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
			return "", &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: ctx.Err()}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		hung.Store(true)
		e := asError(t, rt.Refresh(context.Background(), view(rt)))
		require.Equal(t, mcpvisor.KindTimeout, e.Kind, "%v", e)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	})
}
