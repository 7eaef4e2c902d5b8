package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// serveFunc is what mcpvisor.InMemory takes.
type serveFunc = func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error

// legacyServer speaks initialize and one tool, in the fewest words; a call
// with "end" in it makes it return.
func legacyServer(end func(stderr io.Writer) error) serveFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		lines := bufio.NewScanner(stdin)
		for lines.Scan() {
			e, _ := ScanEnvelope(lines.Bytes())
			var result string
			switch string(e.Method) {
			case `"initialize"`:
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"3"}}`
			case `"tools/call"`:
				if strings.Contains(lines.Text(), `"end"`) {
					return end(stderr)
				}
				result = `{"content":[]}`
			default:
				if e.ID == nil {
					continue
				}
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", e.ID)
				continue
			}
			fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", e.ID, result)
		}
		return lines.Err()
	}
}

var memoryOptions = Options{ClientInfo: &mcp.Implementation{Name: "memory-test", Version: "1"}}

// tinyCall is a call that legacyServer answers.
func tinyCall(tool string) Request {
	return Request{Method: "tools/call", Target: tool, Params: json.RawMessage(`{"name":"` + tool + `"}`)}
}

func openMemory(t *testing.T, serve serveFunc) Session {
	t.Helper()
	d, err := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: serve},
		Timeouts: mcpvisor.Timeouts{Shutdown: 100 * time.Millisecond}}, memoryOptions)
	require.NoError(t, err)
	s := d.NewSession()
	releaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	return s
}

func TestMemoryServes(t *testing.T) {
	s := openMemory(t, legacyServer(nil))
	info := s.Info()
	require.Equal(t, "2025-11-25", info.ProtocolVersion)
	require.Equal(t, mcpvisor.EraLegacy, info.Era)
	require.Equal(t, "tiny", info.ServerName)
	require.Equal(t, "3", info.ServerVersion)
	require.Zero(t, info.PID, "it is no process")
	raw, err := s.Request(t.Context(), tinyCall("a"))
	require.NoError(t, err)
	require.JSONEq(t, `{"content":[]}`, string(raw))
	require.False(t, s.LastHeard().IsZero())

	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	requireClosed(t, s.Released(), "an idle server ends with its stdin")
	require.Equal(t, "enough", s.Cause().Error())
}

// TestMemoryServerEnds: what Serve returns is the cause, as an exit status is.
func TestMemoryServerEnds(t *testing.T) {
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
			s := openMemory(t, legacyServer(c.end))
			_, err := s.Request(t.Context(), tinyCall("end"))
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.KindCrashed, e.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			requireClosed(t, s.Released(), "nothing is left")
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

// TestMemoryServerIsNew: each incarnation is a call of its own.
func TestMemoryServerIsNew(t *testing.T) {
	calls := make(chan context.Context, 10)
	serve := legacyServer(nil)
	d, err := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			calls <- ctx
			return serve(ctx, stdin, stdout, stderr)
		}}}, memoryOptions)
	require.NoError(t, err)
	for range 3 {
		s := d.NewSession()
		require.Empty(t, calls, "a session that is not opened starts nothing")
		require.NoError(t, s.Open(t.Context()))
		require.Len(t, calls, 1)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		requireClosed(t, s.Released(), "it is gone")
		require.Error(t, (<-calls).Err(), "its context ends with it")
	}
}

// TestMemoryServerIsStopped: stdin first, the context after half the grace; one
// that ignores both is left behind and holds up nobody.
func TestMemoryServerIsStopped(t *testing.T) {
	const grace = time.Hour
	for name, c := range map[string]struct {
		serve func(ctx context.Context, stdin io.Reader, never <-chan struct{})
		after time.Duration
		left  bool
	}{
		"stdin ends it":   {func(_ context.Context, stdin io.Reader, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, stdin) }, 0, false},
		"context ends it": {func(ctx context.Context, _ io.Reader, _ <-chan struct{}) { <-ctx.Done() }, grace / 2, false},
		"nothing does":    {func(_ context.Context, _ io.Reader, never <-chan struct{}) { <-never }, grace, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				never := make(chan struct{})
				r := startRoutine(&mcpvisor.InMemory{
					Serve: func(ctx context.Context, stdin io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
						c.serve(ctx, stdin, never)
						return nil
					}}, 5, nil)
				require.Equal(t, "server is running", r.ExitCause().Error())
				start := time.Now()
				r.Terminate(grace)
				r.Release()
				require.Equal(t, c.after, time.Since(start))
				select {
				case <-r.Exited():
					require.False(t, c.left)
					require.Equal(t, "server ended", r.ExitCause().Error())
				default:
					require.True(t, c.left)
				}
				close(never)
				<-r.Exited()
			})
		})
	}
}

// TestMemoryServerThatReadsNothing: requests end all the same, and so does the
// session.
func TestMemoryServerThatReadsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d, err := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{
			Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
				<-ctx.Done()
				return ctx.Err()
			}}}, memoryOptions)
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

// A goroutine cannot be killed. The error of Release says that it still runs.
func TestRoutine_release_while_it_runs(t *testing.T) {
	stays := make(chan struct{})
	defer close(stays)
	r := startRoutine(&mcpvisor.InMemory{Serve: func(_ context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		<-stays
		return nil
	}}, 5, nil)
	r.Terminate(0)
	require.ErrorContains(t, r.Release(), "is still running")
}
