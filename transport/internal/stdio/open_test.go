package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestOpen_failure_names_stderr_and_redacts: the cause of a failed start quotes the
// stderr of a process that still runs, and hides secrets.
func TestOpen_failure_names_stderr_and_redacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newServerDialer(t, mcpvisor.EraAuto, func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, stderr io.Writer) error {
			_, _ = io.WriteString(stderr, "waiting for the database\n")
			<-ctx.Done()
			return ctx.Err()
		})
		_, cause := openOnce(t, d)
		require.NotNil(t, cause)
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Equal(t, []string{"waiting for the database"}, cause.Stderr)
	})
	d, _ := newServerDialer(t, mcpvisor.EraLegacy, eraServer("", `"error":{"code":-1,"message":"bad key hunter22"}`, 0))
	d.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	_, cause := openOnce(t, d)
	require.NotNil(t, cause)
	require.Contains(t, cause.Error(), "bad key ***")
	for err := error(cause); err != nil; {
		require.NotContains(t, err.Error(), transporttest.Secret)
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
}

// failingOpen returns the cause of a start that fails, of a server that serve is.
func failingOpen(t *testing.T, serve func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser)) *supervisor.Cause {
	t.Helper()
	d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		serve(ctx, stdin, stdout)
		return nil
	}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cause := testutil.AsError[*supervisor.Cause](t, s.Open(ctx))
	return cause
}

// TestOpenFailure_stray_output: the cause comes first, and there is no advice to wait
// longer, when a server writes something else than messages.
func TestOpenFailure_stray_output(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := failingOpen(t, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser) {
			go func() { _, _ = io.Copy(io.Discard, stdin) }()
			_, _ = io.WriteString(stdout, "Welcome\n")
			<-ctx.Done()
		})
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.True(t, strings.HasPrefix(cause.Message, `the server wrote to its stdout what is not JSON-RPC: "Welcome"`), cause.Message)
		require.Contains(t, cause.Message, "; server did not finish the handshake in time")
		require.NotContains(t, cause.Message, "raise")
	})
}

// TestOpenFailure_echo: a command that writes back what it reads is not an MCP server.
func TestOpenFailure_echo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := failingOpen(t, func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser) { _, _ = io.Copy(stdout, stdin) })
		require.Equal(t, "the command writes back what it reads; it is not an MCP server", cause.Message)
	})
}

// TestOpenFailure_begins_with_the_decisive_line: what the server says about its failure comes
// before that it ended, and what it wrote to stdout does where stderr says nothing.
func TestOpenFailure_begins_with_the_decisive_line(t *testing.T) {
	for name, c := range map[string]struct{ stdout, stderr, want string }{
		"stderr": {"hello\n", "at main\nError: no key\n    at f (x.js:1:2)\n", `Error: no key; the server wrote to its stdout what is not JSON-RPC: "hello" (`},
		"stdout": {"Please log in first\n", "Server running on stdio\n", `the server wrote to its stdout what is not JSON-RPC: "Please log in first" (`},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(_ context.Context, _ io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				_, _ = io.WriteString(stderr, c.stderr)
				_, _ = io.WriteString(stdout, c.stdout)
				return nil
			}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			cause := testutil.AsError[*supervisor.Cause](t, s.Open(t.Context()))
			require.True(t, strings.HasPrefix(cause.Message, c.want), cause.Message)
		})
	}
}

// TestOpenFailure_no_line_end: a server that writes messages and ends no line has not written nothing.
func TestOpenFailure_no_line_end(t *testing.T) {
	for end, want := range map[string]bool{"": true, "\r": true, "\n": false} {
		synctest.Test(t, func(t *testing.T) {
			message := `{"jsonrpc":"2.0","id":77,"result":{}}`
			cause := failingOpen(t, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser) {
				go func() { _, _ = io.Copy(io.Discard, stdin) }()
				_, _ = io.WriteString(stdout, message[:9]) // a pause is no fault
				time.Sleep(time.Second)
				_, _ = io.WriteString(stdout, message[9:]+end)
				<-ctx.Done()
			})
			require.Equal(t, supervisor.CauseTimeout, cause.Kind)
			text := fmt.Sprintf(`the server wrote %d bytes without a line end to its stdout: %q`, len(message+end), message)
			require.Equal(t, want, strings.HasPrefix(cause.Message, text), "%q: %s", end, cause.Message)
			require.Equal(t, want, strings.Contains(cause.Message, "without a line end"), cause.Message)
		})
	}
}

// TestSpawn_after_abort: a session that was aborted is released, so Open must not start
// a process.
func TestSpawn_after_abort(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		require.Fail(t, "a process is started")
		return nil, transporttest.ErrGivenUp
	}
	s := d.NewSession()
	s.Abort(transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "there is nothing to release")
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
}

// TestSpawn_aborted_meanwhile: the release of an aborted session waits for the process
// that is being started.
func TestSpawn_aborted_meanwhile(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s, spawn := d.NewSession(), d.spawn
	var started process.Process
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		s.Abort(transporttest.ErrGivenUp)
		select {
		case <-s.Released():
			require.Fail(t, "released before the process is started")
		default:
		}
		p, cause := spawn(1)
		started = p
		return p, cause
	}
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "nothing is left")
	transporttest.RequireClosed(t, started.Exited(), "the process is not ended")
}

// killedProcess records that it was killed.
type killedProcess struct {
	process.Process
	killed atomic.Bool
}

func (p *killedProcess) Kill() {
	p.killed.Store(true)
	p.Process.Kill()
}

// TestSpawn_killed_meanwhile: a process that is being started while the session is killed gets no
// grace.
func TestSpawn_killed_meanwhile(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s, spawn := d.NewSession(), d.spawn
	started := &killedProcess{}
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		s.Kill(transporttest.ErrGivenUp)
		p, cause := spawn(1)
		started.Process = p
		return started, cause
	}
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "nothing is left")
	require.True(t, started.killed.Load(), "it was asked to end, and not killed")
}

// TestSpawn_second_process_after_the_first_is_gone: the second process of a negotiation
// starts after the first one has ended. Two processes could contend for one lock or
// port.
func TestSpawn_second_process_after_the_first_is_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(time.Second) // it cleans up before it exits
				return err
			}))
		era, cause := openOnce(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.EqualValues(t, 2, started.Load())
		require.EqualValues(t, 1, most.Load())
	})
}

// TestSpawn_first_process_does_not_end: the deadline of Open also bounds the wait for
// the end of the first process.
func TestSpawn_first_process_does_not_end(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(2 * time.Hour)
				return err
			}))
		d.spec.Timeouts.Shutdown = time.Hour
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.Error(t, s.Open(ctx))
		require.LessOrEqual(t, time.Since(began), time.Minute)
		<-s.Released()
		require.EqualValues(t, 1, started.Load())
		time.Sleep(3 * time.Hour)
	})
}

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
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.Equal(t, mcpvisor.ErrCrashed, e.Kind)
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
	d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			calls <- ctx
			return serve(ctx, stdin, stdout, stderr)
		}}}, transporttest.MemoryOptions)
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
