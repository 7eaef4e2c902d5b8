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

// overSSE declares in the specification that the server speaks HTTP+SSE.
func overSSE(s *mcpvisor.ServerSpec) { s.HTTP.SSE = true }

// declared declares the transport in the specification, so that the client does not
// detect it.
func (r httpRow) declared() httpRow { return r.with("declared", overSSE) }

// declaredShort is declared with a short start timeout.
func (r httpRow) declaredShort() httpRow {
	return r.with("declared", func(s *mcpvisor.ServerSpec) {
		overSSE(s)
		s.Timeouts.Start = time.Second
	})
}

// sseRefused is a row in which the client does not find the older transport either, so
// that the error of initialize is returned.
func sseRefused(name string) httpRow { return httpUnstartable(name, "HTTP 405") }

// onStatus adds a check of the server's status after the call.
func (r httpRow) onStatus(look func(*httpRun, mcpvisor.ServerStatus)) httpRow {
	return r.checking(func(s *httpRun) {
		st, ok := s.c.ServerStatus(hostileServer)
		require.True(s.t, ok)
		look(s, st)
	})
}

// thenRestarted makes the call, which times out, and restarts the server, whose stream
// has become unusable.
func (r httpRow) thenRestarted() httpRow {
	return r.doing(func(s *httpRun) {
		s.callBadTool()
		s.server.Restart()
		s.waitForSessionEnd()
		s.requireServes(2)
	})
}

// waitForSessionEnd waits until the client has noticed the end of the first session.
func (s *httpRun) waitForSessionEnd() {
	waitUntil(s.fixture.within(), s.t, "the end of the stream is noticed", func() bool {
		st, _ := s.c.ServerStatus(hostileServer)
		return st.Epoch == 2 || len(st.History) == 1
	})
}

var sseRows = []httpRow{
	httpSucceeds("sse/none").in(mcpvisor.EraLegacy, mcpvisor.EraAuto).onStatus(func(s *httpRun, st mcpvisor.ServerStatus) {
		require.Contains(s.t, st.Session.Deprecated, "HTTP+SSE")
		require.Equal(s.t, mcpvisor.EraLegacy, st.Session.Era)
	}),
	httpSucceeds("sse/none").declared().checking(func(s *httpRun) {
		require.Equal(s.t, 1, s.server.Requests("GET"))
	}),
	httpRow{name: "sse/none"}.with("killed", overSSE).doing(func(s *httpRun) {
		s.callBadTool()
		s.server.Stop()
		waitUntil(s.fixture.within(), s.t, "the end of the stream is noticed", func() bool {
			st, _ := s.c.ServerStatus(hostileServer)
			return st.State != supervisor.StateReady && len(s.c.Tools()) == 2
		})
		s.server.Restart()
		res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "again"}, facade.WithWaitReady())
		require.NoError(s.t, err)
		require.Equal(s.t, "again", textOf(res))
	}),

	sseRefused("sse/no-endpoint"),
	httpUnstartable("sse/no-endpoint", "did not name its endpoint").declaredShort(),
	sseRefused("sse/no-endpoint-ends"),
	httpUnstartable("sse/no-endpoint-ends", "without naming an endpoint").declared(),
	sseRefused("sse/no-answer"),
	httpUnstartable("sse/no-answer", "did not name its endpoint").declaredShort(),
	sseRefused("sse/html"),
	httpUnstartable("sse/html", "without an event stream").declared(),
	sseRefused("sse/redirect"),
	httpUnstartable("sse/redirect", "redirects to").declared(),
	sseRefused("sse/head-endless"),
	httpUnstartable("sse/head-endless", "headers exceeded").declared(),
	sseRefused("sse/message-first"),
	httpSucceeds("sse/message-first").declared(),
	httpUnstartable("sse/endpoint-elsewhere", "another origin"),
	httpUnstartable("sse/endpoint-elsewhere", "another origin").declared(),
	httpUnstartable("sse/endpoint-protocol", "another origin"),
	httpUnstartable("sse/endpoint-secret", "another origin"),
	httpUnstartable("sse/endpoint-inner", "messages_url").declared(),
	httpSucceeds("sse/endpoint-user"),
	httpUnstartable("sse/endpoint-megabyte", "longer than 8192 bytes"),
	sseRefused("sse/endpoint-endless"),
	httpUnstartable("sse/endpoint-endless", "2097152 bytes").declared(),
	sseRefused("sse/endpoint-slow"),
	httpUnstartable("sse/endpoint-slow", "did not name its endpoint").declaredShort(),
	httpSucceeds("sse/endpoint-twice"),
	httpUnstartable("sse/endpoint-dead", "HTTP 405"),
	// Either the end of the stream is noticed first, or a POST that finds no session.
	httpUnstartable("sse/closes-always", "the server "),

	httpRefused("sse/post-400", "not like this"),
	httpFails("sse/post-lost", mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent, "forgot the session").replacing(),
	httpRefused("sse/post-500", "HTTP 500"),
	httpFails("sse/post-503", mcpvisor.ErrUnavailable, mcpvisor.OutcomeAnswered, "HTTP 503"),
	httpRefused("sse/post-html", "web page"),
	httpRefused("sse/post-elsewhere", "redirects to"),
	httpUnreadable("sse/post-reset", "broke before the answer came"),
	httpSucceeds("sse/post-never"),
	httpSucceeds("sse/post-endless").allocating(maxAllocation),
	httpSucceeds("sse/answer-in-post"),
	httpSucceeds("sse/answer-in-both"),
	httpSucceeds("sse/answer-first"),

	httpTimesOut("sse/never"),
	httpFails("sse/ends", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "event stream").replacing(),
	httpRow{name: "sse/ends-after"}.doing(func(s *httpRun) {
		s.callBadTool()
		s.waitForSessionEnd()
		s.requireServes(2)
	}),
	httpFails("sse/half-event", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "event stream").replacing(),
	httpRow{name: "sse/no-blank-line"}.doing(func(s *httpRun) {
		s.callBadTool()
		s.waitForSessionEnd()
		s.requireServes(2)
	}),
	httpFails("sse/reset", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "event stream").replacing(),
	httpRefused("sse/oversize", "longer than 1048576 bytes").allocating(maxAllocation),
	httpSucceeds("sse/junk").onStatus(func(s *httpRun, st mcpvisor.ServerStatus) {
		require.GreaterOrEqual(s.t, st.Session.Discarded.Malformed, uint64(4))
	}),
	httpTimesOut("sse/wrong-id").onStatus(func(s *httpRun, st mcpvisor.ServerStatus) {
		require.Equal(s.t, mcpvisor.Discarded{Unmatched: 2}, st.Session.Discarded)
	}),
	httpSucceeds("sse/twice"),
	httpSucceeds("sse/flood"),
	httpSucceeds("sse/slow"),
	httpTimesOut("sse/trickle").thenRestarted(),
	httpTimesOut("sse/endless").allocating(maxAllocation).thenRestarted(),
	httpFails("sse/error-no-id", mcpvisor.ErrRPC, mcpvisor.OutcomeUnknown, "parse error"),
	httpSucceeds("sse/crlf"),

	// Each session ends with its first answer, so the restart budget is spent.
	httpRow{name: "sse/ends-after"}.with("every_call", overSSE).doing(func(s *httpRun) {
		var err error
		for range 8 {
			if _, err = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, map[string]any{"text": "hello"}, facade.WithWaitReady()); errors.Is(err, mcpvisor.ErrEvicted) {
				break
			}
		}
		require.ErrorIs(s.t, err, mcpvisor.ErrEvicted)
	}),
}
