package streamable

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// breakThenHang makes a server that breaks the connection of each call after some time,
// and that does not answer a ping.
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

// Calls whose connections break together share one check, which takes at most
// confirmTimeout. A server that does not answer the check is not considered dead.
func TestConfirmAlive_oneBoundedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := breakThenHang(t, time.Second)
		s := openSession(t, web.spec())
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
		require.Len(t, web.requests("ping"), 2, "the next broken call starts another check")
	})
}

// A call that waits for the check returns when its context or the session ends.
func TestConfirmAlive_endsWithCallerAndSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, breakThenHang(t, 0).spec())
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

// The check may get the connection of the call that broke. It is repeated until it gets one of
// its own, which shows that the server is gone.
func TestConfirmAlive_check_on_the_broken_connection(t *testing.T) {
	for name, r := range map[string]transport.Request{"call": transporttest.ToolCall, "probe": {Method: "ping"}} {
		t.Run(name, func(t *testing.T) { checkOnBrokenConnection(t, r) })
	}
}

func checkOnBrokenConnection(t *testing.T, r transport.Request) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		broken := func(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) }
		web.handle("tools/call", broken)
		web.handle("ping", broken)
		spec := web.spec()
		spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if len(web.requests("ping")) > 1 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return web.RoundTrip(r)
		})}
		s := openSession(t, spec)
		_, err := s.Request(t.Context(), r)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		require.NotNil(t, s.Cause())
	})
}
