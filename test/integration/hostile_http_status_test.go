//go:build linux

package integration

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile/hostilehttp"
)

var httpStatusRows = slices.Concat(
	statusRows(httpGarbled, "did not answer", 202, 204, 205),
	statusRows(httpRefused, "", 300, 304, 400, 402, 405, 406, 408, 409, 410, 411, 413, 415, 418, 421, 422, 426, 428, 431, 451,
		500, 501, 505, 507, 511, 599),
	statusRows(wantsCredentials, "", 401, 403, 407),
	statusRows(httpGarbled, "HTTP", 502, 503, 504),
	statusRows(wantsPeace, "", 429),
	[]httpRow{
		httpFine("none"),
		httpRefused("call/status-404", "HTTP 404").in(mcpvisor.EraModern),
		httpLost("call/status-404"),
		wantsCredentials("call/challenge-401", "The token has expired"),
		wantsCredentials("call/scope-403", "HTTP 403"),
		httpRefused("call/html-400", "HTTP 400"),
		httpGarbled("call/html-502", "HTTP 502"),
		httpRefused("call/html-404", "HTTP 404").in(mcpvisor.EraModern),
		// The session is lost by its status; a page does not say what became of the call.
		httpFails("call/html-404", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "forgot the session").renewed().in(mcpvisor.EraLegacy),
		httpSays("call/rpc-400", "that will not do"),
		httpSays("call/rpc-400-null", "that will not do"),
		httpSays("call/rpc-404", "gone fishing"),
		httpSays("call/rpc-500", "something broke"),
		wantsCredentials("call/rpc-401", "who are you?"),
		wantsPeaceFor("call/retry-seconds", 7*time.Second, 7*time.Second),
		wantsPeaceFor("call/retry-date", 50*time.Minute, time.Hour),
		wantsPeaceFor("call/retry-absurd", 24*time.Hour, 24*time.Hour),
		wantsPeaceFor("call/retry-huge", 0, 24*time.Hour),
		wantsPeaceFor("call/retry-negative", 0, 0),
		wantsPeaceFor("call/retry-words", 0, 0),
		httpRefused("call/long-reason", "HTTP 500"),

		httpFine("redirect/same-origin-307"),
		httpFine("redirect/same-origin-308-absolute"),
		httpFine("redirect/to-slash"),
		httpFine("redirect/user-in-url"),
		httpFine("redirect/stalled-body").with("", func(s *mcpvisor.ServerSpec) { s.Timeouts.Call = time.Second }),
		httpRefused("redirect/same-origin-302", "redirects to"),
		httpRefused("redirect/see-other-303", "redirects to"),
		httpRefused("redirect/elsewhere-307", "redirects to"),
		httpRefused("redirect/elsewhere-301", "redirects to"),
		httpRefused("redirect/loop", "redirects to"),
		httpRefused("redirect/file", "redirects to"),
		httpRefused("redirect/websocket", "redirects to"),
		httpRefused("redirect/nowhere", "unreadable location"),
		httpRefused("redirect/garbage", "unreadable location"),

		httpRefused("secret/text", "cannot work with"),
		wantsCredentials("secret/json", "bad token"),
		httpSays("secret/rpc", "you said"),
		httpSays("secret/escaped", "you said"),
		httpRefused("secret/redirect", "redirects to"),
		httpRefused("secret/reason", "HTTP 500"),
		httpGarbled("secret/version", ""),
		httpGarbled("secret/length", ""),
		httpUnstartable("secret/start", "I do not know"),
		httpUnstartable("secret/list", "cannot list for"),
	},
)

// httpSays: the server's own error arrives.
func httpSays(name, text string) httpRow {
	return httpFails(name, mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered, text)
}

// httpLost: a legacy server has forgotten the session before it looked at the call.
func httpLost(name string) httpRow {
	return httpFails(name, mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent, "forgot the session").renewed().in(mcpvisor.EraLegacy)
}

func wantsCredentials(name, text string) httpRow {
	return httpFails(name, mcpvisor.ErrAuthRequired, mcpvisor.OutcomeAnswered, text)
}

func wantsPeace(name, _ string) httpRow {
	return httpFails(name, mcpvisor.ErrUnavailable, mcpvisor.OutcomeAnswered, "")
}

// wantsPeaceFor: the error says when it is worth trying again.
func wantsPeaceFor(name string, least, most time.Duration) httpRow {
	return httpRow{name: name}.acting(func(s *httpRun) {
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
		s.judge(err, &wantError{mcpvisor.ErrUnavailable, mcpvisor.OutcomeAnswered, ""})
		var e *mcpvisor.Error
		require.ErrorAs(s.t, err, &e)
		require.GreaterOrEqual(s.t, e.RetryAfter, least)
		require.LessOrEqual(s.t, e.RetryAfter, most)
		s.serves(1)
	})
}
