//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

// shortHTTPTimeouts sets the timeouts of starts that never succeed.
func shortHTTPTimeouts(s *mcpvisor.ServerSpec) {
	s.Timeouts.Start, s.Timeouts.Negotiate = 3*httpShortTimeout, httpShortTimeout
}

// withShortTimeouts sets short timeouts for the start of the row.
func (r httpRow) withShortTimeouts() httpRow { return r.with("", shortHTTPTimeouts) }

// negotiating requires that the automatic negotiation ends with this era.
func (r httpRow) negotiating(era mcpvisor.Era) httpRow {
	r.eras = []mcpvisor.Era{mcpvisor.EraAuto}
	return r.checking(func(s *httpRun) {
		st, _ := s.c.ServerStatus(hostileServer)
		require.NotNil(s.t, st.Session)
		require.Equal(s.t, era, st.Session.Era)
	})
}

var httpStartRows = []httpRow{
	httpUnstartable("start/html-200", "not an MCP endpoint"),
	httpUnstartable("start/404", "HTTP 404"),
	httpUnstartable("start/405", "HTTP 405").in(mcpvisor.EraAuto, mcpvisor.EraLegacy),
	httpStartUnauthorized("start/401", "HTTP 401"),
	httpStartUnauthorized("start/403", "HTTP 403"),
	httpUnstartable("start/500", "HTTP 500"),
	httpUnstartable("start/503", "HTTP 503"),
	httpUnstartable("start/empty-200", "did not answer"),
	httpUnstartable("start/202", "did not answer"),
	httpUnstartable("start/no-answer", "in time").withShortTimeouts(),
	httpUnstartable("start/slow-for-ever", "in time").withShortTimeouts(),
	httpUnstartable("start/no-http", "broke before the answer"),
	httpUnstartable("start/tls", "broke before the answer"),
	httpUnstartable("start/tls-plain", "HTTPS server"),
	httpUnstartable("start/close", "broke before the answer"),
	httpUnstartable("start/reset", "broke before the answer"),
	httpUnstartable("start/switching", "HTTP 101"),
	httpUnstartable("start/elsewhere", "redirects to"),
	httpUnstartable("start/loop", "redirects to"),
	httpUnstartable("start/login", "redirects to"),
	httpUnstartable("start/endless", "longer than 1048576 bytes"),
	httpUnstartable("start/headers-10-mb", "broke before the answer"),

	httpUnstartable("start/refused", "not today"),
	httpUnstartable("start/error-data", "much"),
	httpUnstartable("start/version-old", "1999-01-01"),
	httpUnstartable("start/version-number", ""),
	httpUnstartable("start/result-null", ""),
	httpUnstartable("start/result-empty", ""),
	httpUnstartable("start/result-list", ""),
	httpUnstartable("start/capabilities-list", ""),
	httpRow{name: "start/capabilities-null"}.doing(func(s *httpRun) {
		require.Equal(s.t, []string{hostileServer, "near"}, s.c.Servers())
		require.False(s.t, listsTools(s.c, hostileServer), "tools that are not declared are not listed")
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
		s.requireError(err, &wantError{mcpvisor.ErrUnknownTool, mcpvisor.OutcomeNotSent, ""})
	}),
	httpSucceeds("start/info-missing"),
	httpUnstartable("start/instructions-huge", "longer than 1048576 bytes"),
	httpUnstartable("start/capabilities-broad", "holds more than 10000 values").with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes, s.Timeouts.Start = 0, 30*time.Second }),
	httpSucceeds("start/events-open"),
	httpSucceeds("start/answered-twice"),
	httpSucceeds("start/asks-first"),
	httpSucceeds("start/initialized-500"),
	httpStartUnauthorized("start/initialized-401", "HTTP 401"),
	httpUnstartable("start/initialized-404", "HTTP 404"),
	httpUnstartable("start/initialized-hang", "in time").withShortTimeouts(),
	httpSucceeds("start/initialized-result"),

	httpSucceeds("version/discover-400").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-rpc-400").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-session-400").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-404").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-405").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-500").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-html").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-202").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-hang").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-stalled").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-reset").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-switching").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-endless").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-null").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-initialize").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("version/discover-old").negotiating(mcpvisor.EraLegacy),
	httpUnstartable("version/discover-404", "").in(mcpvisor.EraModern),
	httpUnstartable("version/discover-hang", "in time").in(mcpvisor.EraModern).withShortTimeouts(),
	httpUnstartable("version/discover-old", "").in(mcpvisor.EraModern),
	httpUnstartable("version/future", "2099-01-01").in(mcpvisor.EraAuto, mcpvisor.EraLegacy),
	httpUnstartable("version/future", "").in(mcpvisor.EraModern),
	httpUnstartable("version/discover-busy", "still starting up").in(mcpvisor.EraModern),
	httpRow{name: "version/discover-busy"}.with("supervised", httpSupervised).in(mcpvisor.EraModern).doing(httpStartsAtSecondAttempt),
	httpSucceeds("version/discover-busy").negotiating(mcpvisor.EraLegacy),
	httpSucceeds("none").negotiating(mcpvisor.EraModern),
	httpRPCError("version/flips", "Unsupported protocol version").in(mcpvisor.EraModern),
	httpRPCError("version/header-mismatch", "Header mismatch").in(mcpvisor.EraModern),
	httpSucceeds("version/session-anyway").in(mcpvisor.EraModern),
	httpSucceeds("version/no-result-type").in(mcpvisor.EraModern).returning("fine"),
	httpFails("version/unknown-result-type", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").in(mcpvisor.EraModern),
}

var httpListenRows = []httpRow{
	httpSucceeds("listen/ack-of-more").in(mcpvisor.EraModern).checking(func(s *httpRun) {
		for range 10 { // the streams are opened several times meanwhile
			pause(s.fixture.within(), 100*time.Millisecond)
			s.requireServes(1)
		}
		requireUpdatesOf(s.t, s.c, resourceURI)
	}),
	httpSucceeds("listen/no-ack").in(mcpvisor.EraModern).with("", littleTimeToList),
	httpSucceeds("listen/no-header").in(mcpvisor.EraModern).with("", littleTimeToList),
}

// httpStartUnauthorized is a row in which Register fails with ErrAuthRequired.
func httpStartUnauthorized(name, says string) httpRow {
	return httpRow{name: name, start: &wantError{mcpvisor.ErrAuthRequired, "", says}}
}

var httpListRows = []httpRow{
	httpUnstartable("list/stalled-page", "").with("", func(s *mcpvisor.ServerSpec) { s.Timeouts.List = httpShortTimeout }),
	httpUnstartable("list/once-500", "HTTP 500"),
	httpUnstartable("list/once-html-502", "HTTP 502"),
	httpRow{name: "list/once-500"}.with("supervised", httpSupervised).doing(httpStartsAtSecondAttempt),
	httpRow{name: "list/once-html-502"}.with("supervised", httpSupervised).doing(httpStartsAtSecondAttempt),
	httpRow{name: "list/stalled-page"}.with("supervised", func(s *mcpvisor.ServerSpec) {
		httpSupervised(s)
		s.Timeouts.List = httpShortTimeout
	}).doing(httpEvicted),
	httpUnstartable("list/500", "HTTP 500"),
	httpStartUnauthorized("list/401", "HTTP 401"),
	httpUnstartable("list/html", "web page"),
	httpUnstartable("list/202", "did not answer"),
	httpSucceeds("list/endless").checking(httpWarns("pages")),
	httpSucceeds("list/same-cursor").checking(httpWarns("repeats its cursor")),
	httpSucceeds("list/cursor-number").checking(httpWarns("cursor")),
	httpRow{name: "list/null"}.doing(func(s *httpRun) { require.False(s.t, listsTools(s.c, hostileServer)) }),
	httpSucceeds("list/bad-entries").checking(httpWarns("left out")),
	httpSucceeds("list/header-marks").in(mcpvisor.EraModern).checking(httpWarns("marks more than 64 arguments")),
	httpSucceeds("list/header-marks").in(mcpvisor.EraLegacy),
	httpUnstartable("list/second-page-500", "HTTP 500"),
	httpUnstartable("list/cut", "broke"),
}

func httpSupervised(s *mcpvisor.ServerSpec) { s.StartSupervised = true }

// httpStartsAtSecondAttempt requires that the restart policy starts the server at its
// second attempt.
func httpStartsAtSecondAttempt(s *httpRun) {
	require.NoError(s.t, s.c.WaitReady(s.fixture.within(), hostileServer))
	s.requireServes(2)
}

// httpEvicted requires that the server is evicted when its restart budget is spent.
func httpEvicted(s *httpRun) {
	began := time.Now()
	require.ErrorIs(s.t, s.c.WaitReady(s.fixture.within(), hostileServer), mcpvisor.ErrEvicted)
	s.requireWithin("giving up", began, 4*s.spec.Timeouts.List)
	_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
	s.requireError(err, &wantError{mcpvisor.ErrEvicted, mcpvisor.OutcomeNotSent, ""})
	require.EqualValues(s.t, 4, s.epoch(), "the first start and three retries")
}

// httpWarns returns a check that the status has a warning with this text.
func httpWarns(says string) func(*httpRun) {
	return func(s *httpRun) {
		st, _ := s.c.ServerStatus(hostileServer)
		require.Equal(s.t, "ready", string(st.State))
		require.NotEmpty(s.t, st.Catalog.Warnings)
		require.Contains(s.t, st.Catalog.Warnings[0].Text, says)
	}
}
