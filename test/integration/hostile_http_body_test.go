//go:build linux

package integration

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile/hostilehttp"
)

// frugal is what a call with far too large an answer may cost: a few times the
// limit of one message, beside what everybody else in the process does. It counts
// what was allocated and not what is held, so it is for answers that end.
const frugal = 128 << 20

var httpBodyRows = []httpRow{
	httpOverdue("call/no-answer"),
	httpFine("call/no-answer").with("caller leaves", nil).acting(func(s *httpRun) {
		ctx, cancel := context.WithTimeout(s.fixture.within(), httpSoon)
		defer cancel()
		_, err := s.c.CallTool(ctx, hostileServer+"/"+hostilehttp.BadTool, nil)
		s.judge(err, &wantError{mcpvisor.ErrCanceled, mcpvisor.OutcomeUnknown, "deadline"})
		s.serves(1)
	}),
	httpFine("call/no-answer").with("unregister", nil).acting(func(s *httpRun) {
		failed := make(chan error, 1)
		go func() {
			_, err := s.c.CallTool(context.Background(), hostileServer+"/"+hostilehttp.BadTool, nil)
			failed <- err
		}()
		until(s.fixture.within(), s.t, "the call is under way", func() bool {
			st, _ := s.c.ServerStatus(hostileServer)
			return st.Calls.InFlight == 1
		})
		began := time.Now()
		require.NoError(s.t, s.c.Unregister(s.fixture.within(), hostileServer))
		s.inTime("unregister", began, httpShutdown)
		require.ErrorIs(s.t, <-failed, mcpvisor.ErrClosed)
	}),
	httpOverdue("call/stalled-body"),
	httpRefused("call/stalled-error", "HTTP 500").by(httpSoon),
	httpFine("call/slow"),
	httpOverdue("call/slow-for-ever"),
	httpOverdue("call/late"),
	httpRefused("call/html-200", "web page"),
	httpRefused("call/html-as-json", "web page"),
	httpFine("call/no-type"),
	httpFine("call/loud-type"),
	httpFine("call/plain-type"),
	httpFine("call/broken-type"),
	httpGarbled("call/json-as-events", "ended without the answer"),
	httpGarbled("call/events-as-json", "not valid JSON"),
	httpGarbled("call/binary", "not valid JSON"),
	httpGarbled("call/empty-200", "did not answer it"),
	httpGarbled("call/blank-200", "did not answer it"),
	httpGarbled("call/truncated", "not valid JSON"),
	httpGarbled("call/trailing-junk", "not valid JSON"),
	httpGarbled("call/bom", "not valid JSON"),
	httpGarbled("call/utf16", "not valid JSON"),
	httpGarbled("call/gzip-lie", "gzip"),
	httpGarbled("call/gzip-cut", "broke in the middle"),
	httpFine("call/gzip-unasked"),
	httpGarbled("call/gzip-twice", "not valid JSON"),
	httpGarbled("call/brotli", "not valid JSON"),

	httpRefused("call/gzip-bomb", "longer than 1048576 bytes").within(frugal),
	httpRefused("call/endless-json", "longer than 1048576 bytes").within(frugal),
	httpRefused("call/endless-blanks", "longer than 1048576 bytes").within(frugal),
	httpRefused("call/endless-error", "HTTP 500").within(frugal),
	httpRefused("call/50-mb", "longer than 1048576 bytes").within(frugal),
	httpFine("call/50-mb").with("under the limit", func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 0 }).in(mcpvisor.EraLegacy).acting(func(s *httpRun) {
		raw, err := s.c.CallToolRaw(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, nil)
		require.NoError(s.t, err)
		require.Greater(s.t, len(raw), 50_000_000)
		s.serves(1)
	}),
	httpBroad("call/broad-content"),
	httpBroad("call/broad-structured"),
	httpRefused("call/says-huge", "longer than 1048576 bytes").within(frugal),
	httpFails("call/deep", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").within(frugal),
	httpFails("call/deep-objects", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "").within(frugal),

	httpGarbled("call/foreign-id", "no answer to the request"),
	httpFine("call/string-id"),
	httpFine("call/float-id"),
	httpGarbled("call/null-id", "no answer to the request"),
	httpFine("call/no-version"),
	httpGarbled("call/two-answers", "not valid JSON"),
	httpFine("call/batch"),
	httpGarbled("call/empty-batch", "no answer to the request"),
	httpGarbled("call/nested-batch", "").within(frugal),
	httpSays("call/result-and-error", "and an error"),
	httpGarbled("call/neither", "no answer to the request"),
	httpGarbled("call/echo-request", "no answer to the request"),
	httpSays("call/error-text", "no such luck"),
	httpSays("call/error-huge", "very very").in(mcpvisor.EraModern),
	httpSays("call/error-rude", "bad"),
	httpFails("call/result-null", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/result-text", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/content-holes", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFails("call/content-unknown", mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered, "cannot be read"),
	httpFine("call/tool-error").saying("no"),
	httpFine("call/swapped").acting(func(s *httpRun) {
		var callers sync.WaitGroup
		errs := make([]error, 2)
		for i, text := range []string{"mine", "yours"} {
			callers.Go(func() {
				_, errs[i] = s.c.CallTool(s.fixture.within(), hostileServer+"/"+hostilehttp.BadTool, map[string]any{"text": text})
			})
		}
		callers.Wait()
		for _, err := range errs {
			s.judge(err, &wantError{mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown, "no answer to the request"})
		}
		s.serves(1)
	}),
	httpGarbled("call/on-the-stream", "did not answer it"),
}
