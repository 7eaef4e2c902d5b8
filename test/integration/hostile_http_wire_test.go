//go:build linux

package integration

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile/hostilehttp"
)

var httpWireRows = []httpRow{
	httpGarbled("wire/close", "broke before the answer"),
	httpGarbled("wire/reset", "broke before the answer"),
	httpGarbled("wire/reset-in-body", "in the middle of the answer"),
	httpGarbled("wire/half-closed", "broke before the answer"),
	httpGarbled("wire/half-answer", "in the middle of the answer"),
	httpFine("wire/close-after").acting(closesAfterEach),
	httpFine("wire/close-all"),
	httpGarbled("wire/no-http", "broke before the answer"),
	httpGarbled("wire/http-0.9", "broke before the answer"),
	httpFine("wire/http-1.0"),
	httpGarbled("wire/http-2", "broke before the answer"),
	httpGarbled("wire/http-9", ""),
	httpGarbled("wire/tls", "broke before the answer"),
	httpFine("wire/no-reason"),
	httpGarbled("wire/no-status", "broke before the answer"),
	httpRefused("wire/status-0", "HTTP 0"),
	httpRefused("wire/status-999", "HTTP 999"),
	httpOverdue("wire/trickle"),
	httpGarbled("wire/garbage-for-ever", "").within(frugal),
	httpGarbled("wire/length-too-long", "in the middle of the answer"),
	httpOverdue("wire/length-too-long-open"),
	httpGarbled("wire/length-too-short", "not valid JSON"),
	httpFine("wire/length-too-short-whole"),
	httpGarbled("wire/two-lengths", "broke before the answer"),
	httpGarbled("wire/length-negative", "broke before the answer"),
	httpFine("wire/length-and-chunks"),
	httpGarbled("wire/chunks-cut", "in the middle of the answer"),
	httpFine("wire/chunks-unended"), // the answer is whole
	httpGarbled("wire/chunks-bad", "in the middle of the answer"),
	httpGarbled("wire/chunk-size-huge", "in the middle of the answer"),
	httpGarbled("wire/chunk-extensions", "in the middle of the answer").within(frugal),
	httpFine("wire/trailer-flood").within(frugal), // the answer is whole before it

	httpGarbled("head/10-mb", "broke before the answer").within(frugal),
	httpFine("head/flood"),
	httpGarbled("head/endless", "broke before the answer").within(frugal),
	httpGarbled("head/no-colon", "broke before the answer"),
	httpGarbled("head/nul", "broke before the answer"),
	httpFine("head/folded"),
	httpFine("head/hints"),
	httpGarbled("head/hint-flood", "broke before the answer").within(frugal),
	httpFine("head/continue"),
	httpRefused("head/switching", "HTTP 101"),
	httpFine("head/cookies").then(func(s *httpRun) { s.misbehave() }),
}

// closesAfterEach calls a server that closes connections which it has promised
// to keep. The client cannot tell whether a call that meets the end of a connection was
// received; but no call is sent twice, and the session is kept.
func closesAfterEach(s *httpRun) {
	before := s.server.Requests("POST")
	const calls = 40
	failed := 0
	for i := range calls {
		text := fmt.Sprint(i)
		res, err := s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, map[string]any{"text": text})
		if err == nil {
			require.Equal(s.t, text, textOf(res))
			continue
		}
		failed++
		s.judge(err, &wantError{mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, ""})
	}
	// Each failure asks once whether the server still lives.
	require.LessOrEqual(s.t, s.server.Requests("POST")-before, calls+failed, "a call was sent twice")
	require.Less(s.t, failed, calls, "not one call came through")
	// The last connection may be as dead as the others, and no more than that.
	_, _ = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
	s.serves(1)
}
