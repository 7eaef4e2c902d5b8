//go:build linux

package integration

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

var httpStatusRows = slices.Concat(
	statusRows(httpUnreadable, "did not answer", 202, 204, 205),
	statusRows(httpRefused, "", 300, 304, 400, 402, 405, 406, 408, 409, 410, 411, 413, 415, 418, 421, 422, 426, 428, 431, 451,
		500, 501, 505, 507, 511, 599),
	statusRows(httpAuthRequired, "", 401, 403, 407),
	statusRows(httpUnreadable, "HTTP", 502, 503, 504),
	statusRows(httpUnavailable, "", 429),
	[]httpRow{
		httpSucceeds("none"),
		httpRefused("call/status-404", "HTTP 404").in(mcpvisor.EraModern),
		httpSessionLost("call/status-404"),
		httpAuthRequired("call/challenge-401", "The token has expired"),
		httpAuthRequired("call/scope-403", "HTTP 403"),
		httpRefused("call/html-400", "HTTP 400"),
		httpUnreadable("call/html-502", "HTTP 502"),
		httpRefused("call/html-404", "HTTP 404").in(mcpvisor.EraModern),
		// The status 404 ends the session. An HTML page does not say whether the call
		// ran.
		httpFails("call/html-404", mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "forgot the session").replacing().in(mcpvisor.EraLegacy),
		httpRPCError("call/rpc-400", "that will not do"),
		httpRPCError("call/rpc-400-null", "that will not do"),
		httpRPCError("call/rpc-404", "gone fishing"),
		httpRPCError("call/rpc-500", "something broke"),
		httpAuthRequired("call/rpc-401", "who are you?"),
		httpRetryAfter("call/retry-seconds", 7*time.Second, 7*time.Second),
		httpRetryAfter("call/retry-date", 50*time.Minute, time.Hour),
		httpRetryAfter("call/retry-absurd", 24*time.Hour, 24*time.Hour),
		httpRetryAfter("call/retry-huge", 0, 24*time.Hour),
		httpRetryAfter("call/retry-negative", 0, 0),
		httpRetryAfter("call/retry-words", 0, 0),
		httpRefused("call/long-reason", "HTTP 500"),

		httpSucceeds("redirect/same-origin-307"),
		httpSucceeds("redirect/same-origin-308-absolute"),
		httpSucceeds("redirect/to-slash"),
		httpSucceeds("redirect/user-in-url"),
		httpSucceeds("redirect/stalled-body").with("", func(s *mcpvisor.ServerSpec) { s.Timeouts.Call = time.Second }),
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
		httpAuthRequired("secret/json", "bad token"),
		httpRPCError("secret/rpc", "you said"),
		httpRPCError("secret/escaped", "you said"),
		httpRefused("secret/redirect", "redirects to"),
		httpRefused("secret/reason", "HTTP 500"),
		httpUnreadable("secret/version", ""),
		httpUnreadable("secret/length", ""),
		httpUnstartable("secret/start", "I do not know"),
		httpUnstartable("secret/list", "cannot list for"),
	},
)

// httpRPCError is a row whose call fails with the JSON-RPC error of the server.
func httpRPCError(name, text string) httpRow {
	return httpFails(name, mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered, text)
}

// httpSessionLost is a row of the initialize era in which the server rejects the call
// because it has forgotten the session; so the call did not run.
func httpSessionLost(name string) httpRow {
	return httpFails(name, mcpvisor.ErrUnavailable, mcpvisor.OutcomeNotSent, "forgot the session").replacing().in(mcpvisor.EraLegacy)
}

func httpAuthRequired(name, text string) httpRow {
	return httpFails(name, mcpvisor.ErrAuthRequired, mcpvisor.OutcomeAnswered, text)
}

func httpUnavailable(name, _ string) httpRow {
	return httpFails(name, mcpvisor.ErrUnavailable, mcpvisor.OutcomeAnswered, "")
}

// httpRetryAfter is a row whose error has a RetryAfter between two bounds.
func httpRetryAfter(name string, least, most time.Duration) httpRow {
	return httpRow{name: name}.doing(func(s *httpRun) {
		_, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
		s.requireError(err, &wantError{mcpvisor.ErrUnavailable, mcpvisor.OutcomeAnswered, ""})
		var e *mcpvisor.Error
		require.ErrorAs(s.t, err, &e)
		require.GreaterOrEqual(s.t, e.RetryAfter, least)
		require.LessOrEqual(s.t, e.RetryAfter, most)
		s.requireServes(1)
	})
}
