//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

var httpEventRows = []httpRow{
	httpFine("events/plain"),
	httpFine("events/loud-type"),
	httpFine("events/cr"),
	httpFine("events/crlf"),
	httpFine("events/bom"),
	httpFine("events/many-lines"),
	httpFine("events/no-blank-line"),
	httpFine("events/open"),
	httpFine("events/chatty-after"),
	httpOverdue("events/silent"),
	httpGarbled("events/ended", "ended without the answer"),
	httpGarbled("events/cut", "ended without the answer"),
	httpGarbled("events/reset", "broke before the answer"),
	httpOverdue("events/comments"),
	httpFine("events/flood").in(mcpvisor.EraLegacy),
	httpOverdue("events/flood-for-ever"),
	httpOverdue("events/endless-line"),
	httpOverdue("events/endless-event"),
	httpOverdue("events/endless-field"),
	httpRefused("events/100-mb", "longer than 1048576 bytes").within(frugal).in(mcpvisor.EraLegacy),
	httpFine("events/huge-before"),
	httpOverdue("events/gzip-bomb"),
	httpFine("events/unknown-type"),
	httpGarbled("events/only-unknown-type", "ended without the answer"),
	httpFine("events/two-answers"),
	httpFine("events/foreign-first"),
	httpGarbled("events/only-foreign", "ended without the answer"),
	httpFine("events/junk"),
	httpFine("events/odd-fields"),
	httpFine("events/slow"),
	httpRefused("events/status-500", "HTTP 500"),

	httpFine("resume/plain"),
	httpFine("resume/second-try"),
	httpGarbled("resume/405", "could not be resumed: HTTP 405"),
	httpGarbled("resume/400", "could not be resumed: HTTP 400"),
	httpFails("resume/401", mcpvisor.ErrAuthRequired, mcpvisor.OutcomeUnknown, "could not be resumed: HTTP 401"),
	httpFails("resume/404", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "forgot the session").renewed(),
	httpGarbled("resume/html", "could not be resumed"),
	httpGarbled("resume/json", "could not be resumed"),
	httpOverdue("resume/hang"),
	httpOverdue("resume/foreign"),
	httpOverdue("resume/for-ever"),
	httpOverdue("resume/same-event"),
	httpGarbled("resume/elsewhere", "could not be resumed: HTTP 302"),
	httpOverdue("resume/retry-never"),
	httpGarbled("resume/control-id", "ended without the answer"),
	httpGarbled("resume/nul-id", "ended without the answer"),
	httpGarbled("resume/megabyte-id", "ended without the answer"),

	httpFine("answers/accepted"),
	httpFine("answers/500"),
	httpFine("answers/401"),
	httpFine("answers/400"),
	httpFine("answers/html"),
	httpFine("answers/stalled"),
	httpFine("answers/stalled-body"),
	httpFine("answers/reset"),
	httpFine("answers/elsewhere"),
	httpFine("answers/own-id"),
	httpFine("answers/same-id"),
	httpFine("answers/odd-ids"),
	httpFine("answers/broad").with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 }).within(8 * frugal),
	httpFine("answers/odd-notifications"),
	httpFine("answers/cancels-us"),
	httpFine("answers/list-changed-storm"),

	httpFine("stream/404"),
	httpFine("stream/405"),
	httpFine("stream/400"),
	httpFine("stream/401"),
	httpFine("stream/500"),
	httpFine("stream/html"),
	httpFine("stream/no-answer"),
	httpFine("stream/stalled-error"),
	httpFine("stream/switching"),
	httpFine("stream/reset"),
	httpFine("stream/ends").then(fewStreams(10)),
	httpFine("stream/ends-after-event").then(fewStreams(50)),
	httpFine("stream/elsewhere"),
	httpFine("stream/loop"),
	httpFine("stream/flood"),
	httpFine("stream/flood-list-changed"),
	httpFine("stream/flood-answers"),
	httpFine("stream/flood-pings"),
	httpFine("stream/flood-pings-stalled"),
	httpFine("stream/endless-line"),
	httpFine("stream/comments"),
	httpFine("stream/junk"),
	httpFine("stream/never-again").then(fewStreams(1)),
	httpFine("stream/breaks").then(func(s *httpRun) {
		_, err := s.events.wait(s.fixture.within(), is(hostileServer, mcpvisor.EventReady, 2))
		require.NoError(s.t, err, "a session that is lost is found out without a call")
	}).renewed(),
}

// fewStreams: a server whose stream ends is not run over.
func fewStreams(most int) func(*httpRun) {
	return func(s *httpRun) {
		began := time.Now()
		for time.Since(began) < 2*httpSoon {
			s.serves(1)
		}
		if time.Since(began) < 4*httpSoon {
			require.LessOrEqual(s.t, s.server.Requests("GET"), most)
		}
	}
}
