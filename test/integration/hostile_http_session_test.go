//go:build linux

package integration

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

var httpSessionRows = []httpRow{
	httpSessionLost("session/lost"),
	httpSessionLost("session/lost-rpc"),
	// An error with the id of the call is the answer to the call, although the session
	// ends.
	httpFails("session/lost-rpc-own", mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered, "Session not found").replacing().in(mcpvisor.EraLegacy),
	httpSessionLost("session/lost-400"),
	httpRow{name: "session/lost-silently"}.doing(func(s *httpRun) {
		s.callBadTool()
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
		s.requireError(err, &wantError{mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent, "forgot the session"})
		s.requireServes(2)
	}),
	httpRow{name: "session/lost-always"}.doing(func(s *httpRun) {
		// The first call loses each session, so the restart budget is spent.
		var err error
		for !errors.Is(err, mcpvisor.ErrEvicted) {
			_, err = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil, facade.WithWaitReady())
			require.Error(s.t, err)
			require.True(s.t, isAny(err, mcpvisor.ErrUnavailable, mcpvisor.ErrEvicted), "%v", err)
		}
		require.EqualValues(s.t, 4, s.epoch())
	}),
	httpSessionReplaced("session/lost-410", mcpvisor.ErrProtocol),
	httpSessionReplaced("session/lost-200", mcpvisor.ErrRPC),
	httpSessionReplaced("session/lost-500", mcpvisor.ErrProtocol),
	httpSessionReplaced("session/lost-in-other-words", mcpvisor.ErrRPC),
	httpUnstartable("session/id-missing", "Mcp-Session-Id header is required"),
	httpSucceeds("session/id-changes"),
	httpSucceeds("session/id-empty"),
	httpSucceeds("session/id-two"),
	httpUnstartable("session/id-control", ""),
	httpSucceeds("session/id-blanks"),
	httpUnstartable("session/id-megabyte", "headers exceeded"),
	httpSucceeds("session/id-secret"),
	httpRow{name: "session/busy"}.doing(func(s *httpRun) {
		s.callBadTool()
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
		s.requireError(err, &wantError{mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "one at a time"})
		s.callBadTool()
		s.requireServes(1)
	}),

	httpRow{name: "none"}.with("server_restarts_on_same_port", nil).doing(func(s *httpRun) {
		s.server.Restart()
		s.callInterrupted()
		if s.spec.Era == mcpvisor.EraModern {
			// Without a session nothing is lost. The notification stream may have
			// failed to reconnect, though, and ended the incarnation.
			res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "again"}, facade.WithWaitReady())
			require.NoError(s.t, err)
			require.Equal(s.t, "again", textOf(res))
			require.LessOrEqual(s.t, s.epoch(), uint64(2))
			return
		}
		s.requireServes(2)
	}),
	httpRow{name: "none"}.with("server_stops_and_restarts", func(s *mcpvisor.ServerSpec) {
		s.Policy = supervisor.Retry(50, httpShortTimeout/10)
		s.Policy.Max = httpShortTimeout
	}).doing(func(s *httpRun) {
		s.server.Stop()
		s.callInterrupted()
		s.server.Restart()
		res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "back"}, facade.WithWaitReady())
		require.NoError(s.t, err)
		require.Equal(s.t, "back", textOf(res))
		require.Greater(s.t, s.epoch(), uint64(1))
	}),
	httpRow{name: "call/no-answer"}.with("server_stops_during_call", nil).doing(func(s *httpRun) {
		failed := make(chan error, 1)
		go func() {
			_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
			failed <- err
		}()
		waitUntil(s.fixture.within(), s.t, "the call is in flight", func() bool {
			st, _ := s.c.ServerStatus(hostileServer)
			return st.Calls.InFlight == 1
		})
		s.server.Stop()
		err := <-failed
		require.True(s.t, isAny(err, mcpvisor.ErrCrashed, mcpvisor.ErrUnavailable), "%v", err)
		// Without a session only the notification stream notices, after the call.
		waitUntil(s.fixture.within(), s.t, "nothing listens on the port, so the server is evicted", func() bool {
			return errors.Is(s.c.WaitReady(s.fixture.within(), hostileServer), mcpvisor.ErrEvicted)
		})
	}),

	httpSucceeds("shutdown/hang"),
	httpSucceeds("shutdown/405"),
	httpSucceeds("shutdown/500"),
	httpSucceeds("shutdown/reset"),
	httpSucceeds("shutdown/endless"),
	httpSucceeds("shutdown/elsewhere"),
	httpSucceeds("shutdown/stalled-redirects"),
	httpUnstartable("shutdown/deaf", "in time").withShortTimeouts(),
	httpSucceeds("shutdown/switching"),
}

// httpSessionReplaced is a row whose server refuses everything in the session after the call.
// The next call fails as the server says, and is not repeated; later ones have a new session.
func httpSessionReplaced(name string, kind error) httpRow {
	return httpRow{name: name}.doing(func(s *httpRun) {
		s.callBadTool()
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
		s.requireError(err, &wantError{kind, mcpvisor.OutcomeAnswered, ""})
		s.waitForSessionEnd()
		s.requireServes(2)
	})
}

// probing makes the client probe the server often.
func (r httpRow) probing() httpRow {
	return r.with("", func(s *mcpvisor.ServerSpec) {
		s.Probe = mcpvisor.Probe{Interval: 10 * time.Millisecond, Timeout: 10 * time.Second, Failures: 2}
	})
}

// httpDies is a row whose server is dead after the call, and is given up.
func httpDies(name string, state supervisor.State) httpRow {
	return httpRow{name: name}.probing().doing(func(s *httpRun) {
		s.callBadTool()
		waitUntil(s.fixture.within(), s.t, "the server is "+string(state), func() bool {
			st, _ := s.c.ServerStatus(hostileServer)
			return st.State == state
		})
	})
}

// httpStaysReady is a row whose server is alive, whatever its pings look like.
func httpStaysReady(name string, epochs uint64) httpRow {
	return httpRow{name: name}.probing().doing(func(s *httpRun) {
		posts := s.server.Requests("POST")
		waitUntil(s.fixture.within(), s.t, "the server was probed", func() bool { return s.server.Requests("POST") > posts+40 })
		res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "still here"}, facade.WithWaitReady())
		require.NoError(s.t, err)
		require.Equal(s.t, "still here", textOf(res))
		require.LessOrEqual(s.t, s.epoch(), epochs)
	})
}

var httpProbeRows = []httpRow{
	httpDies("probe/502", supervisor.StateEvicted),
	httpDies("probe/503-rpc", supervisor.StateEvicted),
	httpDies("probe/504", supervisor.StateEvicted),
	httpDies("probe/500", supervisor.StateEvicted),
	httpDies("probe/html", supervisor.StateEvicted),
	httpDies("probe/login", supervisor.StateEvicted),
	httpDies("probe/empty", supervisor.StateEvicted),
	httpDies("probe/json", supervisor.StateEvicted),
	httpDies("probe/other-id", supervisor.StateEvicted),
	httpDies("probe/heartbeat", supervisor.StateEvicted),
	httpDies("probe/401", supervisor.StateUnauthorized),
	httpDies("probe/403", supervisor.StateUnauthorized),
	httpStaysReady("probe/ping-405", 1),
	httpStaysReady("probe/ping-403", 1),
	httpStaysReady("probe/ping-429", 1),
	httpStaysReady("probe/ping-tires", 2),
}

// callInterrupted calls a server whose connections have just been dropped. The call may
// fail before or after it was sent; its error must say which.
func (s *httpRun) callInterrupted() {
	s.t.Helper()
	began := time.Now()
	res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "hello"})
	s.requireWithin("the call", began, time.Second)
	if err == nil {
		require.Equal(s.t, "hello", textOf(res))
		return
	}
	want := mcpvisor.OutcomeUnknown
	if s.requirePresentable(err).Kind == mcpvisor.ErrUnavailable {
		want = mcpvisor.OutcomeNotSent
	}
	require.True(s.t, isAny(err, mcpvisor.ErrUnavailable, mcpvisor.ErrCrashed, mcpvisor.ErrProtocol), "%v", err)
	require.Equal(s.t, want, s.requirePresentable(err).Outcome, "%v", err)
}
