package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// breakThenHang is a server whose connections break at a call, together when
// after has passed, and that says nothing to the question whether it lives.
func breakThenHang(t *testing.T, after time.Duration) *memoryTransport {
	t.Helper()
	web := newMemoryTransport(t)
	web.handle("tools/call", func(http.ResponseWriter, *http.Request, json.RawMessage) {
		time.Sleep(after)
		panic(http.ErrAbortHandler)
	})
	web.handle("ping", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	return web
}

// Calls that break together share one check, which takes at most confirmTimeout. So
// a silent server delays no caller for longer, and a broken call alone does not
// prove that the server has died.
func TestConfirmAlive_oneBoundedCheck(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := breakThenHang(t, time.Second)
		s := openInMemory(t, web.spec())
		const calls = 8
		failed := make(chan error, calls)
		began := time.Now()
		for range calls {
			go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); failed <- err }()
		}
		for range calls {
			var e *mcpvisor.Error
			require.ErrorAs(t, <-failed, &e)
			require.Equal(t, mcpvisor.KindProtocol, e.Kind, e.Error())
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		}
		require.Equal(t, time.Second+confirmTimeout, time.Since(began))
		require.Len(t, web.requests("ping"), 1)
		require.Nil(t, s.Cause())

		_, err := s.Request(t.Context(), transporttest.ToolCall)
		require.Error(t, err)
		require.Len(t, web.requests("ping"), 2, "the next one that breaks asks again")
	})
}

// Whoever waits to hear whether the server lives still leaves with his context,
// and with the session.
func TestConfirmAlive_endsWithCallerAndSession(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		s := openInMemory(t, breakThenHang(t, 0).spec())
		ctx, cancel := context.WithTimeout(t.Context(), confirmTimeout/4)
		defer cancel()
		began := time.Now()
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.Equal(t, confirmTimeout/4, time.Since(began))

		time.AfterFunc(confirmTimeout/4, func() { s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested}) })
		_, err = s.Request(t.Context(), transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrClosed)
		require.Equal(t, confirmTimeout/2, time.Since(began))
	})
}

// A cancellation names its reason. It delays neither the caller nor the end of a
// connection for long, if the server does not accept it.
func TestNotifyCancelled_bounded(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
		given := make(chan time.Time, 2)
		web.handle("notifications/cancelled", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			web.hang(r)
			given <- time.Now()
		})
		s := openInMemory(t, web.spec())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, time.Second+notifyTimeout, (<-given).Sub(began))

		late := transporttest.ToolCall
		late.Timeout = time.Second
		_, err = s.Request(t.Context(), late)
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		synctest.Wait()
		ended := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
		require.Equal(t, ended, time.Now(), "the end of the session waited for a notice")
		for _, notice := range web.requests("notifications/cancelled") {
			require.Contains(t, notice.body, `"reason":"timed out"`)
		}
		require.Len(t, web.requests("notifications/cancelled"), 2)
	})
}

// An answer is an answer, though the caller has left or the session has died by
// the time it is looked at.
func TestCallError_answerAfterCallerLeft(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		s := openInMemory(t, newMemoryTransport(t).spec())
		gone, leave := context.WithCancel(t.Context())
		leave()
		canceled := s.startRequest(gone, transporttest.ToolCall)
		defer canceled.finish()
		open := s.startRequest(t.Context(), transporttest.ToolCall)
		defer open.finish()
		<-canceled.ctx.Done()
		said := &endpoint.HTTPError{Message: "no", Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered}
		var e *mcpvisor.Error
		require.ErrorAs(t, s.callError(canceled, s.agreed.Load(), said), &e)
		require.Equal(t, mcpvisor.KindRPC, e.Kind)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		require.ErrorAs(t, s.callError(open, s.agreed.Load(), said), &e)
		require.Equal(t, mcpvisor.KindRPC, e.Kind)
	})
}

// A session that was never opened takes no call, and says that none was sent.
func TestRequest_beforeOpen(t *testing.T) {
	s := newTestDialer(specFor("http://wireless.invalid/mcp")).NewSession()
	_, err := s.Request(t.Context(), transporttest.ToolCall)
	var e *mcpvisor.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, mcpvisor.KindUnavailable, e.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
	transporttest.RequireClosed(t, s.Released(), "session is not released")
}
