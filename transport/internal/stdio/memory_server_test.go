package stdio

import (
	"context"
	"errors"
	"io"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestMemoryServer: a server in memory is served, and ends when its stdin is closed.
func TestMemoryServer(t *testing.T) {
	s := openMemory(t, transporttest.LegacyServer(nil))
	info := s.Info()
	require.Equal(t, "2025-11-25", info.ProtocolVersion)
	require.Equal(t, mcpvisor.EraLegacy, info.Era)
	require.Equal(t, "tiny", info.ServerName)
	require.Equal(t, "3", info.ServerVersion)
	require.Zero(t, info.PID, "a goroutine has no process id")
	raw, err := s.Request(t.Context(), transporttest.TinyCall("a"))
	require.NoError(t, err)
	require.JSONEq(t, `{"content":[]}`, string(raw))
	require.False(t, s.LastReceived().IsZero())

	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	transporttest.RequireClosed(t, s.Released(), "an idle server does not end with its stdin")
	require.Equal(t, "enough", s.Cause().Error())
}

// TestMemoryServer_end_is_the_cause: what Serve returns is the cause of the end, as the
// exit status of a process is.
func TestMemoryServer_end_is_the_cause(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		end  func(io.Writer) error
		text string
		is   error
	}{
		"returns nil":      {func(io.Writer) error { return nil }, "server ended", nil},
		"returns io.EOF":   {func(io.Writer) error { return io.EOF }, "server ended", nil},
		"returns an error": {func(io.Writer) error { return broken }, "server ended: the disk is full", broken},
		"panics":           {func(io.Writer) error { panic("index out of range") }, "server ended: panic: index out of range", nil},
		"returns an error that panics": {func(io.Writer) error { return (*url.Error)(nil) },
			"server ended: the host's Serve returned an error of type *url.Error that panicked: runtime error: invalid memory address or nil pointer dereference", nil},
		"writes to stderr": {func(w io.Writer) error { _, err := io.WriteString(w, "first\nlast line"); return err }, "server ended", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := openMemory(t, transporttest.LegacyServer(c.end))
			_, err := s.Request(t.Context(), transporttest.TinyCall("end"))
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.KindCrashed, e.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			transporttest.RequireClosed(t, s.Released(), "the session is not released")
			require.Equal(t, supervisor.CauseExit, s.Cause().Kind)
			require.Equal(t, c.text, s.Cause().Error())
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			if name == "writes to stderr" {
				require.Equal(t, []string{"first", "last line"}, e.Stderr)
			}
		})
	}
}

// TestMemoryServer_started_for_each_session: each session calls Serve once, with a
// context that ends with the session.
func TestMemoryServer_started_for_each_session(t *testing.T) {
	calls := make(chan context.Context, 10)
	serve := transporttest.LegacyServer(nil)
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			calls <- ctx
			return serve(ctx, stdin, stdout, stderr)
		}}}, transporttest.MemoryOptions)
	require.NoError(t, err)
	for range 3 {
		s := d.NewSession()
		require.Empty(t, calls, "a session that is not opened starts nothing")
		require.NoError(t, s.Open(t.Context()))
		require.Len(t, calls, 1)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		transporttest.RequireClosed(t, s.Released(), "the session is not released")
		require.Error(t, (<-calls).Err(), "the context of Serve outlives the session")
	}
}

// TestMemoryServer_reads_nothing: opening a session fails in time, and the session is
// released.
func TestMemoryServer_reads_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{
			Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
				<-ctx.Done()
				return ctx.Err()
			}}}, transporttest.MemoryOptions)
		require.NoError(t, err)
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err = s.Open(ctx)
		var cause *supervisor.Cause
		require.ErrorAs(t, err, &cause)
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Same(t, cause, s.Cause())
		<-s.Released()
		const cancelTimeout = 5 * time.Second // the go-sdk may take so long to cancel its request
		require.LessOrEqual(t, time.Since(start), time.Minute+cancelTimeout+defaults.ShutdownTimeout)
	})
}

// TestMemoryServer_ignores_shutdown: a server that ignores the end of its stdin and of
// its context does not delay the release beyond the shutdown timeout.
func TestMemoryServer_ignores_shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		defer close(leave)
		legacy := transporttest.LegacyServer(nil)
		d, _ := newServerDialer(t, mcpvisor.EraLegacy, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			err := legacy(ctx, stdin, stdout, stderr)
			<-leave
			return err
		})
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		began := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
		<-s.Released()
		require.LessOrEqual(t, time.Since(began), defaults.ShutdownTimeout)
	})
}
