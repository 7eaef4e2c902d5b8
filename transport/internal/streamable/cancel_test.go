package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// The cause of the caller's context is not interpreted as an error of this server, even if
// it is a connection error.
func TestRequest_foreignCancelCause(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			received := make(chan struct{}, 1)
			web.handle("tools/call", firstTime(func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				received <- struct{}{}
				web.hang(r)
			}))
			s := openSession(t, specFor(web.URL))
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, transporttest.ToolCall); failed <- err }()
			<-received
			cancel(cause)
			transporttest.RequireCanceled(t, <-failed, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			requireServing(t, s)
		})
	}
}

// The cause of the caller's context is not interpreted as a connection error of this
// server, although the session is connecting.
func TestRequest_foreignCancelCauseWhileConnecting(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			dialling := make(chan struct{}, 1)
			hold := make(chan struct{}, 1)
			spec := specFor(web.URL)
			spec.HTTP.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					select {
					case <-hold:
						dialling <- struct{}{}
						<-ctx.Done()
						return nil, ctx.Err()
					default:
						return new(net.Dialer).DialContext(ctx, network, addr)
					}
				}}}
			s := openSession(t, spec)
			hold <- struct{}{}
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, transporttest.ToolCall); failed <- err }()
			<-dialling
			cancel(cause)
			transporttest.RequireCanceled(t, <-failed, context.Canceled, cause, mcpvisor.OutcomeNotSent)
			requireServing(t, s)
		})
	}
}

// The deadline of the caller's context is a cancellation; Request.Timeout is a timeout.
func TestRequest_deadlineOfCallerOrSession(t *testing.T) {
	quiet := func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		return transporttest.LegacyServer(nil)(context.Background(), stdin, &droppingWriter{WriteCloser: stdout, what: `"content"`}, stderr)
	}
	web := newHTTPServer(t)
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	for name, s := range map[string]transport.Session{"HTTP": openSession(t, specFor(web.URL)), "memory": openPipes(t, quiet)} {
		t.Run(name, func(t *testing.T) {
			call := transporttest.TinyCall("any")
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := s.Request(ctx, call)
			transporttest.RequireCanceled(t, err, context.DeadlineExceeded, nil, mcpvisor.OutcomeUnknown)

			why := fmt.Errorf("time budget: %w", mcpvisor.ErrTimeout)
			ctx, stop := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, why)
			defer stop()
			_, err = s.Request(ctx, call)
			transporttest.RequireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeUnknown)
			_, err = s.Request(ctx, call)
			transporttest.RequireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeNotSent)

			call.Timeout = 50 * time.Millisecond
			_, err = s.Request(context.Background(), call)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.KindTimeout, e.Kind)
			require.NotErrorIs(t, err, mcpvisor.ErrCanceled)
		})
	}
}

// droppingWriter drops every write that contains a text.
type droppingWriter struct {
	io.WriteCloser
	what string
}

func (d *droppingWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(d.what)) {
		return len(p), nil
	}
	return d.WriteCloser.Write(p)
}

// A cancellation contains its reason. A server that does not accept the notification
// delays neither the caller nor the release of the session.
func TestNotifyCancelled_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
		returned := make(chan time.Time, 2)
		web.handle("notifications/cancelled", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			web.hang(r)
			returned <- time.Now()
		})
		s := openSession(t, web.spec())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, time.Second+notifyTimeout, (<-returned).Sub(began))

		late := transporttest.ToolCall
		late.Timeout = time.Second
		_, err = s.Request(t.Context(), late)
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		synctest.Wait()
		ended := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
		require.Equal(t, ended, time.Now(), "the release waited for the notification")
		for _, notice := range web.requests("notifications/cancelled") {
			require.Contains(t, notice.body, `"reason":"timed out"`)
		}
		require.Len(t, web.requests("notifications/cancelled"), 2)
	})
}
