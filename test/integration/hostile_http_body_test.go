//go:build linux

package integration

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

// maxAllocation bounds the bytes that a call with an oversized answer may allocate: a
// few times the message limit, plus what the rest of the process allocates meanwhile.
// It counts allocated bytes, not live ones, so it suits only calls that end.
const maxAllocation = 128 << 20

var httpBodyRows = []httpRow{
	httpTimesOut("call/no-answer"),
	httpSucceeds("call/no-answer").with("caller_cancels", nil).doing(func(s *httpRun) {
		ctx, cancel := context.WithTimeout(s.fixture.within(), httpShortTimeout)
		defer cancel()
		_, err := s.c.CallTool(ctx, hostileServer+"/"+hostilehttp.BadTool, nil)
		s.requireError(err, &wantError{mcpvisor.ErrCanceled, mcpvisor.OutcomeUnknown, "deadline"})
		s.requireServes(1)
	}),
	httpSucceeds("call/no-answer").with("unregistered", nil).doing(func(s *httpRun) {
		failed := make(chan error, 1)
		go func() {
			_, err := s.c.CallTool(context.Background(), hostileServer+"/"+hostilehttp.BadTool, nil)
			failed <- err
		}()
		waitUntil(s.fixture.within(), s.t, "the call is in flight", func() bool {
			st, _ := s.c.ServerStatus(hostileServer)
			return st.Calls.InFlight == 1
		})
		began := time.Now()
		require.NoError(s.t, s.c.Unregister(s.fixture.within(), hostileServer))
		s.requireWithin("unregister", began, httpShutdownTimeout)
		require.ErrorIs(s.t, <-failed, mcpvisor.ErrClosed)
	}),
	httpTimesOut("call/stalled-body"),
	httpRefused("call/stalled-error", "HTTP 500").withTimeout(httpShortTimeout),
	httpSucceeds("call/slow"),
	httpTimesOut("call/slow-for-ever"),
	httpTimesOut("call/late"),
	httpRefused("call/html-200", "web page"),
	httpRefused("call/html-as-json", "web page"),
	httpSucceeds("call/no-type"),
	httpSucceeds("call/loud-type"),
	httpSucceeds("call/plain-type"),
	httpSucceeds("call/broken-type"),
	httpUnreadable("call/json-as-events", "ended without the answer"),
	httpUnreadable("call/events-as-json", "not valid JSON"),
	httpUnreadable("call/binary", "not valid JSON"),
	httpUnreadable("call/empty-200", "did not answer it"),
	httpUnreadable("call/blank-200", "did not answer it"),
	httpUnreadable("call/truncated", "not valid JSON"),
	httpUnreadable("call/trailing-junk", "not valid JSON"),
	httpSucceeds("call/bom"),
	httpUnreadable("call/utf16", "not valid JSON"),
	httpUnreadable("call/gzip-lie", "gzip"),
	httpUnreadable("call/gzip-cut", "broke in the middle"),
	httpSucceeds("call/gzip-unasked"),
	httpUnreadable("call/gzip-twice", "not valid JSON"),
	httpUnreadable("call/brotli", `Content-Encoding "br"`),

	httpRefused("call/gzip-bomb", "longer than 1048576 bytes").allocating(maxAllocation),
	httpRefused("call/endless-json", "longer than 1048576 bytes").allocating(maxAllocation),
	httpRefused("call/endless-blanks", "longer than 1048576 bytes").allocating(maxAllocation),
	httpRefused("call/endless-error", "HTTP 500").allocating(maxAllocation),
	httpRefused("call/50-mb", "longer than 1048576 bytes").allocating(maxAllocation),
	httpSucceeds("call/50-mb").with("within_limit", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 }).in(mcpvisor.EraLegacy).doing(func(s *httpRun) {
		raw, err := s.c.CallToolRaw(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
		require.NoError(s.t, err)
		require.Greater(s.t, len(raw), 50_000_000)
		s.requireServes(1)
	}),
	httpTooManyValues("call/broad-content"),
	httpTooManyValues("call/broad-structured"),
	httpRefused("call/says-huge", "longer than 1048576 bytes").allocating(maxAllocation),
	httpFails("call/deep", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").allocating(maxAllocation),
	httpFails("call/deep-objects", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").allocating(maxAllocation),

	httpUnreadable("call/foreign-id", "no answer to the request"),
	httpSucceeds("call/string-id"),
	httpSucceeds("call/float-id"),
	httpUnreadable("call/null-id", "no answer to the request"),
	httpSucceeds("call/no-version"),
	httpUnreadable("call/two-answers", "not valid JSON"),
	httpSucceeds("call/batch"),
	httpUnreadable("call/empty-batch", "no answer to the request"),
	httpUnreadable("call/nested-batch", "").allocating(maxAllocation),
	httpRPCError("call/result-and-error", "and an error"),
	httpUnreadable("call/neither", "no answer to the request"),
	httpUnreadable("call/echo-request", "no answer to the request"),
	httpRPCError("call/error-text", "no such luck"),
	httpRPCError("call/error-huge", "very very").in(mcpvisor.EraModern),
	httpRPCError("call/error-rude", "bad"),
	httpFails("call/result-null", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/result-text", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/content-holes", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/content-unknown", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpSucceeds("call/tool-error").returning("no"),
	httpFails("call/error-no-id", mcpvisor.ErrRPC, mcpvisor.OutcomeUnknown, "something failed"),
	httpSucceeds("call/error-no-id-then-answer"),
	httpFails("call/task", mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, "began a task"),
	httpSucceeds("call/swapped").doing(func(s *httpRun) {
		var callers sync.WaitGroup
		errs := make([]error, 2)
		for i, text := range []string{"mine", "yours"} {
			callers.Go(func() {
				_, errs[i] = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, map[string]any{"text": text})
			})
		}
		callers.Wait()
		for _, err := range errs {
			s.requireError(err, &wantError{mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, "no answer to the request"})
		}
		s.requireServes(1)
	}),
	httpUnreadable("call/on-the-stream", "did not answer it"),
}
