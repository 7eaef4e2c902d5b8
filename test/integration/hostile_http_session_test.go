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
	if s.requirePresentable(err).Kind == mcpvisor.KindUnavailable {
		want = mcpvisor.OutcomeNotSent
	}
	require.True(s.t, isAny(err, mcpvisor.ErrUnavailable, mcpvisor.ErrCrashed, mcpvisor.ErrProtocol), "%v", err)
	require.Equal(s.t, want, s.requirePresentable(err).Outcome, "%v", err)
}
