//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile/hostilehttp"
)

// httpShort is the clock of starts that come to nothing.
func httpShort(s *mcpvisor.ServerSpec) {
	s.Timeouts.Start, s.Timeouts.Negotiate = 3*httpSoon, httpSoon
}

// hurried makes the clocks of the row's start short.
func (r httpRow) hurried() httpRow { return r.with("", httpShort) }

// speaking asserts the era that was agreed on.
func (r httpRow) speaking(era mcpvisor.Era) httpRow {
	r.eras = []mcpvisor.Era{mcpvisor.EraAuto}
	return r.then(func(s *httpRun) {
		st, _ := s.c.ServerStatus(hostileServer)
		require.NotNil(s.t, st.Session)
		require.Equal(s.t, era, st.Session.Era)
	})
}

var httpStartRows = []httpRow{
	httpUnstartable("start/html-200", "not an MCP endpoint"),
	httpUnstartable("start/404", "HTTP 404"),
	httpUnstartable("start/405", "HTTP 405").in(mcpvisor.EraAuto, mcpvisor.EraLegacy),
	httpForbidden("start/401", "HTTP 401"),
	httpForbidden("start/403", "HTTP 403"),
	httpUnstartable("start/500", "HTTP 500"),
	httpUnstartable("start/503", "HTTP 503"),
	httpUnstartable("start/empty-200", "did not answer"),
	httpUnstartable("start/202", "did not answer"),
	httpUnstartable("start/no-answer", "in time").hurried(),
	httpUnstartable("start/slow-for-ever", "in time").hurried(),
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
	httpUnstartable("start/version-old", "1999-01-01"),
	httpUnstartable("start/version-number", ""),
	httpUnstartable("start/result-null", ""),
	httpUnstartable("start/result-empty", ""),
	httpUnstartable("start/result-list", ""),
	httpUnstartable("start/capabilities-list", ""),
	httpRow{name: "start/capabilities-null"}.acting(func(s *httpRun) {
		require.Equal(s.t, []string{hostileServer, "near"}, s.c.Servers())
		require.False(s.t, offers(s.c, hostileServer), "what is not declared is not listed")
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
		s.judge(err, &wantError{mcpvisor.ErrUnknownTool, mcpvisor.OutcomeNotSent, ""})
	}),
	httpFine("start/info-missing"),
	httpUnstartable("start/instructions-huge", "longer than 1048576 bytes"),
	httpUnstartable("start/capabilities-broad", "holds more than 10000 values").with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 }),
	httpFine("start/events-open"),
	httpFine("start/answered-twice"),
	httpFine("start/asks-first"),
	httpFine("start/initialized-500"),
	httpForbidden("start/initialized-401", "HTTP 401"),
	httpUnstartable("start/initialized-404", "HTTP 404"),
	httpUnstartable("start/initialized-hang", "in time").hurried(),
	httpFine("start/initialized-result"),

	httpFine("version/discover-400").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-rpc-400").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-session-400").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-404").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-405").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-500").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-html").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-202").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-hang").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-stalled").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-reset").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-switching").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-endless").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-null").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-initialize").speaking(mcpvisor.EraLegacy),
	httpFine("version/discover-old").speaking(mcpvisor.EraLegacy),
	httpUnstartable("version/discover-404", "").in(mcpvisor.EraModern),
	httpUnstartable("version/discover-hang", "in time").in(mcpvisor.EraModern).hurried(),
	httpUnstartable("version/discover-old", "").in(mcpvisor.EraModern),
	httpUnstartable("version/future", "2099-01-01").in(mcpvisor.EraAuto, mcpvisor.EraLegacy),
	httpUnstartable("version/future", "").in(mcpvisor.EraModern),
	httpUnstartable("version/discover-busy", "still starting up").in(mcpvisor.EraModern),
	httpRow{name: "version/discover-busy"}.with("supervised", httpSupervised).in(mcpvisor.EraModern).acting(httpRecovers),
	httpFine("version/discover-busy").speaking(mcpvisor.EraLegacy),
	httpFine("none").speaking(mcpvisor.EraModern),
	httpSays("version/flips", "Unsupported protocol version").in(mcpvisor.EraModern),
	httpSays("version/header-mismatch", "Header mismatch").in(mcpvisor.EraModern),
	httpFine("version/session-anyway").in(mcpvisor.EraModern),
	httpFine("version/no-result-type").in(mcpvisor.EraModern).saying("fine"),
	httpFails("version/unknown-result-type", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").in(mcpvisor.EraModern),
}

// httpForbidden: Register fails for want of credentials.
func httpForbidden(name, says string) httpRow {
	return httpRow{name: name, start: &wantError{mcpvisor.ErrAuthRequired, "", says}}
}

var httpListRows = []httpRow{
	httpUnstartable("list/stalled-page", "").with("", func(s *mcpvisor.ServerSpec) { s.Timeouts.List = httpSoon }),
	httpUnstartable("list/once-500", "HTTP 500"),
	httpUnstartable("list/once-html-502", "HTTP 502"),
	httpRow{name: "list/once-500"}.with("supervised", httpSupervised).acting(httpRecovers),
	httpRow{name: "list/once-html-502"}.with("supervised", httpSupervised).acting(httpRecovers),
	httpRow{name: "list/stalled-page"}.with("supervised", func(s *mcpvisor.ServerSpec) {
		httpSupervised(s)
		s.Timeouts.List = httpSoon
	}).acting(httpGivenUp),
	httpUnstartable("list/500", "HTTP 500"),
	httpForbidden("list/401", "HTTP 401"),
	httpUnstartable("list/html", "web page"),
	httpUnstartable("list/202", "did not answer"),
	httpFine("list/endless").then(httpWarned("pages")),
	httpFine("list/same-cursor").then(httpWarned("repeats its cursor")),
	httpFine("list/cursor-number").then(httpWarned("cursor")),
	httpRow{name: "list/null"}.acting(func(s *httpRun) { require.False(s.t, offers(s.c, hostileServer)) }),
	httpFine("list/bad-entries").then(httpWarned("left out")),
	httpUnstartable("list/second-page-500", "HTTP 500"),
	httpUnstartable("list/cut", "broke"),
}

func httpSupervised(s *mcpvisor.ServerSpec) { s.StartSupervised = true }

// httpRecovers: the policy restarts the server.
func httpRecovers(s *httpRun) {
	require.NoError(s.t, s.c.WaitReady(s.fixture.within(), hostileServer))
	s.serves(2)
}

// httpGivenUp: the policy tries as often as it says, and then no more.
func httpGivenUp(s *httpRun) {
	began := time.Now()
	require.ErrorIs(s.t, s.c.WaitReady(s.fixture.within(), hostileServer), mcpvisor.ErrEvicted)
	s.inTime("giving up", began, 4*s.spec.Timeouts.List)
	_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
	s.judge(err, &wantError{mcpvisor.ErrEvicted, mcpvisor.OutcomeNotSent, ""})
	require.EqualValues(s.t, 4, s.epoch(), "one try and three more")
}

// httpWarned: the status says what was left out.
func httpWarned(says string) func(*httpRun) {
	return func(s *httpRun) {
		st, _ := s.c.ServerStatus(hostileServer)
		require.Equal(s.t, "ready", string(st.State))
		require.NotEmpty(s.t, st.Catalog.Warnings)
		require.Contains(s.t, st.Catalog.Warnings[0].Text, says)
	}
}
