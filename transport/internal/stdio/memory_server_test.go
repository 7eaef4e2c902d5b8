package stdio

import (
	"context"
	"errors"
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func openMemory(t *testing.T, serve transporttest.ServeFunc) transport.Session {
	t.Helper()
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: serve},
		Timeouts: mcpvisor.Timeouts{Shutdown: 100 * time.Millisecond}}, transporttest.MemoryOptions)
	require.NoError(t, err)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	return s
}

func TestMemoryServer(t *testing.T) {
	s := openMemory(t, transporttest.LegacyServer(nil))
	info := s.Info()
	require.Equal(t, "2025-11-25", info.ProtocolVersion)
	require.Equal(t, mcpvisor.EraLegacy, info.Era)
	require.Equal(t, "tiny", info.ServerName)
	require.Equal(t, "3", info.ServerVersion)
	require.Zero(t, info.PID, "it is no process")
	raw, err := s.Request(t.Context(), transporttest.TinyCall("a"))
	require.NoError(t, err)
	require.JSONEq(t, `{"content":[]}`, string(raw))
	require.False(t, s.LastReceived().IsZero())

	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	transporttest.RequireClosed(t, s.Released(), "an idle server ends with its stdin")
	require.Equal(t, "enough", s.Cause().Error())
}

// TestMemoryServer_end_is_the_cause: what Serve returns is the cause, as an exit status is.
func TestMemoryServer_end_is_the_cause(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		end  func(io.Writer) error
		says string
		is   error
	}{
		"by itself":  {func(io.Writer) error { return nil }, "server ended", nil},
		"at its end": {func(io.Writer) error { return io.EOF }, "server ended", nil},
		"badly":      {func(io.Writer) error { return broken }, "server ended: the disk is full", broken},
		"in a panic": {func(io.Writer) error { panic("index out of range") }, "server ended: panic: index out of range", nil},
		"with an error that panics": {func(io.Writer) error { return (*url.Error)(nil) },
			"server ended: the host's Serve returned an error of type *url.Error that panicked: runtime error: invalid memory address or nil pointer dereference", nil},
		"with words": {func(w io.Writer) error { _, err := io.WriteString(w, "first\nlast words"); return err }, "server ended", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := openMemory(t, transporttest.LegacyServer(c.end))
			_, err := s.Request(t.Context(), transporttest.TinyCall("end"))
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.KindCrashed, e.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			transporttest.RequireClosed(t, s.Released(), "nothing is left")
			require.Equal(t, supervisor.CauseExit, s.Cause().Kind)
			require.Equal(t, c.says, s.Cause().Error())
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			if name == "with words" {
				require.Equal(t, []string{"first", "last words"}, e.Stderr)
			}
		})
	}
}

// TestMemoryServer_started_for_each_session: each incarnation is a call of its own.
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
		transporttest.RequireClosed(t, s.Released(), "it is gone")
		require.Error(t, (<-calls).Err(), "its context ends with it")
	}
}

// TestMemoryServer_reads_nothing: requests end all the same, and so does the
// session.
func TestMemoryServer_reads_nothing(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
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
		const recall = 5 * time.Second // the go-sdk may try that long to recall its request
		require.LessOrEqual(t, time.Since(start), time.Minute+recall+mcpvisor.DefaultShutdownTimeout)
	})
}

// TestMemoryServer_ignores_shutdown: it minds neither its stdin nor its
// context, and holds up nobody.
func TestMemoryServer_ignores_shutdown(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
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
		require.LessOrEqual(t, time.Since(began), mcpvisor.DefaultShutdownTimeout)
	})
}
