package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// refusesCalls is a server that refuses calls, and pings once refusing is set.
func refusesCalls(t *testing.T) (web *memoryTransport, refusing *atomic.Bool) {
	t.Helper()
	web, refusing = newMemoryTransport(t), new(atomic.Bool)
	gone := replyStatus(410, "text/plain", "Gone")
	web.handle("tools/call", gone)
	for _, method := range []string{"ping", "tools/list"} {
		web.handle(method, func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			time.Sleep(time.Millisecond) // so that calls cross the check
			if refusing.Load() {
				gone(w, r, id)
				return
			}
			writeResult(w, id, `{"tools":[]}`)
		})
	}
	return web, refusing
}

// Any number of refused calls leads to one check at a time, and to one a second at most.
func TestVerify_pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, _ := refusesCalls(t)
		s := openSession(t, web.spec())
		const seconds, callers = 10, 8
		until := time.Now().Add(seconds * time.Second)
		done := make(chan struct{})
		for range callers {
			go func() {
				for time.Now().Before(until) {
					if outcome := outcomeOfCall(s); outcome != mcpvisor.OutcomeAnswered {
						t.Errorf("outcome %q", outcome)
					}
					time.Sleep(50 * time.Millisecond)
				}
				done <- struct{}{}
			}()
		}
		for range callers {
			<-done
		}
		time.Sleep(time.Minute)
		pings := len(web.requests("ping"))
		require.GreaterOrEqual(t, pings, seconds-1)
		require.LessOrEqual(t, pings, seconds+2, "one a second, and one for the last refusal")
		require.Nil(t, s.Cause())
		require.Empty(t, s.exchanger.table.requests.InFlight())
		require.Zero(t, s.calls.refusals.Load())
	})
}

// A session that is lost while calls are in flight ends once. Their outcomes stay what they
// were, and none of them is sent again.
func TestVerify_lostWithCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, refusing := refusesCalls(t)
		s := openSession(t, web.spec())
		require.NoError(t, transport.Probe(t.Context(), s))
		refusing.Store(true)
		const callers = 8
		outcomes := make(chan mcpvisor.Outcome, callers)
		for range callers {
			go func() { outcomes <- outcomeOfCall(s) }()
		}
		for range callers {
			require.Equal(t, mcpvisor.OutcomeAnswered, <-outcomes)
		}
		<-s.Dead()
		require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
		require.Contains(t, s.Cause().Message, "forgot the session")
		require.Contains(t, s.Cause().Message, "HTTP 410 Gone")
		<-s.Released()
		require.Len(t, web.requests("tools/call"), callers)
		require.Len(t, web.requests("ping"), 3, "the probe, and two checks")
		require.Len(t, web.requests("DELETE"), 1, "if the server was wrong, the session does not stay")
	})
}

// A server that has never answered a ping is asked for a list that it has returned. One that
// has answered neither proves nothing.
func TestVerify_withoutPings(t *testing.T) {
	for name, row := range map[string]struct {
		listed, ends bool
	}{"listed": {true, true}, "nothing known": {false, false}} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web, refusing := refusesCalls(t)
			s := openSession(t, web.spec())
			if row.listed {
				_, err := s.Request(t.Context(), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
			}
			refusing.Store(true)
			requireCallFails(t, s)
			time.Sleep(time.Minute)
			require.Equal(t, row.ends, s.Cause() != nil)
			require.LessOrEqual(t, len(web.requests("ping")), 2)
		})
	}
}

// A check that is on its way when the session ends, or that waits for its turn, changes
// nothing: neither the cause of the end nor the next session, and it delays no release.
func TestVerify_crossesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, refusing := refusesCalls(t)
		d := newTestDialer(web.spec())
		old := d.NewSession().(*session)
		require.NoError(t, old.Open(t.Context()))
		require.NoError(t, transport.Probe(t.Context(), old))
		requireCallFails(t, old)
		time.Sleep(10 * time.Millisecond) // that check is over, the next one waits for its turn
		refusing.Store(true)
		requireCallFails(t, old)
		old.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		began := time.Now()
		<-old.Released()
		require.Less(t, time.Since(began), verifyPause)
		require.Equal(t, supervisor.CauseRequested, old.Cause().Kind)
		refusing.Store(false)
		next := d.NewSession().(*session)
		transporttest.ReleaseAtEnd(t, next)
		require.NoError(t, next.Open(t.Context()))
		time.Sleep(time.Minute)
		require.Nil(t, next.Cause())
		require.False(t, d.pingsDoubted.Load())
	})
}

// The checks of HTTP+SSE, whose sessions are named by an address, are the same.
func TestVerify_SSE(t *testing.T) {
	web := newSSEServer(t)
	s := openSession(t, specFor(web.URL))
	require.NoError(t, transport.Probe(transporttest.Context(t), s))
	for _, method := range []string{"tools/call", "ping"} {
		web.handle(method, replyStatus(410, "text/plain", "Gone"))
	}
	require.Equal(t, mcpvisor.OutcomeAnswered, requireCallFails(t, s).Outcome)
	transporttest.RequireClosed(t, s.Dead(), "the lost session lives")
	require.Contains(t, s.Cause().Message, "forgot the session")
}

// Since 2026-07-28 there is no session to lose: refused calls lead to no check.
func TestVerify_modern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"new","version":"1"}}`)
		})
		web.handle("tools/call", replyStatus(410, "text/plain", "Gone"))
		s := openSession(t, web.spec())
		require.True(t, s.server.isModern())
		requireCallFails(t, s)
		time.Sleep(time.Minute)
		require.Nil(t, s.Cause())
		require.Len(t, web.requests("server/discover"), 1)
		// A proxy of MCP whose backend is gone answers calls, and its answers excuse no probe.
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(http.StatusInternalServerError)
			writeError(w, id, -32603, "no backend")
		})
		received := s.LastReceived()
		requireCallFails(t, s)
		require.True(t, s.LastReceived().Equal(received), "an error status is no sign of life")
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) { writeError(w, id, -32603, "no") })
		requireCallFails(t, s)
		require.True(t, s.LastReceived().Equal(time.Now()), "an error without one is")
		require.NoError(t, transport.Probe(t.Context(), s))
		web.handle("server/discover", replyStatus(500, "text/plain", "oops"))
		require.Error(t, transport.Probe(t.Context(), s))
		web.handle("server/discover", replyStatus(429, "text/plain", "slow down"))
		require.NoError(t, transport.Probe(t.Context(), s))
	})
}

// outcomeOfCall calls a tool, which fails; empty if it does not.
func outcomeOfCall(s transport.Session) mcpvisor.Outcome {
	_, err := s.Request(context.Background(), transporttest.ToolCall)
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Outcome
}

// A server that refuses everything for a moment, because of a limit or at a restart of what is in front of it,
// keeps its session. Statuses of proxies do not even count as a refusal.
func TestVerify_refusal_of_a_moment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, refusing := refusesCalls(t)
		s := openSession(t, web.spec())
		require.NoError(t, transport.Probe(t.Context(), s))
		for range 3 {
			refusing.Store(true)
			require.Equal(t, mcpvisor.OutcomeAnswered, outcomeOfCall(s))
			time.Sleep(verifyPause / 2)
			refusing.Store(false)
			time.Sleep(time.Minute)
			require.Nil(t, s.Cause())
		}
		require.Len(t, web.requests("ping"), 1+3*2)
		refusing.Store(true)
		require.Equal(t, mcpvisor.OutcomeAnswered, outcomeOfCall(s))
		time.Sleep(2 * verifyPause)
		require.NotNil(t, s.Cause())
	})
}

// A result between two refusals proves life. The pause counts from the answer to a check: a server that stalls,
// and then refuses everything for a moment, keeps its session.
func TestVerify_between_two_refusals(t *testing.T) {
	for name, slow := range map[string]time.Duration{"result": 0, "slow refusal": verifyPause * 9 / 10} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web, refusing := refusesCalls(t)
			s := openSession(t, web.spec())
			require.NoError(t, transport.Probe(t.Context(), s))
			web.handle("prompts/get", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				writeResult(w, id, `{"messages":[]}`)
			})
			if refuse := replyStatus(410, "text/plain", "Gone"); slow > 0 {
				web.handle("ping", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					if !refusing.Load() {
						writeResult(w, id, `{}`)
						return
					}
					time.Sleep(slow)
					refuse(w, r, id)
				})
			}
			refusing.Store(true)
			requireCallFails(t, s)
			time.Sleep(slow + verifyPause/2)
			if slow > 0 {
				refusing.Store(false)
			} else {
				_, err := s.Request(t.Context(), transport.Request{Method: "prompts/get", Target: "p"})
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
			require.Nil(t, s.Cause())
			require.Zero(t, s.calls.refusals.Load(), "the check is over")
			require.Len(t, web.requests("ping"), 3, "the probe, and two checks")
			refusing.Store(true)
			requireCallFails(t, s)
			time.Sleep(time.Minute)
			require.NotNil(t, s.Cause(), "an earlier result does not count")
		})
	}
}

func TestVerdictOf_proxies(t *testing.T) {
	for _, status := range []int{408, 425, 502, 503, 504, 520, 522, 530} {
		require.Equal(t, provesNothing, verdictOf(reply{}, &endpoint.HTTPError{Status: status}), status)
	}
}

// breakThenHang makes a server that breaks the connection of each call after some time,
// and that does not answer a ping.
func breakThenHang(t *testing.T, after time.Duration) *memoryTransport {
	t.Helper()
	web := newMemoryTransport(t)
	web.handle("tools/call", func(http.ResponseWriter, *http.Request, json.RawMessage) {
		time.Sleep(after)
		panic(http.ErrAbortHandler)
	})
	web.handle("ping", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	return web
}

// Calls whose connections break together share one check, which takes at most
// confirmTimeout. A server that does not answer the check is not considered dead.
func TestConfirmAlive_oneBoundedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := breakThenHang(t, time.Second)
		s := openSession(t, web.spec())
		const calls = 8
		failed := make(chan error, calls)
		began := time.Now()
		for range calls {
			go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); failed <- err }()
		}
		for range calls {
			e := testutil.AsError[*mcpvisor.Error](t, <-failed)
			require.Equal(t, mcpvisor.ErrProtocol, e.Kind, e.Error())
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		}
		require.Equal(t, time.Second+confirmTimeout, time.Since(began))
		require.Len(t, web.requests("ping"), 1)
		require.Nil(t, s.Cause())

		_, err := s.Request(t.Context(), transporttest.ToolCall)
		require.Error(t, err)
		require.Len(t, web.requests("ping"), 2, "the next broken call starts another check")
	})
}

// A call that waits for the check returns when its context or the session ends.
func TestConfirmAlive_endsWithCallerAndSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, breakThenHang(t, 0).spec())
		ctx, cancel := context.WithTimeout(t.Context(), confirmTimeout/4)
		defer cancel()
		began := time.Now()
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.Equal(t, confirmTimeout/4, time.Since(began))

		time.AfterFunc(confirmTimeout/4, func() { s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested}) })
		_, err = s.Request(t.Context(), transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrClosed)
		require.Equal(t, confirmTimeout/2, time.Since(began))
	})
}

// The check may get the connection of the call that broke. It is repeated until it gets one of
// its own, which shows that the server is gone.
func TestConfirmAlive_check_on_the_broken_connection(t *testing.T) {
	for name, r := range map[string]transport.Request{"call": transporttest.ToolCall, "probe": {Method: "ping"}} {
		t.Run(name, func(t *testing.T) { checkOnBrokenConnection(t, r) })
	}
}

func checkOnBrokenConnection(t *testing.T, r transport.Request) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		broken := func(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) }
		web.handle("tools/call", broken)
		web.handle("ping", broken)
		spec := web.spec()
		spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if len(web.requests("ping")) > 1 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return web.RoundTrip(r)
		})}
		s := openSession(t, spec)
		_, err := s.Request(t.Context(), r)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.NotNil(t, s.Cause())
	})
}
