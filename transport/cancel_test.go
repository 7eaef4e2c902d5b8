package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// foreignCauses are causes that a caller's context may well have, because they
// were the errors of something else: an errgroup does that.
var foreignCauses = map[string]error{
	"a refused dial":          &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	"a refused proxy":         &net.OpError{Op: "proxyconnect", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	"an unknown host":         &net.DNSError{Name: "db.example", IsNotFound: true},
	"another call's timeout":  fmt.Errorf("other: %w", &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Cause: ErrOverdue}),
	"the sentinel of timeout": mcpvisor.ErrTimeout,
	"another server's death":  &supervisor.Cause{Kind: supervisor.CauseExit, Message: "it ended"},
}

// requireCanceled asserts that a call ended because its caller's context did.
func requireCanceled(t *testing.T, err, is, cause error, outcome mcpvisor.Outcome) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.KindCanceled, e.Kind, e.Error())
	require.Equal(t, outcome, e.Outcome, e.Error())
	require.ErrorIs(t, err, is)
	if cause != nil {
		require.ErrorIs(t, err, cause)
	}
}

// What ends the caller's context says nothing about this server.
func TestHTTPCallersCauseIsNotOurs(t *testing.T) {
	for name, cause := range foreignCauses {
		t.Run(name, func(t *testing.T) {
			web := newScripted(t)
			asked := make(chan struct{}, 1)
			web.handle("tools/call", oneTime(func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				asked <- struct{}{}
				web.hang(r)
			}))
			s := openHTTP(t, httpSpec(web.URL))
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, toolCall); failed <- err }()
			<-asked
			cancel(cause)
			requireCanceled(t, <-failed, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			requireServing(t, s)
		})
	}
}

// Nor does it while the server has not even accepted a connection.
func TestHTTPCallersCauseWhileConnecting(t *testing.T) {
	for name, cause := range foreignCauses {
		t.Run(name, func(t *testing.T) {
			web := newScripted(t)
			dialling := make(chan struct{}, 1)
			hold := make(chan struct{}, 1)
			spec := httpSpec(web.URL)
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
			s := openHTTP(t, spec)
			hold <- struct{}{}
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, toolCall); failed <- err }()
			<-dialling
			cancel(cause)
			requireCanceled(t, <-failed, context.Canceled, cause, mcpvisor.OutcomeNotSent)
			requireServing(t, s)
		})
	}
}

func TestWireCallersCauseIsNotOurs(t *testing.T) {
	for name, cause := range foreignCauses {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := p.ask(ctx, Request{Method: "tools/call"})
			id := p.read().ID
			cancel(cause)
			requireCanceled(t, (<-failed).err, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			notice := p.read()
			require.Equal(t, "notifications/cancelled", notice.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":"canceled"}`, id), string(notice.Params))
		})
	}
}

// The caller's deadline is the caller's, the session's own clock a timeout.
func TestDeadlinesOfCallerAndSession(t *testing.T) {
	quiet := func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		return legacyServer(nil)(context.Background(), stdin, &deafTo{WriteCloser: stdout, what: `"content"`}, stderr)
	}
	web := newScripted(t)
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	for name, s := range map[string]Session{"HTTP": openHTTP(t, httpSpec(web.URL)), "memory": openMemory(t, quiet)} {
		t.Run(name, func(t *testing.T) {
			call := tinyCall("any")
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := s.Request(ctx, call)
			requireCanceled(t, err, context.DeadlineExceeded, nil, mcpvisor.OutcomeUnknown)

			why := fmt.Errorf("budget: %w", mcpvisor.ErrTimeout)
			ctx, stop := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, why)
			defer stop()
			_, err = s.Request(ctx, call)
			requireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeUnknown)
			_, err = s.Request(ctx, call)
			requireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeNotSent)

			call.Timeout = 50 * time.Millisecond
			_, err = s.Request(context.Background(), call)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.KindTimeout, e.Kind)
			require.NotErrorIs(t, err, mcpvisor.ErrCanceled)
		})
	}
}

// deafTo drops what holds a text.
type deafTo struct {
	io.WriteCloser
	what string
}

func (d *deafTo) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(d.what)) {
		return len(p), nil
	}
	return d.WriteCloser.Write(p)
}
