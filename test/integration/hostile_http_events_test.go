//go:build linux

package integration

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

var httpEventRows = []httpRow{
	httpSucceeds("events/plain"),
	httpSucceeds("events/loud-type"),
	httpSucceeds("events/cr"),
	httpSucceeds("events/crlf"),
	httpSucceeds("events/bom"),
	httpSucceeds("events/many-lines"),
	httpSucceeds("events/no-blank-line"),
	httpSucceeds("events/open"),
	httpSucceeds("events/chatty-after"),
	httpTimesOut("events/silent"),
	httpUnreadable("events/ended", "ended without the answer"),
	httpUnreadable("events/cut", "ended without the answer"),
	httpUnreadable("events/reset", "broke before the answer"),
	httpTimesOut("events/comments"),
	httpSucceeds("events/flood").in(mcpvisor.EraLegacy),
	httpTimesOut("events/flood-for-ever"),
	httpTimesOut("events/endless-line"),
	httpTimesOut("events/endless-event"),
	httpTimesOut("events/endless-field"),
	httpRefused("events/100-mb", "longer than 1048576 bytes").allocating(maxAllocation).in(mcpvisor.EraLegacy),
	httpSucceeds("events/huge-before"),
	httpTimesOut("events/gzip-bomb"),
	httpSucceeds("events/unknown-type"),
	httpUnreadable("events/only-unknown-type", "ended without the answer"),
	httpSucceeds("events/two-answers"),
	httpSucceeds("events/foreign-first"),
	httpUnreadable("events/only-foreign", "ended without the answer"),
	httpSucceeds("events/junk"),
	httpSucceeds("events/odd-fields"),
	httpSucceeds("events/slow"),
	httpRefused("events/status-500", "HTTP 500"),

	httpSucceeds("resume/plain"),
	httpSucceeds("resume/second-try"),
	httpUnreadable("resume/405", "could not be resumed: HTTP 405"),
	httpUnreadable("resume/400", "could not be resumed: HTTP 400"),
	httpFails("resume/401", mcpvisor.ErrAuthRequired, mcpvisor.OutcomeUnknown, "could not be resumed: HTTP 401"),
	httpFails("resume/404", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "forgot the session").replacing(),
	httpUnreadable("resume/html", "could not be resumed"),
	httpUnreadable("resume/json", "could not be resumed"),
	httpTimesOut("resume/hang"),
	httpTimesOut("resume/foreign"),
	httpTimesOut("resume/for-ever"),
	httpTimesOut("resume/same-event"),
	httpUnreadable("resume/elsewhere", "could not be resumed: HTTP 302"),
	httpTimesOut("resume/retry-never"),
	httpUnreadable("resume/control-id", "ended without the answer"),
	httpUnreadable("resume/nul-id", "ended without the answer"),
	httpUnreadable("resume/megabyte-id", "ended without the answer"),

	httpSucceeds("answers/accepted"),
	httpSucceeds("answers/500"),
	httpSucceeds("answers/401"),
	httpSucceeds("answers/400"),
	httpSucceeds("answers/html"),
	httpSucceeds("answers/stalled"),
	httpSucceeds("answers/stalled-body"),
	httpSucceeds("answers/reset"),
	httpSucceeds("answers/elsewhere"),
	httpSucceeds("answers/own-id"),
	httpSucceeds("answers/same-id"),
	httpSucceeds("answers/odd-ids"),
	httpSucceeds("answers/broad").with("", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 }).allocating(8 * maxAllocation),
	httpSucceeds("answers/odd-notifications"),
	httpSucceeds("answers/cancels-us"),
	httpSucceeds("answers/list-changed-storm"),

	httpSucceeds("stream/404"),
	httpSucceeds("stream/405"),
	httpSucceeds("stream/400"),
	httpSucceeds("stream/401"),
	httpSucceeds("stream/500"),
	httpSucceeds("stream/html"),
	httpSucceeds("stream/no-answer"),
	httpSucceeds("stream/stalled-error"),
	httpSucceeds("stream/switching"),
	httpSucceeds("stream/reset"),
	httpSucceeds("stream/ends").checking(maxStreams(10)),
	httpSucceeds("stream/ends-after-event").checking(maxStreams(50)),
	httpSucceeds("stream/ends-after-id").checking(maxStreams(10)),
	httpSucceeds("stream/elsewhere"),
	httpSucceeds("stream/loop"),
	httpSucceeds("stream/flood"),
	httpSucceeds("stream/flood-list-changed"),
	httpSucceeds("stream/flood-answers"),
	httpSucceeds("stream/flood-pings"),
	httpSucceeds("stream/flood-pings-stalled"),
	httpSucceeds("stream/endless-line"),
	httpSucceeds("stream/comments"),
	httpSucceeds("stream/junk"),
	httpSucceeds("stream/never-again").checking(maxStreams(1)),
	httpSucceeds("stream/breaks").checking(func(s *httpRun) {
		_, err := s.events.wait(s.fixture.within(), eventIs(hostileServer, mcpvisor.EventReady, 2))
		require.NoError(s.t, err, "a lost session is noticed without a call")
	}).replacing(),
}

// maxStreams returns a check that the client opens at most that many standalone streams
// while it calls the server: it must not reconnect without a delay.
func maxStreams(most int) func(*httpRun) {
	return func(s *httpRun) {
		began := time.Now()
		for time.Since(began) < 2*httpShortTimeout {
			s.requireServes(1)
		}
		if time.Since(began) < 4*httpShortTimeout {
			require.LessOrEqual(s.t, s.server.Requests("GET"), most)
		}
	}
}
