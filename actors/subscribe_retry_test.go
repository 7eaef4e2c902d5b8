package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/transport"
)

// rejecting is a handler that fails the requests of a method about a resource with the
// error that now returns.
func rejecting(method, about string, now func(s *notifyingSession) error) func(context.Context, *notifyingSession, transport.Request) (string, error) {
	return func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
		of := r.Method == method || method == "" && (r.Method == "resources/subscribe" || len(wantsOf(r).ResourceSubscriptions) > 0)
		if of && strings.Contains(string(r.Params), about) {
			return "", now(s)
		}
		return "", nil
	}
}

// A change that comes while the standby is being reconciled is applied after that.
func TestStandbyReceivesSubscriptionsDuringARun(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			if s.epoch == 2 && r.Method != "tools/list" {
				s.pause(ctx, time.Second)
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{Standby: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			time.Sleep(time.Minute)
			require.NotNil(t, view(rt).standby)
			require.NoError(t, subscribe(t, rt, "x:a"))
			require.NoError(t, subscribe(t, rt, "x:b"))
			time.Sleep(time.Minute)
			require.Contains(t, a.session(2).requestLog(), `"x:a"`)
			require.Contains(t, a.session(2).requestLog(), `"x:b"`)
		})
	})
}

// A standby has the level in force, also after a level was reverted.
func TestStandbyReceivesTheRevertedLevel(t *testing.T) {
	a := &notifyingServer{handle: rejecting("logging/setLevel", "debug", func(s *notifyingSession) error {
		if s.epoch == 1 {
			s.pause(context.Background(), time.Second) // the standby has accepted it by then
			return rpcErr("too much")
		}
		return nil
	})}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{Standby: true}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		time.Sleep(time.Second)
		last := func() string {
			synctest.Wait()
			log := a.session(2).requestLog()
			return log[strings.LastIndex(log, "logging/setLevel"):]
		}
		require.NoError(t, rt.SetLogLevel(context.Background(), view(rt), "error"))
		require.Contains(t, last(), `"error"`)
		require.Error(t, rt.SetLogLevel(context.Background(), view(rt), "debug"))
		a.session(1).Abort(errScripted)
		time.Sleep(time.Second)
		require.EqualValues(t, 2, view(rt).Epoch)
		require.Contains(t, last(), `"error"`)
	})
}

// If the server dies during the request, the subscription does not fail: the next
// incarnation applies it.
func TestSubscribeSurvivesTheDeathOfTheServer(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			if s.epoch == 1 && strings.Contains(string(r.Params), "x:a") {
				s.pause(ctx, -1)
				return "", &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: errScripted}
			}
			return "", nil
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			done, v := make(chan error, 1), view(rt)
			go func() { done <- rt.Subscribe(context.Background(), v, "x:a", true) }()
			synctest.Wait()
			a.session(1).Abort(errScripted)
			require.NoError(t, <-done)
			time.Sleep(time.Second)
			require.Contains(t, a.session(2).requestLog(), "x:a")
		})
	})
}

// A panic on the way to the server answers the caller, and the request is retried.
func TestSubscribePanicIsRetried(t *testing.T) {
	a := &notifyingServer{handle: rejecting("resources/subscribe", "x:a", func(s *notifyingSession) error {
		if s.count("resources/subscribe") == 1 {
			panic("scripted panic in a subscription")
		}
		return nil
	})}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		require.Zero(t, spends(func() { require.ErrorContains(t, rt.Subscribe(ctx, view(rt), "x:a", true), "scripted panic") }))
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, a.session(1).count("resources/subscribe"))
	})
}

// A rejected level is replaced by the one before, but not if another level was set
// meanwhile.
func TestRejectedLevelKeepsALaterOne(t *testing.T) {
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "logging/setLevel" && strings.Contains(string(r.Params), "debug") {
			s.pause(ctx, time.Second)
			return "", rpcErr("too much")
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		rejected, v := make(chan error, 1), view(rt)
		go func() { rejected <- rt.SetLogLevel(context.Background(), v, "debug") }()
		synctest.Wait()
		require.NoError(t, rt.SetLogLevel(context.Background(), v, "error"))
		require.ErrorContains(t, <-rejected, "too much")
		require.Equal(t, "error", v.current.desired.LogLevel())
		require.Contains(t, a.session(1).requestLog(), `logging/setLevel {"level":"error"}`)
	})
}

// A rejected level is requested again after a restart, and at once if a caller sets it
// again.
func TestRejectedLevelIsRetried(t *testing.T) {
	var strict atomic.Bool
	a := &notifyingServer{handle: rejecting("logging/setLevel", "debug", func(*notifyingSession) error {
		if strict.Load() {
			return rpcErr("not yet")
		}
		return nil
	})}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		strict.Store(true)
		require.ErrorContains(t, rt.SetLogLevel(context.Background(), view(rt), "debug"), "not yet")
		strict.Store(false)
		require.NoError(t, rt.SetLogLevel(context.Background(), view(rt), "debug"))
		strict.Store(true)
		a.session(1).Abort(errScripted)
		time.Sleep(10 * time.Second)
		require.Equal(t, "debug", view(rt).current.desired.LogLevel())
		asked := a.session(2).count("logging/setLevel")
		require.Greater(t, asked, 1)
		strict.Store(false)
		time.Sleep(time.Hour)
		require.Equal(t, asked+1, a.session(2).count("logging/setLevel"), "until it is accepted")
	})
}

// A subscription that was rejected at a restart is requested again when a caller asks
// for it: the old answer does not count.
func TestSubscribeAgainAsksTheServer(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		var strict atomic.Bool
		a := &notifyingServer{modern: modern, handle: rejecting("", "x:late", func(*notifyingSession) error {
			if strict.Load() {
				return rpcErr("not yet")
			}
			return nil
		})}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			require.NoError(t, subscribe(t, rt, "x:late"))
			strict.Store(true)
			a.session(1).Abort(errScripted)
			time.Sleep(5 * time.Minute)
			strict.Store(false)
			require.Zero(t, spends(func() { require.NoError(t, subscribe(t, rt, "x:late")) }))
			require.Equal(t, []string{"x:late"}, desiredURIs(rt))
		})
	})
}

// All callers that ask for a resource while it is being rejected receive the rejection.
func TestRejectionReachesEveryCaller(t *testing.T) {
	bothEras(t, func(t *testing.T, modern bool) {
		reject := rejecting("", "x:bad", func(*notifyingSession) error { return rpcErr("no such resource") })
		a := &notifyingServer{modern: modern, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
			_, err := reject(ctx, s, r)
			if err != nil {
				s.pause(ctx, time.Second)
			}
			return "", err
		}}
		withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
			done, v := make(chan error, 3), view(rt)
			for range cap(done) {
				go func() { done <- rt.Subscribe(context.Background(), v, "x:bad", true) }()
				synctest.Wait()
			}
			for range cap(done) {
				require.ErrorContains(t, <-done, "no such resource")
			}
			require.Empty(t, desiredURIs(rt))
		})
	})
}

// A server that is temporarily unavailable has rejected nothing.
func TestUnavailableIsNoRejection(t *testing.T) {
	a := &notifyingServer{handle: rejecting("resources/subscribe", "x:a", func(s *notifyingSession) error {
		if s.count("resources/subscribe") == 1 {
			return &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("HTTP 503")}
		}
		return nil
	})}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.ErrorIs(t, subscribe(t, rt, "x:a"), mcpvisor.ErrUnavailable)
		require.Equal(t, []string{"x:a"}, desiredURIs(rt))
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, a.session(1).count("resources/subscribe"))
	})
}

// After an unsubscribe the resource is no longer desired, whatever the server
// answers. A request without an answer is sent again.
func TestUnsubscribeFails(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"rejected": {rpcErr("never"), 1},
		"hung":     {&mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("no answer")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{handle: rejecting("resources/unsubscribe", "x:a", func(s *notifyingSession) error {
				if s.count("resources/unsubscribe") == 1 {
					return c.err
				}
				return nil
			})}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				require.NoError(t, subscribe(t, rt, "x:a"))
				synctest.Wait()
				require.ErrorContains(t, rt.Subscribe(context.Background(), view(rt), "x:a", false), c.err.Error())
				require.Empty(t, desiredURIs(rt))
				time.Sleep(time.Hour)
				require.Equal(t, c.asked, a.session(1).count("resources/unsubscribe"))
				require.NoError(t, subscribe(t, rt, "x:b"))
				require.Equal(t, c.asked, a.session(1).count("resources/unsubscribe"))
				a.session(1).Abort(errScripted)
				time.Sleep(time.Second)
				require.NotContains(t, a.session(2).requestLog(), "x:a")
			})
		})
	}
}

// The caller's context did not end the request: the timeout of the port did.
func TestSubscribeTimeout(t *testing.T) {
	a := &notifyingServer{handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if r.Method == "resources/subscribe" && s.count(r.Method) == 1 {
			s.pause(ctx, -1)
			return "", &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: ctx.Err()}
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.ErrorIs(t, subscribe(t, rt, "x:a"), mcpvisor.ErrTimeout)
	})
}

// Between the change of the desired state and the message of the caller, another message
// may start a run. A rejection in that run is kept for the caller.
func TestUnsubscribeRejectionReportedWhenReconcileOvertakes(t *testing.T) {
	a := &notifyingServer{handle: rejecting("resources/unsubscribe", "x:a", func(*notifyingSession) error { return rpcErr("never") })}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		require.NoError(t, subscribe(t, rt, "x:a"))
		synctest.Wait()
		v := view(rt)
		rt.desiredOf(v.Gen).SetResource("x:a", false)                                         // what rt.Subscribe does first …
		rt.system.Root.Send(v.current.port, &reconcileSubscriptions{})                        // … then a report is published …
		err := rt.requestReconcile(context.Background(), v, subscription.Request{URI: "x:a"}) // … and then rt.Subscribe continues
		require.ErrorContains(t, err, "never")
	})
}
