//go:build linux

package integration

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

var httpWireRows = []httpRow{
	httpUnreadable("wire/close", "broke before the answer"),
	httpUnreadable("wire/reset", "broke before the answer"),
	httpUnreadable("wire/reset-in-body", "in the middle of the answer"),
	httpUnreadable("wire/half-closed", "broke before the answer"),
	httpUnreadable("wire/half-answer", "in the middle of the answer"),
	httpSucceeds("wire/close-after").doing(callClosingServer),
	httpSucceeds("wire/close-all"),
	httpUnreadable("wire/no-http", "broke before the answer"),
	httpUnreadable("wire/http-0.9", "broke before the answer"),
	httpSucceeds("wire/http-1.0"),
	httpUnreadable("wire/http-2", "broke before the answer"),
	httpUnreadable("wire/http-9", ""),
	httpUnreadable("wire/tls", "broke before the answer"),
	httpSucceeds("wire/no-reason"),
	httpUnreadable("wire/no-status", "broke before the answer"),
	httpRefused("wire/status-0", "HTTP 0"),
	httpRefused("wire/status-999", "HTTP 999"),
	httpTimesOut("wire/trickle"),
	httpUnreadable("wire/garbage-for-ever", "").allocating(maxAllocation),
	httpUnreadable("wire/length-too-long", "in the middle of the answer"),
	httpTimesOut("wire/length-too-long-open"),
	httpUnreadable("wire/length-too-short", "not valid JSON"),
	httpSucceeds("wire/length-too-short-whole"),
	httpUnreadable("wire/two-lengths", "broke before the answer"),
	httpUnreadable("wire/length-negative", "broke before the answer"),
	httpSucceeds("wire/length-and-chunks"),
	httpUnreadable("wire/chunks-cut", "in the middle of the answer"),
	httpSucceeds("wire/chunks-unended"), // the answer is complete
	httpUnreadable("wire/chunks-bad", "in the middle of the answer"),
	httpUnreadable("wire/chunk-size-huge", "in the middle of the answer"),
	httpUnreadable("wire/chunk-extensions", "in the middle of the answer").allocating(maxAllocation),
	httpSucceeds("wire/trailer-flood").allocating(maxAllocation), // the answer is complete before the trailer

	httpUnreadable("head/10-mb", "broke before the answer").allocating(maxAllocation),
	httpSucceeds("head/flood"),
	httpUnreadable("head/endless", "broke before the answer").allocating(maxAllocation),
	httpUnreadable("head/no-colon", "broke before the answer"),
	httpUnreadable("head/nul", "broke before the answer"),
	httpSucceeds("head/folded"),
	httpSucceeds("head/hints"),
	httpUnreadable("head/hint-flood", "broke before the answer").allocating(maxAllocation),
	httpSucceeds("head/continue"),
	httpRefused("head/switching", "HTTP 101"),
	httpSucceeds("head/cookies").checking(func(s *httpRun) { s.callBadTool() }),
}

// callClosingServer calls a server that closes each connection after one answer without
// announcing it. The client cannot know whether a call on a closing connection was
// received: such a call fails, no call is sent twice, and the session is kept.
func callClosingServer(s *httpRun) {
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
		s.requireError(err, &wantError{mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, ""})
	}
	// After each failure the client sends one request to find out whether the server
	// still answers.
	require.LessOrEqual(s.t, s.server.Requests("POST")-before, calls+failed, "a call was sent twice")
	require.Less(s.t, failed, calls, "every call failed")
	// The last connection may be closed as well; that costs one call at most.
	_, _ = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.EchoTool, nil)
	s.requireServes(1)
}
